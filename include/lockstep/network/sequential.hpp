// Sequential: layers one after the other, itself a layer.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_names.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// The shape that a model starts from; only the first layer of a model may be an Input.
template <class... Layers>
struct ModelInput;
template <>
struct ModelInput<> {
  using Sample = void;
};
template <class First, class... Rest>
struct ModelInput<First, Rest...> {
  using Sample = void;
};
template <std::size_t... Extents, class... Rest>
struct ModelInput<Input<Extents...>, Rest...> {
  using Sample = Shape<Extents...>;
};

/// What the layers of a Sequential are and where each keeps its things, for one input shape. Offsets into scratch are in
/// samples: multiplied by the stride they are elements.
template <class List>
struct SequentialPlan;

template <class... At>
struct SequentialPlan<LayerList<At...>> {
  static constexpr std::size_t size = sizeof...(At);
  template <std::size_t I>
  using Layer = std::tuple_element_t<I, std::tuple<At...>>;

  static constexpr std::array<bool, size> aliases{At::aliases...};
  static constexpr std::array<std::size_t, size> input_size{At::Input::size...};
  static constexpr std::array<std::size_t, size> output_size{At::Output::size...};
  static constexpr std::array<std::size_t, size> variable_count{At::variables.size()...};
  static constexpr std::array<std::size_t, size> state_count{At::state_variables.size()...};
  static constexpr std::array<std::size_t, size> layer_count{At::layer_count...};

  /// Sum of the first `count` values.
  static constexpr std::size_t before(const std::array<std::size_t, size>& values, std::size_t count) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += values[i];
    return sum;
  }

  /// The last layer that computes something, whose output is the output of the whole; `size` when all are aliases.
  static constexpr std::size_t last = [] {
    for (std::size_t i = size; i > 0; --i)
      if (!aliases[i - 1]) return i - 1;
    return size;
  }();
  /// The first layer that computes something.
  static constexpr std::size_t first = [] {
    for (std::size_t i = 0; i < size; ++i)
      if (!aliases[i]) return i;
    return size;
  }();
  /// The first layer with variables; `size` when there is none.
  static constexpr std::size_t first_trained = [] {
    for (std::size_t i = 0; i < size; ++i)
      if (variable_count[i] > 0) return i;
    return size;
  }();

  /// The layer that computes the input of this one; `size` when there is none.
  static constexpr std::size_t previous(std::size_t layer) {
    while (layer > 0 && aliases[layer - 1]) --layer;
    return layer > 0 ? layer - 1 : size;
  }
  /// The layer that computes something of the output of this one; `size` when there is none.
  static constexpr std::size_t next(std::size_t layer) {
    do ++layer;
    while (layer < size && aliases[layer]);
    return layer;
  }
  /// Whether backward goes from layer I, by itself, through the activation of the previous layer too. It goes no further than `begin`.
  template <std::size_t I, std::size_t Begin, class T>
  static constexpr bool passes_through = [] {
    if constexpr (I < size && previous(I) < size && previous(I) >= Begin)
      return PassesThrough<Layer<I>, Layer<previous(I)>, T>;
    else
      return false;
  }();

  /// Features of the activations that are kept between layers.
  static constexpr std::size_t activations = [] {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < size; ++i)
      if (!aliases[i] && i != last) sum += output_size[i];
    return sum;
  }();
  /// Where the output of layer i starts among them.
  static constexpr std::size_t activation(std::size_t layer) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < layer; ++i)
      if (!aliases[i]) sum += output_size[i];
    return sum;
  }
  /// Features of the largest gradient between two layers (two such buffers are used in turn).
  static constexpr std::size_t gradient = [] {
    std::size_t largest = 0;
    for (std::size_t i = 0; i < size; ++i)
      if (!aliases[i]) largest = std::max(largest, input_size[i]);
    return largest;
  }();

  static constexpr std::size_t scratch(std::size_t stride) { return (std::size_t{0} + ... + At::scratch(stride)); }

  /// Concatenates one array for each layer.
  template <class Pick>
  static consteval auto concatenate(Pick pick) {
    std::array<Variable, (std::size_t{0} + ... + pick.template operator()<At>().size())> all{};
    std::size_t next = 0;
    const auto append = [&](const auto& some) {
      for (const Variable& variable : some) all[next++] = variable;
    };
    (append(pick.template operator()<At>()), ...);
    return all;
  }
};

}  // namespace detail

/// Layers one after the other. As the outermost model its first layer is an Input; without one it is a part of another
/// Sequential and takes its input shape from there.
///
/// @code
/// using Cnn = Sequential<Input<28, 28>, Reshape<28, 28, 1>, Conv2D<32, 3, ReLU>, Flatten, Dense<128, ReLU>, Dense<10>>;
/// static_assert(Cnn::parameter_count == 2'770'634);
/// @endcode
template <class... Layers>
struct Sequential {
  static_assert(sizeof...(Layers) > 0, "lockstep: Sequential needs at least one layer");
  static constexpr std::string_view name = "sequential";
  static constexpr std::string_view class_name = "Sequential";
  static constexpr bool keeps_padding = true;
  using AnnouncesGradients = Sequential;
  static constexpr std::size_t layer_count = (std::size_t{0} + ... + detail::layer_count_of<Layers>());

  /// Shape of a sample, from Input; void without one.
  using InputShape = typename detail::ModelInput<Layers...>::Sample;

  template <class In>
  using Chain = detail::Chain<0, In, detail::LayerList<>, Layers...>;
  template <class In>
  using Plan = detail::SequentialPlan<typename Chain<In>::List>;
  template <class In>
  using Output = typename Chain<In>::Output;

  /// The trained variables of all layers, first layer first.
  template <class In>
  static constexpr auto variables = Plan<In>::concatenate([]<class At>() consteval { return At::variables; });
  template <class In>
  static constexpr auto state_variables =
      Plan<In>::concatenate([]<class At>() consteval { return At::state_variables; });

  /// Elements of scratch: all inner activations, the layers' own scratch, and two gradients between layers.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return (Plan<In>::activations + 2 * Plan<In>::gradient) * stride + Plan<In>::scratch(stride);
  }

  /// Number of trained parameters; 0 without Input.
  static constexpr std::size_t parameter_count = [] {
    std::size_t count = 0;
    if constexpr (!std::is_void_v<InputShape>)
      for (const Variable& variable : variables<InputShape>) count += variable.size();
    return count;
  }();

  /// "dense_1", or "block/dense_1" in a nested Sequential "block", for each position of the flattened model.
  template <class In>
  static std::vector<std::string> layer_names() {
    return detail::layer_names(typename Chain<In>::List{});
  }

  /// "dense_1/kernel", for each of variables<In>: Keras's numbering of repeated layer names.
  template <class In>
  static std::vector<std::string> variable_names() {
    return detail::variable_names<true>(typename Chain<In>::List{});
  }
  template <class In>
  static std::vector<std::string> state_variable_names() {
    return detail::variable_names<false>(typename Chain<In>::List{});
  }

  /// For every variable in Keras's order (layer by layer, in each layer the trained ones first): whether it is trained.
  template <class In>
  static std::vector<bool> variable_order() {
    return detail::variable_order(typename Chain<In>::List{});
  }

  /// Throws ConfigurationError, naming the layers, unless files of weights can hold their names:
  /// each layer needs a name of its own, and so does each of its variables. `inside`: the name that
  /// this container has in its model.
  template <class In>
  static void check_names(const std::string& inside = {}) {
    detail::check_names(typename Chain<In>::List{}, inside);
  }

  /// Keras's table of layers, output shapes and parameter counts.
  static std::string summary()
    requires(!std::is_void_v<InputShape>)
  {
    return detail::summary_of(name, typename Chain<InputShape>::List{});
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    using P = Plan<In>;
    if constexpr (P::last == P::size) {
      std::copy_n(pass.x.data(), pass.x.features() * pass.x.stride(), pass.y.data());
    } else {
      TensorView<const T> x = pass.x;
      std::size_t own = (P::activations + 2 * P::gradient) * x.stride();
      each<In>([&]<std::size_t I>() {
        using At = typename P::template Layer<I>;
        if constexpr (!At::aliases) {
          const TensorView<T> y = output<P, I>(pass.y, pass.scratch, x);
          const std::size_t scratch_size = At::scratch(x.stride());
          StepContext context = pass.context;
          context.layer += P::before(P::layer_count, I);
          const TraceSpan span = trace<At>(context, TracePart::forward);
          At::template forward<T>({.context = context,
                                   .weights = slices<P, I>(pass.weights, P::variable_count),
                                   .state = slices<P, I>(pass.state, P::state_count),
                                   .x = x,
                                   .y = y,
                                   .scratch = pass.scratch.subspan(own, scratch_size)});
          own += scratch_size;
          x = y;
        }
      });
    }
  }

  /// Calls f(position, y) for the output of each layer that computes one, as forward has left them.
  /// `first` is the position of this model in the flattened one.
  template <class In, class T, class F>
  static void each_output(std::size_t first, const ForwardPass<T>& pass, F& f) {
    using P = Plan<In>;
    if constexpr (P::last != P::size) {
      TensorView<const T> x = pass.x;
      std::size_t own = (P::activations + 2 * P::gradient) * x.stride();
      each<In>([&]<std::size_t I>() {
        using At = typename P::template Layer<I>;
        if constexpr (!At::aliases) {
          const TensorView<T> y = output<P, I>(pass.y, pass.scratch, x);
          const std::size_t scratch_size = At::scratch(x.stride());
          const std::size_t position = first + P::before(P::layer_count, I);
          const ForwardPass<T> inner{.context = pass.context,
                                     .weights = {},
                                     .state = {},
                                     .x = x,
                                     .y = y,
                                     .scratch = pass.scratch.subspan(own, scratch_size)};
          if constexpr (requires { At::Work::template each_output<typename At::Input, T>(position, inner, f); })
            At::Work::template each_output<typename At::Input, T>(position, inner, f);
          else
            f(position, TensorView<const T>(y));
          own += scratch_size;
          x = y;
        }
      });
    }
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_backward<In, T, true>(pass);
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<In, T, false>(pass);
  }

 private:
  template <class In, class F>
  static void each(F&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f.template operator()<I>(), ...);
    }(std::index_sequence_for<Layers...>{});
  }

  /// (A container's layers have spans of their own.)
  template <class At>
  static TraceSpan trace(const StepContext& context, TracePart part) {
    return TraceSpan(detail::is_container<typename At::Layer> ? nullptr : context.trace, part, context.layer);
  }

  template <class P, std::size_t I, class T>
  static Slices<T> slices(Slices<T> all, const std::array<std::size_t, P::size>& counts) {
    return all.subspan(P::before(counts, I), counts[I]);
  }

  /// The output of layer I: the given view for the last one that computes, else its place in scratch.
  template <class P, std::size_t I, class Y, class T, class X>
  static Y output(const Y& y, std::span<T> scratch, const X& x) {
    if constexpr (I == P::last)
      return Y(y.data(), x.samples(), P::output_size[I], x.stride());
    else
      return Y(scratch.data() + P::activation(I) * x.stride(), x.samples(), P::output_size[I], x.stride());
  }

  template <class In, class T, bool InputGradient>
  static void run_backward(const BackwardPass<T>& pass) {
    using P = Plan<In>;
    if constexpr (P::last == P::size) {
      if constexpr (InputGradient) std::copy_n(pass.dy.data(), pass.dy.features() * pass.dy.stride(), pass.dx.data());
    } else {
      constexpr std::size_t begin = InputGradient ? P::first : P::first_trained;
      const std::size_t stride = pass.x.stride();
      const std::size_t samples = pass.x.samples();
      T* const gradients[2] = {pass.scratch.data() + P::activations * stride,
                               pass.scratch.data() + (P::activations + P::gradient) * stride};
      TensorView<T> dy = pass.dy;
      std::size_t own = scratch<In>(stride);
      std::size_t turn = 0;
      each<In>([&]<std::size_t Reversed>() {
        constexpr std::size_t I = P::size - 1 - Reversed;
        using At = typename P::template Layer<I>;
        if constexpr (!At::aliases) {
          const std::size_t scratch_size = At::scratch(stride);
          own -= scratch_size;
          if constexpr (I >= begin) {
            StepContext context = pass.context;
            context.layer += P::before(P::layer_count, I);
            constexpr bool through = P::template passes_through<I, begin, T>;
            using Backward = typename detail::Backward<At, P::template passes_through<P::next(I), begin, T>>::Type;
            if constexpr (!Backward::announces_gradients) context.gradients_ready = context.variables_done = {};
            constexpr bool skip = I == begin && !InputGradient && Backward::template can_skip_input_gradient<T>;
            TensorView<T> dx;
            if constexpr (I == P::first && InputGradient)
              dx = TensorView<T>(pass.dx.data(), samples, P::input_size[I], stride);
            else if constexpr (through)
              dx = output<P, P::previous(I)>(TensorView<T>(), pass.scratch, pass.x);
            else if constexpr (!skip && Backward::backward_in_place)
              dx = TensorView<T>(dy.data(), samples, P::input_size[I], stride);
            else if constexpr (!skip)
              dx = TensorView<T>(gradients[turn ^= 1], samples, P::input_size[I], stride);
            const BackwardPass<T> layer_pass{.context = context,
                                             .weights = slices<P, I>(pass.weights, P::variable_count),
                                             .state = slices<P, I>(pass.state, P::state_count),
                                             .x = layer_input<P, I>(pass),
                                             .y = output<P, I>(pass.y, pass.scratch, pass.x),
                                             .dy = TensorView<T>(dy.data(), samples, P::output_size[I], stride),
                                             .dx = dx,
                                             .gradients = slices<P, I>(pass.gradients, P::variable_count),
                                             .scratch = pass.scratch.subspan(own, scratch_size)};
            const TraceSpan span = trace<At>(context, TracePart::backward);
            if constexpr (skip)
              Backward::Work::template backward_weights<typename At::Input, T>(layer_pass);
            else if constexpr (through)
              Backward::template backward_through<typename P::template Layer<P::previous(I)>::Work::OutputActivation>(
                  layer_pass);
            else
              Backward::template backward<T>(layer_pass);
            pass.context.gradients_ready(layer_pass.gradients);
            pass.context.variables_done(layer_pass.gradients);
            dy = dx;
          }
        }
      });
    }
  }

  /// The input of layer I as forward saw it: the output of the last computing layer before it.
  template <class P, std::size_t I, class T>
  static TensorView<const T> layer_input(const BackwardPass<T>& pass) {
    if constexpr (I == P::first)
      return TensorView<const T>(pass.x.data(), pass.x.samples(), P::input_size[I], pass.x.stride());
    else
      return output<P, P::previous(I)>(TensorView<const T>(), pass.scratch, pass.x);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
