// SwiGLU: the gated feed-forward network of Llama.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/sequential.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Down(SiLU(Gate(x)) * Up(x)), where Gate and Up are Dense<Hidden> and Down is Dense<Units>,
/// without biases: Llama's gate_proj, up_proj and down_proj. Its variables are those of
/// `Sequential<Parallel<Multiply, Gate, Up>, Down>`. Shazeer, "GLU variants improve transformer",
/// arXiv 2002.05202, 2020.
/// Use: `SwiGLU<24, 16>`: Shape<16> -> Shape<16>; kernel (16, 24), kernel (16, 24), kernel (24,
/// 16). Keras: none.
template <std::size_t Hidden, std::size_t Units,
          DenseOptions Options = DenseOptions{.use_bias = false}>
using SwiGLU =
    Sequential<Parallel<Multiply, Dense<Hidden, SiLU, Options>, Dense<Hidden, Linear, Options>>,
               Dense<Units, Linear, Options>>;

}}  // namespace lockstep
