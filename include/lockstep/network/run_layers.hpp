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

// A container hands its layers over as tables of plain data and function pointers, with an entry
// for each layer that computes something (aliases have none). So the code that calls them is
// compiled once, and the compile time of a model grows with the number of its layers.
//
// The container's scratch holds: the outputs of all layers but the last one, which writes to the
// container's own output; two gradients between layers, used in turn; the layers' scratch.

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A layer's place in its container. `first_...`: the sum of that figure over the layers before it.
struct LayerPlace {
  std::size_t position = 0;  ///< of the layer in the flattened container
  std::size_t input_size = 0;
  std::size_t output_size = 0;
  std::size_t first_output = 0;  ///< in scratch, in features
  std::size_t first_variable = 0, variables = 0;
  std::size_t first_state_variable = 0, state_variables = 0;
  std::size_t (*scratch)(std::size_t stride) = nullptr;  ///< elements; null: none
  bool is_container = false;                             ///< its layers have times of their own

  [[nodiscard]] constexpr std::size_t scratch_size(std::size_t stride) const {
    return scratch == nullptr ? 0 : scratch(stride);
  }
};

/// f(position, y), without its type.
template <class T>
class OutputVisitor {
 public:
  template <class F>
  explicit OutputVisitor(F& f)
      : self_(&f),
        call_([](void* self, std::size_t position, TensorView<const T> y) { (*static_cast<F*>(self))(position, y); }) {}
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
  buffer,   ///< one of the two in scratch
};

/// How a layer runs backward.
template <class T>
struct BackwardCall {
  void (*run)(const BackwardPass<T>&) = nullptr;  ///< null: no gradient is wanted from here on
  GradientPlace dx = GradientPlace::buffer;
  bool announces_gradients = false;  ///< see AnnouncingLayer
};

/// Features of the outputs that are kept between layers.
[[nodiscard]] constexpr std::size_t kept_features(std::span<const LayerPlace> layers) {
  return layers.empty() ? 0 : layers.back().first_output;
}

/// Features of the largest gradient between two layers.
[[nodiscard]] constexpr std::size_t gradient_features(std::span<const LayerPlace> layers) {
  std::size_t largest = 0;
  for (const LayerPlace& layer : layers) largest = std::max(largest, layer.input_size);
  return largest;
}

/// Where the layers' own scratch begins, in elements.
[[nodiscard]] constexpr std::size_t first_scratch(std::span<const LayerPlace> layers, std::size_t stride) {
  return (kept_features(layers) + 2 * gradient_features(layers)) * stride;
}

/// Elements of scratch that the container needs.
[[nodiscard]] constexpr std::size_t container_scratch(std::span<const LayerPlace> layers, std::size_t stride) {
  std::size_t size = first_scratch(layers, stride);
  for (const LayerPlace& layer : layers) size += layer.scratch_size(stride);
  return size;
}

/// The output of layer i, in scratch unless it is the last one.
template <class T>
[[nodiscard]] TensorView<T> output_of(std::span<const LayerPlace> layers, std::size_t i, TensorView<T> last,
                                      std::span<std::remove_const_t<T>> scratch, std::size_t samples,
                                      std::size_t stride) {
  T* const data = i + 1 == layers.size() ? last.data() : scratch.data() + layers[i].first_output * stride;
  return {data, samples, layers[i].output_size, stride};
}

/// (A container's layers have spans of their own.)
[[nodiscard]] inline Trace* trace_of(const LayerPlace& layer, const StepContext& context) noexcept {
  return layer.is_container ? nullptr : context.trace;
}

template <class T>
void run_forward(std::span<const LayerPlace> layers, std::span<const ForwardCall<T>> calls,
                 const ForwardPass<T>& pass) {
  if (layers.empty()) {
    std::copy_n(pass.x.data(), pass.x.features() * pass.x.stride(), pass.y.data());
    return;
  }
  const std::size_t stride = pass.x.stride();
  TensorView<const T> x = pass.x;
  std::size_t own = first_scratch(layers, stride);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerPlace& layer = layers[i];
    const TensorView<T> y = output_of<T>(layers, i, pass.y, pass.scratch, x.samples(), stride);
    const std::size_t scratch_size = layer.scratch_size(stride);
    StepContext context = pass.context;
    context.layer += layer.position;
    const TraceSpan span(trace_of(layer, context), TracePart::forward, context.layer);
    calls[i].run({.context = context,
                  .weights = pass.weights.subspan(layer.first_variable, layer.variables),
                  .state = pass.state.subspan(layer.first_state_variable, layer.state_variables),
                  .x = x,
                  .y = y,
                  .scratch = pass.scratch.subspan(own, scratch_size)});
    own += scratch_size;
    x = y;
  }
}

/// Calls visit(position, y) for the output of each layer, as run_forward has left them. `first` is
/// the container's position in the flattened model.
template <class T>
void visit_outputs(std::span<const LayerPlace> layers, std::span<const ForwardCall<T>> calls, std::size_t first,
                   const ForwardPass<T>& pass, OutputVisitor<T> visit) {
  const std::size_t stride = pass.x.stride();
  TensorView<const T> x = pass.x;
  std::size_t own = first_scratch(layers, stride);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerPlace& layer = layers[i];
    const TensorView<T> y = output_of<T>(layers, i, pass.y, pass.scratch, x.samples(), stride);
    const std::size_t scratch_size = layer.scratch_size(stride);
    if (calls[i].each_output == nullptr)
      visit(first + layer.position, y);
    else
      calls[i].each_output(first + layer.position,
                           {.context = pass.context,
                            .weights = {},
                            .state = {},
                            .x = x,
                            .y = y,
                            .scratch = pass.scratch.subspan(own, scratch_size)},
                           visit);
    own += scratch_size;
    x = y;
  }
}

template <class T>
void run_backward(std::span<const LayerPlace> layers, std::span<const BackwardCall<T>> calls,
                  const BackwardPass<T>& pass) {
  if (layers.empty()) {
    if (!pass.dx.empty()) std::copy_n(pass.dy.data(), pass.dy.features() * pass.dy.stride(), pass.dx.data());
    return;
  }
  const std::size_t stride = pass.x.stride();
  const std::size_t samples = pass.x.samples();
  T* const gradients[2] = {pass.scratch.data() + kept_features(layers) * stride,
                           pass.scratch.data() + (kept_features(layers) + gradient_features(layers)) * stride};
  std::size_t turn = 0;
  std::size_t own = container_scratch(layers, stride);
  TensorView<T> dy = pass.dy;
  for (std::size_t i = layers.size(); i > 0 && calls[i - 1].run != nullptr; --i) {
    const LayerPlace& layer = layers[i - 1];
    const BackwardCall<T>& call = calls[i - 1];
    const std::size_t scratch_size = layer.scratch_size(stride);
    own -= scratch_size;
    StepContext context = pass.context;
    context.layer += layer.position;
    if (!call.announces_gradients) context.gradients_ready = context.variables_done = {};
    const auto output = [&](std::size_t number) {
      return output_of<const T>(layers, number, pass.y, pass.scratch, samples, stride);
    };
    T* dx = nullptr;
    switch (call.dx) {
      case GradientPlace::given:
        dx = pass.dx.data();
        break;
      case GradientPlace::nowhere:
        break;
      case GradientPlace::of_x:
        dx = pass.scratch.data() + layers[i - 2].first_output * stride;
        break;
      case GradientPlace::of_dy:
        dx = dy.data();
        break;
      case GradientPlace::buffer:
        dx = gradients[turn ^= 1];
        break;
    }
    const BackwardPass<T> layer_pass{
        .context = context,
        .weights = pass.weights.subspan(layer.first_variable, layer.variables),
        .state = pass.state.subspan(layer.first_state_variable, layer.state_variables),
        .x = i == 1 ? TensorView<const T>(pass.x.data(), samples, layer.input_size, stride) : output(i - 2),
        .y = output(i - 1),
        .dy = TensorView<T>(dy.data(), samples, layer.output_size, stride),
        .dx =
            call.dx == GradientPlace::nowhere ? TensorView<T>() : TensorView<T>(dx, samples, layer.input_size, stride),
        .gradients = pass.gradients.subspan(layer.first_variable, layer.variables),
        .scratch = pass.scratch.subspan(own, scratch_size)};
    const TraceSpan span(trace_of(layer, context), TracePart::backward, context.layer);
    call.run(layer_pass);
    pass.context.gradients_ready(layer_pass.gradients);
    pass.context.variables_done(layer_pass.gradients);
    dy = layer_pass.dx;
  }
}

LOCKSTEP_INSTANCE(void run_forward<float>(std::span<const LayerPlace>, std::span<const ForwardCall<float>>,
                                          const ForwardPass<float>&));
LOCKSTEP_INSTANCE(void run_forward<double>(std::span<const LayerPlace>, std::span<const ForwardCall<double>>,
                                           const ForwardPass<double>&));
LOCKSTEP_INSTANCE(void run_backward<float>(std::span<const LayerPlace>, std::span<const BackwardCall<float>>,
                                           const BackwardPass<float>&));
LOCKSTEP_INSTANCE(void run_backward<double>(std::span<const LayerPlace>, std::span<const BackwardCall<double>>,
                                            const BackwardPass<double>&));
LOCKSTEP_INSTANCE(void visit_outputs<float>(std::span<const LayerPlace>, std::span<const ForwardCall<float>>,
                                            std::size_t, const ForwardPass<float>&, OutputVisitor<float>));
LOCKSTEP_INSTANCE(void visit_outputs<double>(std::span<const LayerPlace>, std::span<const ForwardCall<double>>,
                                             std::size_t, const ForwardPass<double>&, OutputVisitor<double>));

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
