// SimpleRNN: a recurrent layer without gates.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/constraint.hpp"
#include "lockstep/core/initializer.hpp"
#include "lockstep/core/regularizer.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/simple_rnn.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/recurrent.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Compile-time options of SimpleRNN; the defaults are Keras's.
struct SimpleRNNOptions {
  bool return_sequences = false;  ///< the states of all steps, and not only of the last one
  bool go_backwards = false;  ///< from the last token to the first; the output is in that order too
  double dropout = 0;         ///< of the inputs: one mask for all steps
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

template <class Activation>
struct SimpleRNNCell {
  using Gate = GateOf<Activation>;
  static constexpr std::size_t gates = 1;
  static constexpr bool has_inner = false;
  static constexpr std::size_t bias_rows = 1;
  static constexpr std::string_view kernel_name = "simple_rnn_cell/kernel";
  static constexpr std::string_view recurrent_kernel_name = "simple_rnn_cell/recurrent_kernel";
  static constexpr std::string_view bias_name = "simple_rnn_cell/bias";

  template <SimpleRNNOptions Options>
  static consteval Initializer bias_initializer() {
    return Options.bias_initializer;
  }

  template <class T>
  static void forward(const kernels::Recurrence<T>& arrays) {
    kernels::simple_rnn_forward<T, Gate>(arrays);
  }
  template <class T>
  static void backward(const kernels::Recurrence<T>& arrays) {
    kernels::simple_rnn_backward<T, Gate>(arrays);
  }
  template <class T>
  static void gradients(const kernels::Recurrence<T>& arrays,
                        const kernels::RecurrentGradients<T>& to) {
    kernels::recurrent_gradients<T>(arrays, to);
  }
};

}  // namespace detail

/// h = tanh(x W + h U + b) for each token x of a Sequence<T, features>, with the state h, which is
/// zero at first; Activation takes the place of tanh. Output and masks: as of LSTM. Variables, as
/// in Keras: simple_rnn_cell/kernel W [features x Units], simple_rnn_cell/recurrent_kernel U [Units
/// x Units], simple_rnn_cell/bias b [Units]. Elman, "Finding structure in time", Cognitive Science
/// 14 (2), 1990.
template <std::size_t Units, SimpleRNNOptions Options = SimpleRNNOptions{}, class Activation = Tanh>
struct SimpleRNN : detail::RecurrentLayer<detail::SimpleRNNCell<Activation>, Units, Options> {
  static constexpr std::string_view name = "simple_rnn";
  static constexpr std::string_view class_name = "SimpleRNN";
  using AnnouncesGradients = SimpleRNN;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
