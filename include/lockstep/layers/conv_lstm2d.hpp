// ConvLSTM2D: an LSTM over images, whose products are convolutions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/convolution_weights.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/kernels/time_major.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/recurrent.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/layers/window.hpp"

// By time, a batch of sequences of images is one of volumes, whose planes are the steps. So all
// steps are convolved with the kernel at once, by a kernel of one plane, and the gradients of both
// kernels are sums over all planes; step by step there is the recurrent convolution alone.

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of ConvLSTM2D; the defaults are Keras's.
struct ConvLSTM2DOptions {
  Extent2D stride = 1;  ///< of the input's convolution; that of the states has none
  Padding padding = Padding::valid;
  Extent2D dilation_rate = 1;     ///< of both convolutions
  bool return_sequences = false;  ///< the states of all steps, and not only of the last one
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

template <class In, class State, bool ReturnSequences>
struct StatesOutput {
  using Type = State;
};
template <class In, class State>
struct StatesOutput<In, State, true> {
  using Type = SequenceOf<positions_of<In>, State>;
};

}  // namespace detail

/// LSTM for a Sequence<T, height, width, channels>: its formulas, with convolutions by kernels of
/// Kernel taps in place of both products. That of the states has Padding::same, so that h and c
/// keep their shape, that of the input's convolution. Output: the last h, Shape<height', width',
/// Filters>, or with return_sequences all of them, a Sequence. The mask of x is not looked at, and
/// ends here. Variables, as in Keras: conv_lstm_cell/kernel [height x width x channels x 4
/// Filters], conv_lstm_cell/recurrent_kernel [height x width x Filters x 4 Filters],
/// conv_lstm_cell/bias [4 Filters]; gates in the order i, f, c, o. Keras's dropouts do not exist
/// here. Shi et al., "Convolutional LSTM network: a machine learning approach for precipitation
/// nowcasting", NIPS 2015.
/// @code
/// using Net = Sequential<Input<10, 32, 32, 1>, ToSequence, ConvLSTM2D<16, 3>, Flatten, Dense<5>>;
/// @endcode
/// Use: `ConvLSTM2D<4, 3>`: Sequence<5, 8, 8, 1> -> Shape<6, 6, 4>; conv_lstm_cell/kernel (3, 3, 1,
/// 16), conv_lstm_cell/recurrent_kernel (3, 3, 4, 16), conv_lstm_cell/bias (16).
template <std::size_t Filters, Extent2D Kernel, ConvLSTM2DOptions Options = ConvLSTM2DOptions{},
          class Activation = Tanh, class RecurrentActivation = Sigmoid>
  requires the_options_stand_before_the_activation<Activation>
struct ConvLSTM2D {
 private:
  using Gate = detail::GateOf<Activation>;
  using RecurrentGate = detail::GateOf<RecurrentActivation>;
  static constexpr std::size_t rows = 4 * Filters;
  static constexpr Extent2D window = dilated(Kernel, Options.dilation_rate);
  static constexpr detail::Sliding sliding{Kernel, Options.stride, Options.padding,
                                           Options.dilation_rate};
  static constexpr detail::Sliding recurrent{Kernel, 1, Padding::same, Options.dilation_rate};
  template <class In>
  using Gates = decltype(detail::convolution_output<TokenOf<In>, rows, sliding>());
  template <class In>
  using State = Shape<Gates<In>::extents[0], Gates<In>::extents[1], Filters>;

  /// All steps of the input, as planes.
  template <class In>
  static constexpr kernels::ConvolutionSize of_inputs(std::size_t batch,
                                                      std::size_t steps = positions_of<In>) {
    kernels::ConvolutionSize size =
        detail::convolution_size<TokenOf<In>, Gates<In>, sliding>(1, batch);
    size.depth = size.out_depth = steps;
    return size;
  }
  /// The states before all steps, or before one.
  template <class In>
  static constexpr kernels::ConvolutionSize of_states(std::size_t batch,
                                                      std::size_t steps = positions_of<In>) {
    kernels::ConvolutionSize size =
        detail::convolution_size<State<In>, Gates<In>, recurrent>(1, batch);
    size.depth = size.out_depth = steps;
    return size;
  }
  template <class In>
  static constexpr kernels::ConvolutionSize of_step(std::size_t batch) {
    return of_states<In>(batch, 1);
  }

 public:
  static_assert(Filters > 0, "lockstep: ConvLSTM2D needs at least one filter");
  static_assert(Kernel.height > 0 && Kernel.width > 0,
                "lockstep: the kernel of ConvLSTM2D must be at least 1 x 1");
  static_assert(Options.stride.height > 0 && Options.stride.width > 0 &&
                    Options.dilation_rate.height > 0 && Options.dilation_rate.width > 0,
                "lockstep: the stride and the dilation_rate of ConvLSTM2D must be at least 1");
  static_assert(Options.padding != Padding::causal, "lockstep: causal padding is Conv1D's alone");

  static constexpr std::string_view name = "conv_lstm2d";
  static constexpr std::string_view class_name = "ConvLSTM2D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;
  using AnnouncesGradients = ConvLSTM2D;

  template <std::size_t Position, class In>
  static consteval bool check() {
    constexpr bool takes = SequenceInput<Position, In> && ImageInput<Position, TokenOf<In>>;
    static_assert(SequenceInput<Position, In> && ImageInput<Position, TokenOf<In>>,
                  "lockstep: ConvLSTM2D needs a sequence of images, Sequence<T, height, width, "
                  "channels>: put ls::ToSequence before it");
    if constexpr (takes && Options.padding == Padding::valid)
      static_assert(InputWithRoomFor<Position, TokenOf<In>, Shape<window.height, window.width>>,
                    "lockstep: ConvLSTM2D's kernel is larger than its images: make it smaller, or "
                    "pad them with ls::ConvLSTM2DOptions{.padding = ls::Padding::same}");
    return true;
  }

  template <class In>
  using Output = typename detail::StatesOutput<In, State<In>, Options.return_sequences>::Type;

  template <class In>
  static constexpr auto variables = [] {
    constexpr std::size_t taps = Kernel.height * Kernel.width,
                          channels = TokenOf<In>::extents[TokenOf<In>::rank - 1];
    const Variable kernel = Variable{
        "conv_lstm_cell/kernel",
        {Kernel.height, Kernel.width, channels, rows},
        Options.kernel_initializer,
        Fans{taps * channels,
             taps * rows}}.with(Options.kernel_regularizer, Options.kernel_constraint);
    const Variable recurrent_kernel = Variable{
        "conv_lstm_cell/recurrent_kernel",
        {Kernel.height, Kernel.width, Filters, rows},
        Options.recurrent_initializer,
        Fans{taps * Filters,
             taps * rows}}.with(Options.recurrent_regularizer, Options.recurrent_constraint);
    if constexpr (!Options.use_bias) {
      return std::array{kernel, recurrent_kernel};
    } else {
      Initializer initializer = Options.bias_initializer;
      if constexpr (Options.unit_forget_bias) initializer = {detail::forget_bias<Options>, {}};
      return std::array{kernel, recurrent_kernel,
                        Variable{"conv_lstm_cell/bias", {rows}, initializer, Fans{rows, rows}}.with(
                            Options.bias_regularizer, Options.bias_constraint)};
    }
  }();

  template <class In>
  static constexpr Flop flop = [] {
    const Flop of_states = positions_of<In> * detail::convolution_flop(of_step<In>(1));
    Flop all = positions_of<In> * detail::convolution_flop(of_inputs<In>(1, 1));
    all += of_states;
    all.backward_weights += of_states.backward - of_states.backward_weights;
    return all;
  }();

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return Places<In>(samples).end;
  }
  /// Forward: the recurrent convolution of a step. Backward: gradients of all states, that of c,
  /// and what the gradients of the kernels need.
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    const Places<In> p(samples);
    return std::max(p.gates_step,
                    (positions_of<In> + 1) * p.step +
                        std::max(kernels::convolution_scratch(of_inputs<In>(p.batch)),
                                 kernels::convolution_scratch(of_states<In>(p.batch))));
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const Places<In> p(pass.x.samples() / positions_of<In>);
    T* const all = pass.scratch.data();
    T* const product = pass.temporary.data();
    const T* bias = nullptr;
    if constexpr (Options.use_bias) bias = pass.weights[2].data();
    kernels::to_time_major<T>(p.template inputs_of<T>(pass.x.stride()), pass.x.data(),
                              all + p.inputs);
    kernels::convolution_forward<T>(of_inputs<In>(p.batch), all + p.inputs, pass.weights[0].data(),
                                    bias, all + p.gates, {});
    std::fill_n(all + p.states, p.step, T(0));
    std::fill_n(all + p.cells, p.step, T(0));
    std::fill_n(product, p.gates_step, T(0));
    for (std::size_t t = 0; t < positions_of<In>; ++t) {
      T* const before = all + p.states + t * p.step;
      if (t > 0)
        kernels::convolution_forward<T>(of_step<In>(p.batch), before, pass.weights[1].data(),
                                        nullptr, product, {});
      for (std::size_t pixel = 0; pixel < p.pixels; ++pixel) {
        const std::size_t n = p.run, at = pixel * n;
        T* const gates = all + p.gates + t * p.gates_step + 4 * at;
        T* const cells = all + p.cells + t * p.step + at;
        const T* const more = product + 4 * at;
        kernels::sweep(
            n,
            [](auto& i, auto& f, auto& g, auto& o, const auto& ri, const auto& rf, const auto& rg,
               const auto& ro, const auto& c_before, auto& c, auto& h) LOCKSTEP_KERNEL_LAMBDA {
              i = RecurrentGate::value(i + ri);
              f = RecurrentGate::value(f + rf);
              g = Gate::value(g + rg);
              o = RecurrentGate::value(o + ro);
              c = multiply_add(f, c_before, i * g);
              h = o * Gate::value(c);
            },
            gates, gates + n, gates + 2 * n, gates + 3 * n, more, more + n, more + 2 * n,
            more + 3 * n, static_cast<const T*>(cells), cells + p.step, before + p.step + at);
      }
    }
    kernels::from_time_major<T>(p.template outputs_of<T>(pass.y.stride()),
                                all + p.states + p.first_output(), pass.y.data());
    pass.y.clear_padding();
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<In>(pass);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_backward<In>(pass);
    const Places<In> p(pass.x.samples() / positions_of<In>);
    T* const all = pass.scratch.data();
    kernels::convolution_input_gradient<T>(of_inputs<In>(p.batch), pass.weights[0].data(),
                                           all + p.gates, all + p.inputs);
    kernels::from_time_major<T>(p.template inputs_of<T>(pass.dx.stride()), all + p.inputs,
                                pass.dx.data());
    pass.dx.clear_padding();
  }

 private:
  /// Where arrays begin in scratch, by time: inputs and gates [step][feature][sample]; h and c
  /// likewise, with those before the first step.
  template <class In>
  struct Places {
    static constexpr std::size_t steps = positions_of<In>, pixels = State<In>::size / Filters;
    std::size_t samples, batch, run, step, gates_step;  ///< run: the filters of a pixel
    std::size_t inputs, gates, states, cells, end;

    explicit constexpr Places(std::size_t count)
        : samples(count),
          batch(padded_batch(count)),
          run(Filters * batch),
          step(pixels * run),
          gates_step(4 * step),
          inputs(0),
          gates(steps * TokenOf<In>::size * batch),
          states(gates + steps * gates_step),
          cells(states + (steps + 1) * step),
          end(cells + (steps + 1) * step) {}

    [[nodiscard]] constexpr std::size_t first_output() const {
      return (Options.return_sequences ? 1 : steps) * step;
    }
    template <class T>
    [[nodiscard]] kernels::TimeMajor<T> inputs_of(std::size_t token_stride) const {
      return {.features = TokenOf<In>::size,
              .samples = samples,
              .steps = steps,
              .token_stride = token_stride,
              .time_stride = batch,
              .step_stride = TokenOf<In>::size * batch};
    }
    template <class T>
    [[nodiscard]] kernels::TimeMajor<T> outputs_of(std::size_t token_stride) const {
      return {.features = State<In>::size,
              .samples = samples,
              .steps = Options.return_sequences ? steps : 1,
              .token_stride = token_stride,
              .time_stride = batch,
              .step_stride = step};
    }
  };

  /// Leaves the gradients of the gates' inputs in place of the gates.
  template <class In, class T>
  static void run_backward(const BackwardPass<T>& pass) {
    const Places<In> p(pass.x.samples() / positions_of<In>);
    T* const all = pass.scratch.data();
    T* const gradients = pass.temporary.data();  // of h after each step
    T* const carry = gradients + p.steps * p.step;
    T* const rest = carry + p.step;
    std::fill_n(gradients, (p.steps + 1) * p.step, T(0));
    kernels::to_time_major<T>(p.template outputs_of<T>(pass.dy.stride()), pass.dy.data(),
                              gradients + p.first_output() - p.step);
    for (std::size_t t = p.steps; t-- > 0;) {
      T* const of_step_gates = all + p.gates + t * p.gates_step;
      for (std::size_t pixel = 0; pixel < p.pixels; ++pixel) {
        const std::size_t n = p.run, at = pixel * n;
        T* const gates = of_step_gates + 4 * at;
        const T* const cells = all + p.cells + t * p.step + at;
        const T* const dh = gradients + t * p.step + at;
        kernels::sweep(
            n,
            [](auto& i, auto& f, auto& g, auto& o, const auto& c_before, const auto& c,
               const auto& d, auto& dc) LOCKSTEP_KERNEL_LAMBDA {
              const auto squashed = Gate::value(c);
              const auto cell = dc + Gate::gradient(d * o, squashed);
              const auto d_input = RecurrentGate::gradient(cell * g, i);
              const auto d_candidate = Gate::gradient(cell * i, g);
              dc = cell * f;
              f = RecurrentGate::gradient(cell * c_before, f);
              o = RecurrentGate::gradient(d * squashed, o);
              i = d_input;
              g = d_candidate;
            },
            gates, gates + n, gates + 2 * n, gates + 3 * n, cells, cells + p.step, dh, carry + at);
      }
      if (t > 0)
        kernels::convolution_input_gradient<T>(of_step<In>(p.batch), pass.weights[1].data(),
                                               of_step_gates, gradients + (t - 1) * p.step, nullptr,
                                               {}, true);
    }
    T* bias = nullptr;
    if constexpr (Options.use_bias) bias = pass.gradients[2].data();
    const kernels::Delta<T> delta{.dy = all + p.gates, .y = all + p.gates};
    kernels::convolution_weight_gradient<T>(of_inputs<In>(p.batch), all + p.inputs, delta,
                                            pass.gradients[0].data(), bias, rest);
    kernels::convolution_weight_gradient<T>(of_states<In>(p.batch), all + p.states, delta,
                                            pass.gradients[1].data(), nullptr, rest);
    pass.context.gradients_ready(pass.gradients);
  }
};

}}  // namespace lockstep
