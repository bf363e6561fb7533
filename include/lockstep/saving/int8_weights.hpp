// Int8Weights: a policy of inference, for Predictor and Generator.
#pragma once

#include <algorithm>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/int8.hpp"
#include "lockstep/saving/constant_variables.hpp"
#include "lockstep/step/program.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// Whether it becomes int8. (A smaller kernel would gain nothing: its rows are padded.)
[[nodiscard]] constexpr bool fits_int8(const Variable& variable) {
  return variable.product_units > 0 && kernels::fits_int8(variable.size() / variable.product_units);
}

template <class Net>
consteval bool has_kernels_for_int8() {
  using In = typename Net::InputShape;
  return std::ranges::any_of(Net::template variables<In>, fits_int8) ||
         std::ranges::any_of(Net::template state_variables<In>, fits_int8);
}

/// The condition of a message.
template <class Net>
concept HasKernelsForInt8 = has_kernels_for_int8<Net>();

/// Rounds what fits, and takes no more memory for its floats.
[[nodiscard]] ConstantVariables<float> int8_variables(const Program<float>& program,
                                                      ConstantVariables<float> variables);

}  // namespace detail

/// Kernels of Dense and of attention's projections, of 32 inputs at least, and tables of Embedding,
/// of that width, in 8 bits: a quarter of their memory, and less time. Each unit's weights, or each
/// row of a table, are whole numbers from -127 to 127 times a scale; each row that they multiply is
/// rounded in the same way, with its largest number. A TiedHead multiplies by its table's rows. All
/// else is float: convolutions and recurrent layers, which Keras does not round either, positions,
/// and what activations and normalisation compute.
///
/// The file is one of float32; weights are rounded when it is loaded. A product has the same bits
/// on each instruction set, and a sample's outputs do not depend on the others of its call. In the
/// library's own examples accuracy stays within half a per cent; check it on yours. Each thread
/// keeps memory for the numbers of 64 rows.
/// @code
/// const Predictor<Net, Int8Weights> net("net.safetensors");
/// const Generator<Gpt, Int8Weights> gpt("gpt.safetensors");
/// @endcode
/// Use: `Predictor<Sequential<Input<784>, Dense<10>>, Int8Weights>("net.safetensors")`. Keras:
/// `model.quantize("int8")`.
struct Int8Weights {
  /// See detail::InInference.
  template <class Net>
  struct Prepared {
    static_assert(detail::HasKernelsForInt8<Net>,
                  "lockstep: Int8Weights rounds kernels of Dense and of attention with at least 32 "
                  "inputs and tables of Embedding of that width, and this network has none: leave "
                  "it out, Predictor<Net>");
    using Network = Net;
    using Scalar = float;
    static detail::ConstantVariables<float> prepared(const detail::Program<float>& program,
                                                     detail::ConstantVariables<float> variables) {
      return detail::int8_variables(program, std::move(variables));
    }
  };
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/saving/int8_weights.ipp"
#endif
