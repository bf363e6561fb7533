// What recurrent layers share: one direction of a sequence, and the layer around it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/recurrence.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/kernels/time_major.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/random_factors.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What is known of a recurrent layer at compile time.
struct RecurrentLayout {
  std::size_t inputs = 0;  ///< features of a token
  std::size_t units = 0;
  std::size_t gates = 0;
  std::size_t steps = 0;
  bool has_inner = false;  ///< Recurrence::inner is used
  bool use_bias = true;
  bool has_recurrent_bias = false;  ///< the bias is [2][gates * units]
  bool return_sequences = false;
  double dropout = 0;
  double recurrent_dropout = 0;

  [[nodiscard]] constexpr kernels::RecurrenceSize size(std::size_t samples, bool backwards) const {
    return {.inputs = inputs,
            .units = units,
            .gates = gates,
            .samples = samples,
            .steps = steps,
            .reverse = backwards};
  }

  /// Steps of the output.
  [[nodiscard]] constexpr std::size_t outputs() const { return return_sequences ? steps : 1; }

  /// Where a direction's arrays begin; `end` is their size. It may see the inputs of another one.
  struct Places {
    std::size_t inputs, input_factors, factors, gates, states, dropped, inner, gradients, carry,
        product, end;
  };
  [[nodiscard]] constexpr Places places(std::size_t samples, bool own_inputs = true) const {
    const kernels::RecurrenceSize s = size(samples, false);
    const std::size_t rows = units * s.state_columns(), step = units * s.batch();
    Places p{};
    std::size_t next = 0;
    const auto take = [&next](std::size_t& place, std::size_t elements) {
      place = next;
      next += elements;
    };
    take(p.inputs, own_inputs ? inputs * s.columns() : 0);
    take(p.input_factors, dropout > 0 ? inputs * s.batch() : 0);
    take(p.factors, recurrent_dropout > 0 ? step : 0);
    take(p.gates, gates * units * s.columns());
    take(p.states, rows);
    take(p.dropped, recurrent_dropout > 0 ? rows : 0);
    take(p.inner, has_inner ? rows : 0);
    take(p.gradients, units * s.columns());
    take(p.carry, step);
    take(p.product, recurrent_dropout > 0 ? step : 0);
    p.end = next;
    return p;
  }

  /// The Flop of a sample. (States have a gradient in any case.)
  [[nodiscard]] constexpr Flop flop() const {
    const Flop recurrent = product_flop(steps * gates * units * units);
    Flop all = product_flop(steps * gates * units * inputs);
    all += recurrent;
    all.backward_weights += recurrent.backward - recurrent.backward_weights;
    return all;
  }

  /// Elements that directions share: the mask, and room for transposed deltas.
  [[nodiscard]] constexpr std::size_t shared(std::size_t samples) const {
    return batch_multiple + size(samples, false).columns() +
           kernels::delta_products_scratch(gates * units);
  }
};

/// Which steps count, in the scratch that directions share: kept for backward, which is not told.
template <class T>
class RecurrentMask {
 public:
  RecurrentMask(const RecurrentLayout& layout, std::size_t samples, T* shared)
      : size_(layout.size(samples, false)), shared_(shared) {}

  /// Null: all.
  void keep(const T* mask) const {
    shared_[0] = mask == nullptr ? T(0) : T(1);
    if (mask != nullptr)
      kernels::to_time_major<T>({.features = 1, .samples = size_.samples, .steps = size_.steps},
                                mask, values());
  }
  [[nodiscard]] const T* kept() const { return shared_[0] == T(0) ? nullptr : values(); }

  /// What follows it in the shared scratch.
  [[nodiscard]] T* rest() const { return values() + size_.columns(); }

 private:
  [[nodiscard]] T* values() const { return shared_ + batch_multiple; }

  kernels::RecurrenceSize size_;
  T* shared_;
};

/// `Cell` says what the recurrence is:
///   Cell::forward<T>(const Recurrence<T>&), Cell::backward<T>(const Recurrence<T>&),
///   Cell::gradients<T>(const Recurrence<T>&, const RecurrentGradients<T>&).
/// Weights and gradients are the direction's kernel, recurrent kernel and bias.
template <class Cell, class T>
class RecurrentWork {
 public:
  /// `inputs_of`: a direction without dropout, as this one is, whose inputs it sees; null: none.
  RecurrentWork(const RecurrentLayout& layout, const StepContext& context, std::size_t samples,
                bool backwards, Slices<T> weights, T* scratch, T* shared,
                const RecurrentWork* inputs_of = nullptr)
      : layout_(layout),
        context_(context),
        backwards_(backwards),
        places_(layout.places(samples, inputs_of == nullptr)),
        mask_(layout, samples, shared),
        scratch_(scratch),
        inputs_(inputs_of == nullptr ? at(places_.inputs) : inputs_of->inputs_) {
    const bool drops = context.training && layout.recurrent_dropout > 0;
    const T* const bias = layout.use_bias ? weights[2].data() : nullptr;
    arrays_ = {.size = layout.size(samples, backwards),
               .inputs = inputs_,
               .kernel = weights[0].data(),
               .recurrent_kernel = weights[1].data(),
               .bias = bias,
               .recurrent_bias =
                   layout.has_recurrent_bias && layout.use_bias ? bias + arrays_rows() : nullptr,
               .mask = mask_.kept(),
               .dropout = drops ? at(places_.factors) : nullptr,
               .gates = at(places_.gates),
               .states = at(places_.states),
               .dropped = drops ? at(places_.dropped) : at(places_.states),
               .inner = at(places_.inner),
               .gradients = at(places_.gradients),
               .carry = at(places_.carry),
               .product = at(places_.product)};
  }

  /// Copies the tokens, with the direction's dropout, and draws what it drops of the states.
  void read_inputs(const TensorView<const T>& x) const {
    const kernels::RecurrenceSize& s = arrays_.size;
    if (drops_inputs())
      draw_mask<T>(context_, s.samples, layout_.dropout, s.inputs, s.batch(),
                   at(places_.input_factors), purpose(0));
    kernels::to_time_major<T>(of_inputs(x.stride()), x.data(), inputs_);
  }

  void forward() const {
    const kernels::RecurrenceSize& s = arrays_.size;
    if (arrays_.dropout != nullptr)
      draw_mask<T>(context_, s.samples, layout_.recurrent_dropout, s.units, s.batch(),
                   at(places_.factors), purpose(1));
    Cell::template forward<T>(arrays_);
  }

  /// Writes the layer's output: all states, `reverse`d in time or not, or the last one. With
  /// `masks_output`, masked steps are zero.
  void write_output(T* y, std::size_t stride, bool reverse, bool masks_output = false,
                    kernels::Merge merge = kernels::Merge::replace) const {
    kernels::from_time_major<T>(of_outputs(stride, reverse, masks_output), outputs(), y, merge);
  }

  /// Reads its gradient, likewise.
  void read_gradient(const T* dy, std::size_t stride, bool reverse,
                     bool masks_output = false) const {
    const kernels::RecurrenceSize& s = arrays_.size;
    if (!layout_.return_sequences) std::fill_n(arrays_.gradients, s.units * s.columns(), T(0));
    kernels::to_time_major<T>(of_outputs(stride, reverse, masks_output), dy, output_gradients());
  }

  /// Times the outputs of another direction, of whose product with these it is the gradient.
  void scale_gradient(const RecurrentWork& other) const {
    const kernels::RecurrenceSize& s = arrays_.size;
    kernels::sweep(
        s.units * layout_.outputs() * s.batch(),
        [](const auto& factor, auto& gradient) LOCKSTEP_KERNEL_LAMBDA { gradient *= factor; },
        static_cast<const T*>(other.outputs()), output_gradients());
  }

  void backward(Slices<T> gradients) const {
    Cell::template backward<T>(arrays_);
    T* const bias = layout_.use_bias ? gradients[2].data() : nullptr;
    Cell::template gradients<T>(
        arrays_,
        {.kernel = gradients[0].data(),
         .recurrent_kernel = gradients[1].data(),
         .bias = bias,
         .recurrent_bias = arrays_.recurrent_bias == nullptr ? nullptr : bias + arrays_rows(),
         .scratch = mask_.rest()});
  }

  /// The gradient of the inputs, in their place; `onto`: added to what is there. It destroys the
  /// inputs.
  void input_gradient(bool onto = false) const {
    kernels::recurrent_input_gradient<T>(arrays_, inputs_, onto);
  }

  void write_input_gradient(const TensorView<T>& dx,
                            kernels::Merge merge = kernels::Merge::replace) const {
    kernels::from_time_major<T>(of_inputs(dx.stride()), inputs_, dx.data(), merge);
  }

 private:
  [[nodiscard]] T* at(std::size_t place) const { return scratch_ + place; }
  [[nodiscard]] std::size_t arrays_rows() const { return layout_.gates * layout_.units; }
  [[nodiscard]] bool drops_inputs() const { return context_.training && layout_.dropout > 0; }
  /// Both directions draw both kinds of dropout.
  [[nodiscard]] std::uint64_t purpose(std::uint64_t kind) const {
    return kind + (backwards_ ? 2 : 0);
  }

  [[nodiscard]] kernels::TimeMajor<T> of_inputs(std::size_t token_stride) const {
    const kernels::RecurrenceSize& s = arrays_.size;
    return {.features = s.inputs,
            .samples = s.samples,
            .steps = s.steps,
            .token_stride = token_stride,
            .time_stride = s.batch(),
            .step_stride = s.inputs * s.batch(),
            .of_features = drops_inputs() ? at(places_.input_factors) : nullptr};
  }
  [[nodiscard]] kernels::TimeMajor<T> of_outputs(std::size_t token_stride, bool reverse,
                                                 bool masks_output) const {
    const kernels::RecurrenceSize& s = arrays_.size;
    return {.features = s.units,
            .samples = s.samples,
            .steps = layout_.outputs(),
            .token_stride = token_stride,
            .time_stride = s.batch(),
            .step_stride = s.units * s.batch(),
            .reverse = reverse && layout_.return_sequences,
            .of_steps = masks_output && layout_.return_sequences ? arrays_.mask : nullptr};
  }
  /// Where the states that are the output lie, and the gradients of these.
  [[nodiscard]] T* outputs() const {
    const kernels::RecurrenceSize& s = arrays_.size;
    return arrays_.states +
           s.units * (layout_.return_sequences ? s.first_after() : s.after(s.steps - 1));
  }
  [[nodiscard]] T* output_gradients() const {
    return layout_.return_sequences ? arrays_.gradients
                                    : arrays_.own(arrays_.gradients, arrays_.size.steps - 1);
  }

  RecurrentLayout layout_;
  const StepContext& context_;
  bool backwards_;
  RecurrentLayout::Places places_;
  RecurrentMask<T> mask_;
  T* scratch_;
  T* inputs_;
  kernels::Recurrence<T> arrays_;
};

template <std::size_t Position, class In>
consteval bool check_recurrent_input() {
  static_assert(SequenceInput<Position, In>,
                "lockstep: a recurrent layer needs a sequence of tokens, Sequence<T, features>: "
                "put ls::Embedding or ls::ToSequence before it");
  if constexpr (SequenceInput<Position, In>)
    static_assert(
        FlatInput<Position, TokenOf<In>>,
        "lockstep: a recurrent layer needs flat tokens, and its tokens have more dimensions");
  return true;
}

/// What the kernels call for an activation function. Of the usual ones they have their own, for
/// which they are compiled once, in the library.
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
/// for the recurrent product.
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
  static constexpr Flop flop = layout<In>().flop();

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

}}}  // namespace lockstep::detail
