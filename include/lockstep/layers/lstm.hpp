// LSTM: a recurrent layer with long short-term memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/constraint.hpp"
#include "lockstep/core/initializer.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/regularizer.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/lstm.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/recurrent.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Compile-time options of LSTM; the defaults are Keras's.
struct LSTMOptions {
  bool return_sequences = false;  ///< the states of all steps, and not only of the last one
  bool go_backwards = false;  ///< from the last token to the first; the output is in that order too
  double dropout = 0;         ///< of the inputs: one mask for all steps and gates
  double recurrent_dropout = 0;  ///< of the state that is multiplied, likewise
  bool use_bias = true;
  bool unit_forget_bias = true;  ///< the forget gate's bias begins with 1
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

/// The bias initialiser of the options, with ones for the second of four gates.
template <LSTMOptions Options>
inline constexpr InitializerMethod forget_bias{
    .fill = [](RandomStream& random, const InitialArray& array, InitializerNumbers) {
      static constexpr Initializer others =
          Options.bias_initializer;  // (clang++ 14 reads null at run time)
      others.fill(random, array.shape, array.fans, array.values);
      const std::size_t units = array.values.size() / 4;
      std::fill_n(array.values.begin() + static_cast<std::ptrdiff_t>(units), units, 1.0);
    }};

template <class Activation, class RecurrentActivation>
struct LSTMCell {
  using Gate = GateOf<Activation>;
  using RecurrentGate = GateOf<RecurrentActivation>;
  static constexpr std::size_t gates = 4;
  static constexpr bool has_inner = true;
  static constexpr std::size_t bias_rows = 1;
  static constexpr std::string_view kernel_name = "lstm_cell/kernel";
  static constexpr std::string_view recurrent_kernel_name = "lstm_cell/recurrent_kernel";
  static constexpr std::string_view bias_name = "lstm_cell/bias";

  template <LSTMOptions Options>
  static consteval Initializer bias_initializer() {
    if constexpr (Options.unit_forget_bias)
      return {forget_bias<Options>, {}};
    else
      return Options.bias_initializer;
  }

  template <class T>
  static void forward(const kernels::Recurrence<T>& arrays) {
    kernels::lstm_forward<T, Gate, RecurrentGate>(arrays);
  }
  template <class T>
  static void backward(const kernels::Recurrence<T>& arrays) {
    kernels::lstm_backward<T, Gate, RecurrentGate>(arrays);
  }
  template <class T>
  static void gradients(const kernels::Recurrence<T>& arrays,
                        const kernels::RecurrentGradients<T>& to) {
    kernels::recurrent_gradients<T>(arrays, to);
  }
};

}  // namespace detail

/// For each token x of a Sequence<T, features>, with the state h, the cell's state c (both zero at
/// first) and the logistic function s,
///
///   (i, f, g, o) = x W + h U + b    c = s(f) c + s(i) tanh(g)    h = s(o) tanh(c)
///
/// Output: the last h, Shape<Units>, or with return_sequences all of them, Sequence<T, Units>. A
/// masked token leaves the state as it is. Variables, as in Keras: lstm_cell/kernel W [features x 4
/// Units], lstm_cell/recurrent_kernel U [Units x 4 Units], lstm_cell/bias b [4 Units]. Hochreiter,
/// Schmidhuber, "Long short-term memory", Neural Computation 9 (8), 1997.
///
/// Samples side by side share each step, so that a batch of 1 costs as much as one of 16. What the
/// dropouts drop depends on the seed, the step, the layer and the sample's index in the dataset.
/// (Keras draws recurrent_dropout for each gate by itself.)
///
/// Activation takes the place of tanh, RecurrentActivation that of s: any activation function whose
/// derivative can be told from its value. Keras's stateful, return_state and unroll do not exist
/// here: each sequence begins with zeros.
/// @code
/// using Net = Sequential<Input<200>, Embedding<20000, 128>,
///                        LSTM<64, LSTMOptions{.return_sequences = true}>, LSTM<64>, Dense<1>>;
/// @endcode
template <std::size_t Units, LSTMOptions Options = LSTMOptions{}, class Activation = Tanh,
          class RecurrentActivation = Sigmoid>
struct LSTM
    : detail::RecurrentLayer<detail::LSTMCell<Activation, RecurrentActivation>, Units, Options> {
  static constexpr std::string_view name = "lstm";
  static constexpr std::string_view class_name = "LSTM";
  using AnnouncesGradients = LSTM;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
