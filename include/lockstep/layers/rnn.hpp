// Recurrent layers: SimpleRNN, GRU, LSTM.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/gru.hpp"
#include "lockstep/kernels/lstm.hpp"
#include "lockstep/kernels/simple_rnn.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/recurrent.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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
/// Use: `SimpleRNN<8>`: Sequence<10, 4> -> Shape<8>; simple_rnn_cell/kernel (4, 8),
/// simple_rnn_cell/recurrent_kernel (8, 8), simple_rnn_cell/bias (8).
template <std::size_t Units, SimpleRNNOptions Options = SimpleRNNOptions{}, class Activation = Tanh>
  requires the_options_stand_before_the_activation<Activation>
struct SimpleRNN : detail::RecurrentLayer<detail::SimpleRNNCell<Activation>, Units, Options> {
  static constexpr std::string_view name = "simple_rnn";
  static constexpr std::string_view class_name = "SimpleRNN";
  using AnnouncesGradients = SimpleRNN;
};

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
/// Use: `GRU<8>`: Sequence<10, 4> -> Shape<8>; gru_cell/kernel (4, 24), gru_cell/recurrent_kernel
/// (8, 24), gru_cell/bias (2, 24).
template <std::size_t Units, GRUOptions Options = GRUOptions{}, class Activation = Tanh,
          class RecurrentActivation = Sigmoid>
  requires the_options_stand_before_the_activation<Activation>
struct GRU
    : detail::RecurrentLayer<detail::GRUCell<Options.reset_after, Activation, RecurrentActivation>,
                             Units, Options> {
  static constexpr std::string_view name = "gru";
  static constexpr std::string_view class_name = "GRU";
  using AnnouncesGradients = GRU;
};

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
template <auto Options>
inline constexpr InitializerMethod forget_bias{
    .fill =
        [](RandomStream& random, const InitialArray& array, InitializerNumbers) {
          static constexpr Initializer others =
              Options.bias_initializer;  // (clang++ 14 reads null at run time)
          others.fill(random, array.shape, array.fans, array.values);
          const std::size_t units = array.values.size() / 4;
          std::fill_n(array.values.begin() + static_cast<std::ptrdiff_t>(units), units, 1.0);
        },
    .name = "forget_bias"};

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
/// Use: `LSTM<8>`: Sequence<10, 4> -> Shape<8>; lstm_cell/kernel (4, 32),
/// lstm_cell/recurrent_kernel (8, 32), lstm_cell/bias (32).
template <std::size_t Units, LSTMOptions Options = LSTMOptions{}, class Activation = Tanh,
          class RecurrentActivation = Sigmoid>
  requires the_options_stand_before_the_activation<Activation>
struct LSTM
    : detail::RecurrentLayer<detail::LSTMCell<Activation, RecurrentActivation>, Units, Options> {
  static constexpr std::string_view name = "lstm";
  static constexpr std::string_view class_name = "LSTM";
  using AnnouncesGradients = LSTM;
};

}}  // namespace lockstep
