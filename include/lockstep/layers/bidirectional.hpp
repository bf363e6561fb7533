// Bidirectional: a recurrent layer that goes through its sequence in both directions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/kernels/time_major.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/recurrent.hpp"
#include "lockstep/layers/rnn.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What Bidirectional makes of the outputs of both directions: one after the other, or their sum,
/// product or mean.
enum class MergeMode { concat, sum, mul, ave };

namespace detail {

template <class L>
inline constexpr bool is_recurrent = requires { typename L::RecurrentCell; };

/// "prefix_layer/variable", as an array without an end.
template <std::size_t Size>
consteval std::array<char, Size> joined_name(std::string_view prefix, std::string_view layer,
                                             std::string_view variable) {
  std::array<char, Size> name{};
  char* const slash =
      std::copy(layer.begin(), layer.end(), std::copy(prefix.begin(), prefix.end(), name.begin()));
  *slash = '/';
  std::copy(variable.begin(), variable.end(), slash + 1);
  return name;
}

/// The names of the variables of one direction of L: "forward_lstm/lstm_cell/kernel".
template <class L, bool Backwards>
struct DirectionNames {
  using Cell = typename L::RecurrentCell;
  static constexpr std::string_view prefix = Backwards ? "backward_" : "forward_";
  static consteval std::size_t size(std::string_view variable) {
    return prefix.size() + std::string_view(L::name).size() + 1 + variable.size();
  }
  static constexpr auto kernel =
      joined_name<size(Cell::kernel_name)>(prefix, L::name, Cell::kernel_name);
  static constexpr auto recurrent_kernel =
      joined_name<size(Cell::recurrent_kernel_name)>(prefix, L::name, Cell::recurrent_kernel_name);
  static constexpr auto bias = joined_name<size(Cell::bias_name)>(prefix, L::name, Cell::bias_name);

  template <class In>
  static consteval auto variables() {
    return L::template named_variables<In>({kernel.data(), kernel.size()},
                                           {recurrent_kernel.data(), recurrent_kernel.size()},
                                           {bias.data(), bias.size()});
  }
};

template <class L, class In>
consteval auto bidirectional_variables() {
  constexpr auto forwards = DirectionNames<L, false>::template variables<In>();
  constexpr auto backwards = DirectionNames<L, true>::template variables<In>();
  std::array<Variable, 2 * forwards.size()> all{};
  std::copy(backwards.begin(), backwards.end(),
            std::copy(forwards.begin(), forwards.end(), all.begin()));
  return all;
}

}  // namespace detail

/// Two recurrent layers L (LSTM, GRU, SimpleRNN) over one sequence, the second from its last token
/// to its first; with return_sequences, the output of both for a token is at the token's position.
/// Output: Shape<2 Units> or Sequence<T, 2 Units>, or Units where Merge is not concat. As in Keras,
/// masked positions of a sequence of outputs are zero. Variables, named as in Keras:
/// forward_lstm/lstm_cell/kernel, ..., backward_lstm/lstm_cell/kernel, ... Schuster, Paliwal,
/// "Bidirectional recurrent neural networks", IEEE Transactions on Signal Processing 45 (11), 1997.
/// @code
/// using Net = Sequential<Input<200>, Embedding<20000, 128>,
///                        Bidirectional<LSTM<64, LSTMOptions{.return_sequences = true}>>,
///                        Bidirectional<LSTM<64>>, Dense<1>>;
/// @endcode
/// Use: `Bidirectional<LSTM<8>>`: Sequence<10, 4> -> Shape<16>; forward_lstm/lstm_cell/kernel (4,
/// 32), forward_lstm/lstm_cell/recurrent_kernel (8, 32), forward_lstm/lstm_cell/bias (32),
/// backward_lstm/lstm_cell/kernel (4, 32), backward_lstm/lstm_cell/recurrent_kernel (8, 32),
/// backward_lstm/lstm_cell/bias (32).
template <class L, MergeMode Merge = MergeMode::concat>
struct Bidirectional {
  static_assert(detail::is_recurrent<L>,
                "lockstep: Bidirectional needs a recurrent layer: ls::LSTM, ls::GRU, ...");
  static_assert(
      !L::goes_backwards,
      "lockstep: the layer of Bidirectional must not go backwards: it is used in both directions");

  static constexpr std::string_view name = "bidirectional";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;
  static constexpr bool keeps_mask = L::returns_sequences;
  using AnnouncesGradients = Bidirectional;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return L::template check<Position, In>();
  }

  template <class In>
  using Output =
      typename detail::RecurrentOutput<In, (Merge == MergeMode::concat ? 2 : 1) * L::units,
                                       L::returns_sequences>::Type;

  template <class In>
  static constexpr auto variables = detail::bidirectional_variables<L, In>();

  template <class In>
  static constexpr Flop flop = 2 * L::template flop<In>;

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return layout<In>().shared(samples) + layout<In>().places(samples).end +
           layout<In>().places(samples, !shares_inputs<In>).end;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const std::size_t samples = pass.x.samples() / positions_of<In>, stride = pass.y.stride();
    detail::RecurrentMask<T>(layout<In>(), samples, pass.scratch.data()).keep(pass.mask);
    const Both<In, T> both(pass, samples);
    both.first.read_inputs(pass.x);
    if constexpr (!shares_inputs<In>) both.second.read_inputs(pass.x);
    both.first.forward();
    both.second.forward();
    both.first.write_output(pass.y.data(), stride, false, true);
    if constexpr (Merge == MergeMode::concat)
      both.second.write_output(pass.y.feature(L::units), stride, false, true);
    else
      both.second.write_output(
          pass.y.data(), stride, false, true,
          Merge == MergeMode::mul ? kernels::Merge::multiply : kernels::Merge::add);
    pass.y.clear_padding();
    if constexpr (Merge == MergeMode::ave) halve(L::units * stride, pass.y.data());
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<In, T>(pass);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const Both<In, T> both = run_backward<In, T>(pass);
    both.first.input_gradient();
    if constexpr (shares_inputs<In>) {
      both.second.input_gradient(true);
      both.first.write_input_gradient(pass.dx);
    } else {
      both.first.write_input_gradient(pass.dx);
      both.second.input_gradient();
      both.second.write_input_gradient(pass.dx, kernels::Merge::add);
    }
    pass.dx.clear_padding();
  }

 private:
  template <class In>
  static constexpr detail::RecurrentLayout layout() {
    return L::template layout<In>();
  }

  /// Without dropout both see one copy of the inputs.
  template <class In>
  static constexpr bool shares_inputs = layout<In>().dropout == 0;

  template <class In, class T>
  struct Both {
    using Work = detail::RecurrentWork<typename L::RecurrentCell, T>;

    template <class Pass>
    Both(const Pass& pass, std::size_t samples)
        : first(layout<In>(), pass.context, samples, false, pass.weights, own(pass, samples),
                pass.scratch.data()),
          second(layout<In>(), pass.context, samples, true,
                 pass.weights.subspan(pass.weights.size() / 2),
                 own(pass, samples) + layout<In>().places(samples).end, pass.scratch.data(),
                 shares_inputs<In> ? &first : nullptr) {}
    template <class Pass>
    static T* own(const Pass& pass, std::size_t samples) {
      return pass.scratch.data() + layout<In>().shared(samples);
    }

    Work first, second;
  };

  template <class T>
  static void halve(std::size_t n, T* values) {
    kernels::sweep(
        n, [](auto& value) LOCKSTEP_KERNEL_LAMBDA { value *= T(0.5); }, values);
  }

  template <class In, class T>
  static Both<In, T> run_backward(const BackwardPass<T>& pass) {
    const std::size_t stride = pass.dy.stride();
    const Both<In, T> both(pass, pass.x.samples() / positions_of<In>);
    if constexpr (Merge == MergeMode::ave) halve(L::units * stride, pass.dy.data());
    both.first.read_gradient(pass.dy.data(), stride, false, true);
    both.second.read_gradient(pass.dy.feature(Merge == MergeMode::concat ? L::units : 0), stride,
                              false, true);
    if constexpr (Merge == MergeMode::mul) {
      both.first.scale_gradient(both.second);
      both.second.scale_gradient(both.first);
    }
    const std::size_t half = pass.gradients.size() / 2;
    both.first.backward(pass.gradients.first(half));
    both.second.backward(pass.gradients.subspan(half));
    pass.context.gradients_ready(pass.gradients);
    return both;
  }
};

}}  // namespace lockstep
