// Runs a network forward and backward without a model around it.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/step/variables.hpp"
#include "lockstep/step/workspace.hpp"

namespace lockstep_test {

/// Net with random parameters, the samples first, first + 1, ... of an endless random data set, and
/// MeanSquaredError.
template <class Net, class T = double>
class NetRunner {
 public:
  using In = typename Net::InputShape;
  using Out = typename Net::template Output<In>;
  using Workspace = lockstep::detail::Workspace<T>;

  explicit NetRunner(std::uint64_t seed = 1)
      : program_({}, {}, {}),
        parameters_(Net::template variables<In>),
        workspace_(program_, [](std::size_t bytes) { return lockstep::Buffer(bytes); }) {
    lockstep::detail::initialize<T>(Net::template variables<In>, parameters_.slices(),
                                    lockstep::RandomKey(seed));
    for (const std::span<T> slice : parameters_.slices())  // no bias stays zero
      for (T& value : slice) value += T(0.1);
  }

  /// Loss of a batch, and its gradients.
  double run(std::size_t samples, std::size_t first = 0, bool training = true) {
    load(samples, first);
    context_.training = training;
    workspace_.forward(context_, parameters_.slices());
    const double loss = gradient_of_predictions();
    workspace_.backward(context_, parameters_.slices());
    return loss;
  }
  double loss() {
    workspace_.forward(context_, parameters_.slices());
    return sum_of_losses({});
  }

  /// The gradient of the input, by Sequential::backward; it overwrites the gradients of the
  /// parameters with equal ones.
  std::vector<T> input_gradient() {
    const std::size_t stride = workspace_.x().stride();
    workspace_.forward(context_, parameters_.slices());
    gradient_of_predictions();
    const std::size_t samples = workspace_.x().samples();
    constexpr auto out = lockstep::detail::tensor_size<Out>;
    const lockstep::Buffer scratch(Net::template scratch<In>(samples) * sizeof(T)),
        temporary(Net::template temporary<In>(samples) * sizeof(T)),
        dx(In::size * stride * sizeof(T)), y(out.elements(samples) * sizeof(T));
    const std::span<T> scratch_span(reinterpret_cast<T*>(scratch.data()),
                                    Net::template scratch<In>(samples)),
        temporary_span(reinterpret_cast<T*>(temporary.data()),
                       Net::template temporary<In>(samples));
    const lockstep::TensorView<T> output = out.view(reinterpret_cast<T*>(y.data()), samples);
    const lockstep::TensorView<T> result(reinterpret_cast<T*>(dx.data()), samples, In::size,
                                         stride);
    Net::template forward<In, T>({.context = context_,
                                  .weights = parameters_.slices(),
                                  .state = workspace_.state().slices(),
                                  .x = workspace_.x(),
                                  .y = output,
                                  .scratch = scratch_span,
                                  .temporary = temporary_span});
    Net::template backward<In, T>({.context = context_,
                                   .weights = parameters_.slices(),
                                   .state = workspace_.state().slices(),
                                   .x = workspace_.x(),
                                   .y = output,
                                   .dy = workspace_.prediction_gradient(),
                                   .dx = result,
                                   .gradients = workspace_.gradients().slices(),
                                   .scratch = scratch_span,
                                   .temporary = temporary_span});
    for (std::size_t f = 0; f < In::size; ++f)
      for (std::size_t i = result.samples(); i < stride; ++i) CHECK(result(i, f) == T(0));
    std::vector<T> values;
    for (std::size_t f = 0; f < In::size; ++f)
      for (std::size_t i = 0; i < result.samples(); ++i) values.push_back(result(i, f));
    return values;
  }

  [[nodiscard]] std::vector<T> gradients() const { return copy(workspace_.gradients().slices()); }
  [[nodiscard]] std::vector<T> parameters() const { return copy(parameters_.slices()); }
  [[nodiscard]] std::span<const std::span<T>> parameter_slices() const {
    return parameters_.slices();
  }
  [[nodiscard]] std::vector<T> outputs() const {
    std::vector<T> values;
    const auto y = workspace_.predictions();
    for (std::size_t f = 0; f < y.features(); ++f)
      for (std::size_t i = 0; i < y.samples(); ++i) values.push_back(y(i, f));
    return values;
  }
  [[nodiscard]] Workspace& workspace() { return workspace_; }
  [[nodiscard]] lockstep::StepContext& context() { return context_; }

  /// Fills the batch.
  void load(std::size_t samples, std::size_t first) {
    workspace_.resize(samples);
    indices_.resize(samples);
    std::iota(indices_.begin(), indices_.end(), static_cast<std::int64_t>(first));
    context_.sample_indices = indices_;
    for (std::size_t i = 0; i < samples; ++i) {
      lockstep::RandomStream random(lockstep::RandomKey(77).fold_in(first + i));
      for (std::size_t f = 0; f < In::size; ++f)
        workspace_.batch().x(i, f) = static_cast<T>(random.uniform(-1, 1));
      for (std::size_t f = 0; f < Out::size; ++f)
        workspace_.batch().targets(i, f) = static_cast<T>(random.uniform(-1, 1));
    }
    workspace_.batch().x.clear_padding();
    workspace_.batch().targets.clear_padding();
    workspace_.use(workspace_.batch());
  }

 private:
  double gradient_of_predictions() { return sum_of_losses(workspace_.prediction_gradient()); }
  double sum_of_losses(lockstep::TensorView<T> gradient) {
    const std::span<double> losses = workspace_.losses();
    lockstep::MeanSquaredError{}.compute<T>(workspace_.predictions(), workspace_.targets(), losses,
                                            gradient);
    return std::accumulate(losses.begin(), losses.end(), 0.0);
  }
  static std::vector<T> copy(std::span<const std::span<T>> slices) {
    std::vector<T> values;
    for (const std::span<T> slice : slices) values.insert(values.end(), slice.begin(), slice.end());
    return values;
  }

  lockstep::detail::Compiled<Net, T, lockstep::MeanSquaredError, lockstep::SGD> program_;
  lockstep::Arena<T> parameters_;
  Workspace workspace_;
  lockstep::StepContext context_;
  std::vector<std::int64_t> indices_;
};

/// The gradients of all parameters and of the input equal central differences.
template <class Net>
void check_gradients(std::size_t samples, std::uint64_t seed = 1) {
  NetRunner<Net> net(seed);
  net.run(samples);
  const std::vector<double> gradients = net.gradients();
  const double step = 1e-6;
  const auto difference = [&](double& value) {
    const double at = value;
    value = at + step;
    const double above = net.loss();
    value = at - step;
    const double below = net.loss();
    value = at;
    return (above - below) / (2 * step);
  };
  std::size_t next = 0;
  for (const std::span<double> slice : net.parameter_slices())
    for (double& value : slice) {
      CAPTURE(next);
      CHECK(std::abs(gradients[next] - difference(value)) < 1e-7);
      ++next;
    }

  const std::vector<double> of_input = net.input_gradient();
  CHECK(net.gradients() == gradients);
  next = 0;
  for (std::size_t f = 0; f < Net::InputShape::size; ++f)
    for (std::size_t i = 0; i < samples; ++i) {
      CAPTURE(next);
      CHECK(std::abs(of_input[next] - difference(net.workspace().batch().x(i, f))) < 1e-7);
      ++next;
    }
}

}  // namespace lockstep_test
