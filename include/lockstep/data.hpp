// Data sets and their stages.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/augmentation.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/cache.hpp"
#include "lockstep/data/enumerate.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/filter.hpp"
#include "lockstep/data/generator.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/order.hpp"
#include "lockstep/data/parallel_read.hpp"
#include "lockstep/data/stream.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/data/window.hpp"
