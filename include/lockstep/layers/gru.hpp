// GRU: a recurrent layer with gates and one state.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/constraint.hpp"
#include "lockstep/core/initializer.hpp"
#include "lockstep/core/regularizer.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/gru.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/recurrent.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Compile-time options of GRU; the defaults are Keras's.
struct GRUOptions {
  bool return_sequences = false;  ///< the states of all steps, and not only of the last one
  bool go_backwards = false;  ///< from the last token to the first; the output is in that order too
  bool reset_after = true;    ///< the reset gate comes after the product with the recurrent kernel
  double dropout = 0;         ///< of the inputs: one mask for all steps and gates
  double recurrent_dropout = 0;  ///< of the state that is multiplied, likewise
  bool use_bias = true;
  InitializerOption kernel_initializer = glorot_uniform;
  InitializerOption recurrent_initializer = orthogonal;
  InitializerOption bias_initializer = zeros;
  Regularizer kernel_regularizer = {};
  Regularizer recurrent_regularizer = {};
  Regularizer bias_regularizer = {};
  Constraint kernel_constraint = {};
  Constraint recurrent_constraint = {};
  Constraint bias_constraint = {};
};

namespace detail {

template <bool ResetAfter, class Activation, class RecurrentActivation>
struct GRUCell {
  using Gate = GateOf<Activation>;
  using RecurrentGate = GateOf<RecurrentActivation>;
  static constexpr std::size_t gates = 3;
  static constexpr bool has_inner = true;
  static constexpr std::size_t bias_rows = ResetAfter ? 2 : 1;
  static constexpr std::string_view kernel_name = "gru_cell/kernel";
  static constexpr std::string_view recurrent_kernel_name = "gru_cell/recurrent_kernel";
  static constexpr std::string_view bias_name = "gru_cell/bias";

  template <GRUOptions Options>
  static consteval Initializer bias_initializer() {
    return Options.bias_initializer;
  }

  template <class T>
  static void forward(const kernels::Recurrence<T>& arrays) {
    kernels::gru_forward<T, ResetAfter, Gate, RecurrentGate>(arrays);
  }
  template <class T>
  static void backward(const kernels::Recurrence<T>& arrays) {
    kernels::gru_backward<T, ResetAfter, Gate, RecurrentGate>(arrays);
  }
  template <class T>
  static void gradients(const kernels::Recurrence<T>& arrays,
                        const kernels::RecurrentGradients<T>& to) {
    kernels::gru_gradients<T, ResetAfter>(arrays, to);
  }
};

}  // namespace detail

/// For each token x of a Sequence<T, features>, with the state h (zero at first), the logistic
/// function s, and kernels, recurrent kernels and biases W, U, b, d of each gate,
///
///   z = s(x Wz + bz + h Uz + dz)    r = s(x Wr + br + h Ur + dr)    h = z h + (1 - z) g
///   g = tanh(x Wg + bg + r (h Ug + dg)), without reset_after tanh(x Wg + bg + (r h) Ug) and no d
///
/// Output, masks, Activation and RecurrentActivation: as of LSTM. Variables, as in Keras:
/// gru_cell/kernel [features x 3 Units], gru_cell/recurrent_kernel [Units x 3 Units], gru_cell/bias
/// [2 x 3 Units] (b, d), without reset_after [3 Units]; gates in the order z, r, g. Cho et al.,
/// "Learning phrase representations using RNN encoder-decoder for statistical machine translation",
/// EMNLP 2014.
template <std::size_t Units, GRUOptions Options = GRUOptions{}, class Activation = Tanh,
          class RecurrentActivation = Sigmoid>
struct GRU
    : detail::RecurrentLayer<detail::GRUCell<Options.reset_after, Activation, RecurrentActivation>,
                             Units, Options> {
  static constexpr std::string_view name = "gru";
  static constexpr std::string_view class_name = "GRU";
  using AnnouncesGradients = GRU;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
