// The kernels, what layers and networks run of them, and sums over ranks.
#define LOCKSTEP_SOURCE 1
#define LOCKSTEP_KERNELS_SOURCE 1

// At -O3, g++ 12 takes the vectors that Philox::generate writes for read.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "lockstep/collectives/reduction/combine.ipp"
#include "lockstep/data/tensor.hpp"
#include "lockstep/kernels/attention.hpp"
#include "lockstep/kernels/bfloat16.ipp"
#include "lockstep/kernels/bilinear.hpp"
#include "lockstep/kernels/channel_sums.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/convolution1d.hpp"
#include "lockstep/kernels/convolution_weights.hpp"
#include "lockstep/kernels/decoding.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/embedding.hpp"
#include "lockstep/kernels/few_samples.hpp"
#include "lockstep/kernels/group_normalization.hpp"
#include "lockstep/kernels/gru.hpp"
#include "lockstep/kernels/layer_normalization.hpp"
#include "lockstep/kernels/lstm.hpp"
#include "lockstep/kernels/pooling.hpp"
#include "lockstep/kernels/product.hpp"
#include "lockstep/kernels/random.hpp"
#include "lockstep/kernels/recurrence.hpp"
#include "lockstep/kernels/rotary.hpp"
#include "lockstep/kernels/sequences.hpp"
#include "lockstep/kernels/simple_rnn.hpp"
#include "lockstep/kernels/softmax.hpp"
#include "lockstep/kernels/time_major.hpp"
#include "lockstep/kernels/transpose.hpp"
#include "lockstep/kernels/winograd.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/network/branches.hpp"
#include "lockstep/network/decoding.hpp"
#include "lockstep/network/run_layers.hpp"

// (For lockstep.cpp, where other sources follow.)
#undef LOCKSTEP_EXTERN
#define LOCKSTEP_EXTERN(...) extern template __VA_ARGS__
