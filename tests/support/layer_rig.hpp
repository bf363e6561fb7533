// Everything that one layer needs to run alone: activations, variables, gradients, scratch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/network/layer_at.hpp"
#include "support/random_array.hpp"

namespace lockstep_test {

template <class L, class In>
constexpr std::size_t variable_count() {
  if constexpr (requires { L::template variables<In>; })
    return L::template variables<In>.size();
  else
    return 0;
}

template <class L, class In>
constexpr std::size_t state_variable_count() {
  if constexpr (requires { L::template state_variables<In>; })
    return L::template state_variables<In>.size();
  else
    return 0;
}

/// A layer that is no SequenceLayer is given the shape of a token, and as many samples as there are
/// tokens.
template <class L, class In, class T>
struct LayerRig {
  using Out = typename L::template Output<In>;

  static constexpr auto in_size = lockstep::detail::tensor_size<In>;
  static constexpr auto out_size = lockstep::detail::tensor_size<Out>;

  std::size_t samples;
  std::size_t stride = in_size.stride(samples);       // of x
  std::size_t out_stride = out_size.stride(samples);  // of y
  std::mt19937 random{12345};
  lockstep::StepContext context{};
  Array<T> x{in_size.elements(samples)}, dx{in_size.elements(samples)};
  Array<T> y{out_size.elements(samples)}, dy{out_size.elements(samples)};
  Array<T> scratch{scratch_size()}, temporary{temporary_size()};
  std::vector<Array<T>> weights, gradients, state;
  std::vector<std::span<T>> weight_spans, gradient_spans, state_spans;
  std::vector<std::int64_t> sample_indices;
  const T* mask = nullptr;       // of the rows of x
  const T* mask_of_y = nullptr;  // as the layer has set it

  explicit LayerRig(std::size_t batch) : samples(batch), sample_indices(batch) {
    std::iota(sample_indices.begin(), sample_indices.end(), std::int64_t{0});
    context.training = true;
    context.sample_indices = sample_indices;
    if constexpr (variable_count<L, In>() > 0)
      for (const lockstep::Variable& variable : L::template variables<In>) {
        weights.emplace_back(variable.size());
        gradients.emplace_back(variable.size());
      }
    if constexpr (state_variable_count<L, In>() > 0)
      for (const lockstep::Variable& variable : L::template state_variables<In>) {
        state.emplace_back(variable.size());
        lockstep::RandomStream initial{lockstep::RandomKey(1)};
        variable.initializer.fill(initial, variable.shape(), variable.fans, state.back().span());
      }
    for (const Array<T>& array : weights) weight_spans.push_back(array.span());
    for (const Array<T>& array : state) state_spans.push_back(array.span());
    for (const Array<T>& array : gradients) gradient_spans.push_back(array.span());
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (T& value : x)
      value = static_cast<T>(uniform(random));  // the padding too: it is finite, and not zero
    for (const Array<T>& array : weights)
      for (T& value : array) value = static_cast<T>(uniform(random));
    for (std::size_t f = 0; f < out_size.features; ++f)
      for (std::size_t row = 0; row < samples * out_size.positions; ++row)
        dy[f * out_stride + row] = static_cast<T>(uniform(random));
    // What a layer must write: found out by what is there before.
    for (T& value : y) value = T(77);
    for (T& value : dx) value = T(77);
    for (T& value : scratch) value = T(77);
    for (const Array<T>& array : gradients)
      for (T& value : array) value = T(77);
  }

  void forward() { L::template forward<In, T>(forward_pass()); }
  void backward() { L::template backward<In, T>(backward_pass(true)); }
  void backward_weights() { L::template backward_weights<In, T>(backward_pass(false)); }

  lockstep::ForwardPass<T> forward_pass() {
    spoil_temporary();
    return {context,
            weight_spans,
            state_spans,
            in_size.view(static_cast<const T*>(x.data()), samples),
            out_size.view(y.data(), samples),
            scratch.span(),
            mask,
            &mask_of_y,
            temporary.span()};
  }
  lockstep::BackwardPass<T> backward_pass(bool with_dx) {
    spoil_temporary();
    lockstep::TensorView<T> dx_view;
    if (with_dx) dx_view = in_size.view(dx.data(), samples);
    return {context,
            weight_spans,
            state_spans,
            in_size.view(static_cast<const T*>(x.data()), samples),
            out_size.view(static_cast<const T*>(y.data()), samples),
            out_size.view(dy.data(), samples),
            dx_view,
            gradient_spans,
            scratch.span(),
            temporary.span()};
  }

 private:
  /// Other layers have used it meanwhile.
  void spoil_temporary() {
    for (T& value : temporary) value = T(77);
  }
  std::size_t scratch_size() const {
    if constexpr (!requires { L::template scratch<In>(stride); })
      return 0;
    else if constexpr (lockstep::SequenceLayer<L>)
      return L::template scratch<In>(samples);
    else
      return L::template scratch<In>(stride);
  }
  std::size_t temporary_size() const {
    if constexpr (!requires { L::template temporary<In>(stride); })
      return 0;
    else if constexpr (lockstep::SequenceLayer<L>)
      return L::template temporary<In>(samples);
    else
      return L::template temporary<In>(stride);
  }
};

}  // namespace lockstep_test
