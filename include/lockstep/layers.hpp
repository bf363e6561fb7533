// Layers.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/activity_regularization.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/bidirectional.hpp"
#include "lockstep/layers/conv1d.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/conv2d_transpose.hpp"
#include "lockstep/layers/conv3d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/margins.hpp"
#include "lockstep/layers/masking.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/pooling1d.hpp"
#include "lockstep/layers/pooling3d.hpp"
#include "lockstep/layers/rescaling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/layers/up_sampling.hpp"
