// Runs a list of layers forward and backward, without knowing their types.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/layer_place.hpp"

// A container hands its layers over as tables of plain data and function pointers, with an entry
// for each layer that computes something (aliases have none). So the code that calls them is
// compiled once, and the compile time of a model grows with the number of its layers.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// f(position, y), without its type.
template <class T>
class OutputVisitor {
 public:
  template <class F>
  explicit OutputVisitor(F& f)
      : self_(&f), call_([](void* self, std::size_t position, TensorView<const T> y) {
          (*static_cast<F*>(self))(position, y);
        }) {}
  void operator()(std::size_t position, TensorView<const T> y) const { call_(self_, position, y); }

 private:
  void* self_;
  void (*call_)(void*, std::size_t, TensorView<const T>);
};

/// How a layer runs forward.
template <class T>
struct ForwardCall {
  void (*run)(const ForwardPass<T>&) = nullptr;
  /// As ContainerLayer says; null: the layer has one output.
  void (*each_output)(std::size_t first, const ForwardPass<T>&, OutputVisitor<T>) = nullptr;
};

/// Where a layer's dx is.
enum class GradientPlace : unsigned char {
  given,    ///< the container's own
  nowhere,  ///< not wanted
  of_x,     ///< over the layer's input
  of_dy,    ///< over the layer's output gradient
  buffer,   ///< in temporary memory
};

/// How a layer runs backward.
template <class T>
struct BackwardCall {
  void (*run)(const BackwardPass<T>&) = nullptr;  ///< null: no gradient is wanted from here on
  GradientPlace dx = GradientPlace::buffer;
  bool announces_gradients = false;  ///< see AnnouncingLayer
  bool keeps_dy = false;             ///< this and the next ones: see SummingLayer
  bool adds_to_dx = false;
  bool adds_to_dy = false;
};

/// (A container's layers have their own spans.)
[[nodiscard]] inline Trace* trace_of(const LayerPlace& layer, const StepContext& context) noexcept {
  return layer.is_container ? nullptr : context.trace;
}

/// Calls f(i, x, y, kept, scratch) for each layer, first to last, with where its arrays lie in
/// those of the container's pass. `kept`: where y is kept, if that is not y itself, else null.
template <class T, class F>
void each_layer(std::span<const LayerPlace> layers, const ForwardPass<T>& pass, F&& f) {
  const std::size_t samples = samples_of(pass.x, layers.front().input);
  TensorView<const T> x = pass.x;
  T* output = pass.scratch.data();
  std::size_t own = kept_elements(layers, samples);
  const InTurn<T> unpacked{pass.temporary.data(), unpacked_elements(layers, samples, true)};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerPlace& layer = layers[i];
    const bool is_last = i + 1 == layers.size();
    const bool packs = !is_last && layer.kept != nullptr;
    const TensorView<T> y =
        layer.output.view(is_last ? pass.y.data()
                          : packs ? unpacked.at(i, layer.output.elements(samples))
                                  : output,
                          samples);
    const std::size_t scratch_size = layer.scratch_size(samples);
    f(i, layer.input.view(x.data(), samples), y, packs ? output : nullptr,
      pass.scratch.subspan(own, scratch_size));
    if (!is_last) output += layer.kept_size(samples);
    own += scratch_size;
    x = y;
  }
}

template <class T>
void run_forward(std::span<const LayerPlace> layers, std::span<const ForwardCall<T>> calls,
                 const ForwardPass<T>& pass) {
  if (layers.empty()) {
    std::copy_n(pass.x.data(), pass.x.features() * pass.x.stride(), pass.y.data());
    pass.set_mask(pass.mask);
    return;
  }
  const T* mask = pass.mask;
  const std::size_t temporary = first_temporary(layers, samples_of(pass.x, layers.front().input));
  each_layer(
      layers, pass,
      [&](std::size_t i, TensorView<const T> x, TensorView<T> y, T* kept, std::span<T> scratch) {
        const LayerPlace& layer = layers[i];
        const StepContext context = layer.context(pass.context);
        const TraceSpan span(trace_of(layer, context), TracePart::forward, context.layer);
        const T* mask_of_y = layer.keeps_mask ? mask : nullptr;
        calls[i].run(
            {.context = context,
             .weights = pass.weights.subspan(layer.first_variable, layer.variables),
             .state = pass.state.subspan(layer.first_state_variable, layer.state_variables),
             .x = x,
             .y = y,
             .scratch = scratch,
             .mask = mask,
             .mask_of_y = &mask_of_y,
             .temporary = pass.temporary.subspan(temporary),
             .addend = i + 1 == layers.size() ? pass.addend : nullptr,
             .minimum = i + 1 == layers.size() ? pass.minimum : ForwardPass<T>::no_minimum});
        if (kept != nullptr) layer.pack_output(y, kept);
        mask = mask_of_y;
      });
  pass.set_mask(mask);
}

/// Calls visit(position, y) for the output of each layer, as run_forward has left them. `first` is
/// the container's position in the flattened model.
template <class T>
void visit_outputs(std::span<const LayerPlace> layers, std::span<const ForwardCall<T>> calls,
                   std::size_t first, const ForwardPass<T>& pass, OutputVisitor<T> visit) {
  if (layers.empty()) return;
  const std::size_t samples = samples_of(pass.x, layers.front().input);
  const std::span<T> temporary = pass.temporary.subspan(first_temporary(layers, samples));
  each_layer(
      layers, pass,
      [&](std::size_t i, TensorView<const T> x, TensorView<T> y, T* kept, std::span<T> scratch) {
        if (kept != nullptr) static_cast<void>(layers[i].unpack_output(kept, y.data(), samples));
        if (calls[i].each_output == nullptr)
          visit(first + layers[i].position, y);
        else
          calls[i].each_output(first + layers[i].position,
                               {.context = pass.context,
                                .weights = {},
                                .state = {},
                                .x = x,
                                .y = y,
                                .scratch = scratch,
                                .temporary = temporary},
                               visit);
      });
}

template <class T>
void run_backward(std::span<const LayerPlace> layers, std::span<const BackwardCall<T>> calls,
                  const BackwardPass<T>& pass) {
  if (layers.empty()) {
    if (!pass.dx.empty())
      std::copy_n(pass.dy.data(), pass.dy.features() * pass.dy.stride(), pass.dx.data());
    return;
  }
  const std::size_t samples = samples_of(pass.x, layers.front().input);
  const std::size_t kept = kept_elements(layers, samples);
  const InTurn<T> gradients{pass.temporary.data(), gradient_elements(layers, samples)};
  const InTurn<T> unpacked{gradients.begin + gradients.size,
                           unpacked_elements(layers, samples, false)};
  std::size_t turn = 0;
  std::size_t own = container_scratch(layers, samples);
  const T* y = pass.y.data();
  T* packed = pass.scratch.data() + kept;  // after the first round: where the input is kept
  T* input = nullptr;                      // and where it lies, if it is no x
  T* dy = pass.dy.data();
  for (std::size_t i = layers.size(); i > 0 && calls[i - 1].run != nullptr; --i) {
    const LayerPlace& layer = layers[i - 1];
    const BackwardCall<T>& call = calls[i - 1];
    const std::size_t scratch_size = layer.scratch_size(samples);
    own -= scratch_size;
    if (i > 1) {
      const LayerPlace& below = layers[i - 2];
      packed -= below.kept_size(samples);
      input = below.unpack_output(packed, unpacked.at(i, below.output.elements(samples)), samples);
    }
    StepContext context = layer.context(pass.context);
    if (!call.announces_gradients) context.gradients_ready = context.variables_done = {};
    T* dx = nullptr;
    const auto buffer = [&] { return gradients.at(++turn, layer.input.elements(samples)); };
    switch (call.dx) {
      case GradientPlace::given:
        dx = pass.dx.data();
        break;
      case GradientPlace::nowhere:
        break;
      case GradientPlace::of_x:
        dx = input;
        break;
      case GradientPlace::of_dy:
        if (i < layers.size() || !pass.keeps_dy)
          dx = dy;
        else
          dx = pass.spare != nullptr ? pass.spare : buffer();
        break;
      case GradientPlace::buffer:
        dx = buffer();
        break;
    }
    const T* const x = i == 1 ? pass.x.data() : input;
    const BackwardPass<T> layer_pass{
        .context = context,
        .weights = pass.weights.subspan(layer.first_variable, layer.variables),
        .state = pass.state.subspan(layer.first_state_variable, layer.state_variables),
        .x = layer.input.view(x, samples),
        .y = layer.output.view(y, samples),
        .dy = layer.output.view(dy, samples),
        .dx = call.dx == GradientPlace::nowhere ? TensorView<T>() : layer.input.view(dx, samples),
        .gradients = pass.gradients.subspan(layer.first_variable, layer.variables),
        .scratch = pass.scratch.subspan(own, scratch_size),
        .temporary = pass.temporary.subspan(first_temporary(layers, samples)),
        .keeps_dy = i == layers.size() && pass.keeps_dy,
        .adds_to_dx = i == 1 && pass.adds_to_dx};
    const TraceSpan span(trace_of(layer, context), TracePart::backward, context.layer);
    call.run(layer_pass);
    pass.context.gradients_ready(layer_pass.gradients);
    pass.context.variables_done(layer_pass.gradients);
    dy = dx;
    y = x;
  }
}

LOCKSTEP_EXTERN(void run_forward<float>(std::span<const LayerPlace>,
                                        std::span<const ForwardCall<float>>,
                                        const ForwardPass<float>&));
LOCKSTEP_EXTERN_DOUBLE(void run_forward<double>(std::span<const LayerPlace>,
                                                std::span<const ForwardCall<double>>,
                                                const ForwardPass<double>&));
LOCKSTEP_EXTERN(void run_backward<float>(std::span<const LayerPlace>,
                                         std::span<const BackwardCall<float>>,
                                         const BackwardPass<float>&));
LOCKSTEP_EXTERN_DOUBLE(void run_backward<double>(std::span<const LayerPlace>,
                                                 std::span<const BackwardCall<double>>,
                                                 const BackwardPass<double>&));
LOCKSTEP_EXTERN(void visit_outputs<float>(std::span<const LayerPlace>,
                                          std::span<const ForwardCall<float>>, std::size_t,
                                          const ForwardPass<float>&, OutputVisitor<float>));
LOCKSTEP_EXTERN_DOUBLE(void visit_outputs<double>(std::span<const LayerPlace>,
                                                  std::span<const ForwardCall<double>>, std::size_t,
                                                  const ForwardPass<double>&,
                                                  OutputVisitor<double>));

}}}  // namespace lockstep::detail
