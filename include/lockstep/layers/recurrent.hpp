// What LSTM, GRU and SimpleRNN share, as layers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/initializer.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/recurrence.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/recurrent_work.hpp"
#include "lockstep/layers/smooth_activations.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <std::size_t Position, class In>
consteval bool check_recurrent_input() {
  static_assert(SequenceInput<Position, In>,
                "lockstep: a recurrent layer needs a sequence of tokens, Sequence<T, features>: "
                "put ls::Embedding or "
                "ls::ToSequence before it");
  if constexpr (SequenceInput<Position, In>)
    static_assert(
        FlatInput<Position, TokenOf<In>>,
        "lockstep: a recurrent layer needs flat tokens, and its tokens have more dimensions");
  return true;
}

/// What the kernels call for an activation function. Of the usual ones they have their own, for
/// which they are compiled once, in lockstep::compiled.
template <class A>
struct GateFunction {
  static_assert(
      ActivationFunction<A>,
      "lockstep: a recurrent layer's activation must be an activation function: ls::Tanh, "
      "ls::ReLU, ls::HardSigmoid, ...");
  static_assert(!keeps_slope<A>,
                "lockstep: a recurrent layer needs an activation function whose derivative can be "
                "told from its value: ls::Tanh, ls::Sigmoid, ls::ReLU, ls::HardSigmoid, ls::ELU, "
                "ls::Softsign, ...");
  using Type = A;
};
template <>
struct GateFunction<Tanh> {
  using Type = kernels::TanhGate;
};
template <>
struct GateFunction<Sigmoid> {
  using Type = kernels::LogisticGate;
};
template <class A>
using GateOf = typename GateFunction<A>::Type;

/// A sequence of outputs, or the last one.
template <class In, std::size_t Features, bool ReturnSequences>
struct RecurrentOutput {
  using Type = Shape<Features>;
};
template <class In, std::size_t Features>
struct RecurrentOutput<In, Features, true> {
  using Type = Sequence<positions_of<In>, Features>;
};

/// One direction's variables, under names that are given. `BiasRows`: 2 for a GRU that has a bias
/// of its own for the recurrent product.
template <auto Options, std::size_t Inputs, std::size_t Rows, std::size_t Units,
          std::size_t BiasRows>
consteval auto recurrent_variables(std::string_view kernel, std::string_view recurrent_kernel,
                                   std::string_view bias, const Initializer& bias_initializer) {
  const Variable first =
      Variable{kernel, {Inputs, Rows}, Options.kernel_initializer, Fans{Inputs, Rows}}.with(
          Options.kernel_regularizer, Options.kernel_constraint);
  const Variable second = Variable{
      recurrent_kernel,
      {Units, Rows},
      Options.recurrent_initializer,
      Fans{Units, Rows}}.with(Options.recurrent_regularizer, Options.recurrent_constraint);
  const auto third = [&](const Variable& variable) {
    return variable.with(Options.bias_regularizer, Options.bias_constraint);
  };
  if constexpr (!Options.use_bias)
    return std::array{first, second};
  else if constexpr (BiasRows == 1)
    return std::array{first, second, third({bias, {Rows}, bias_initializer, Fans{Rows, Rows}})};
  else
    return std::array{first, second,
                      third({bias, {BiasRows, Rows}, bias_initializer, Fans{BiasRows, Rows}})};
}

/// A recurrent layer of `Cell`, which is, beside what RecurrentWork wants of it,
///   Cell::gates, Cell::has_inner, Cell::bias_rows, Cell::bias_initializer<Options>(), and the
///   names Cell::kernel_name, Cell::recurrent_kernel_name, Cell::bias_name.
template <class Cell, std::size_t Units, auto Options>
struct RecurrentLayer {
  static_assert(Units > 0, "lockstep: a recurrent layer needs at least one unit");
  static_assert(Options.dropout >= 0 && Options.dropout <= 1 && Options.recurrent_dropout >= 0 &&
                    Options.recurrent_dropout <= 1,
                "lockstep: a dropout of a recurrent layer is the part of values that is dropped: "
                "from 0 to 1");

  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;
  static constexpr bool keeps_mask = Options.return_sequences;
  static constexpr bool returns_sequences = Options.return_sequences;
  static constexpr bool goes_backwards = Options.go_backwards;
  static constexpr std::size_t units = Units;
  using RecurrentCell = Cell;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return check_recurrent_input<Position, In>();
  }

  template <class In>
  using Output = typename RecurrentOutput<In, Units, Options.return_sequences>::Type;

  /// One direction's, for Bidirectional.
  template <class In>
  static consteval auto named_variables(std::string_view kernel, std::string_view recurrent_kernel,
                                        std::string_view bias) {
    return recurrent_variables<Options, TokenOf<In>::size, Cell::gates * Units, Units,
                               Cell::bias_rows>(kernel, recurrent_kernel, bias,
                                                Cell::template bias_initializer<Options>());
  }
  template <class In>
  static constexpr RecurrentLayout layout() {
    return {.inputs = TokenOf<In>::size,
            .units = Units,
            .gates = Cell::gates,
            .steps = positions_of<In>,
            .has_inner = Cell::has_inner,
            .use_bias = Options.use_bias,
            .has_recurrent_bias = Cell::bias_rows == 2,
            .return_sequences = Options.return_sequences,
            .dropout = Options.dropout,
            .recurrent_dropout = Options.recurrent_dropout};
  }

  template <class In>
  static constexpr auto variables =
      named_variables<In>(Cell::kernel_name, Cell::recurrent_kernel_name, Cell::bias_name);

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return layout<In>().shared(samples) + layout<In>().places(samples).end;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const std::size_t samples = pass.x.samples() / positions_of<In>;
    RecurrentMask<T>(layout<In>(), samples, pass.scratch.data()).keep(pass.mask);
    const RecurrentWork<Cell, T> work = work_of<In, T>(pass);
    work.read_inputs(pass.x);
    work.forward();
    work.write_output(pass.y.data(), pass.y.stride(), Options.go_backwards);
    pass.y.clear_padding();
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<In, T>(pass);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const RecurrentWork<Cell, T> work = run_backward<In, T>(pass);
    work.input_gradient();
    work.write_input_gradient(pass.dx);
    pass.dx.clear_padding();
  }

 private:
  template <class In, class T, class Pass>
  static RecurrentWork<Cell, T> work_of(const Pass& pass) {
    const std::size_t samples = pass.x.samples() / positions_of<In>;
    T* const shared = pass.scratch.data();
    return {layout<In>(), pass.context,
            samples,      Options.go_backwards,
            pass.weights, shared + layout<In>().shared(samples),
            shared};
  }

  template <class In, class T>
  static RecurrentWork<Cell, T> run_backward(const BackwardPass<T>& pass) {
    RecurrentWork<Cell, T> work = work_of<In, T>(pass);
    work.read_gradient(pass.dy.data(), pass.dy.stride(), Options.go_backwards);
    work.backward(pass.gradients);
    pass.context.gradients_ready(pass.gradients);
    return work;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
