// Compares a layer's gradients with central differences, in double.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "support/layer_rig.hpp"

namespace lockstep_test {

/// Checks dx and every gradient of layer L on a batch of `samples`, and what else a layer promises
/// about its output: the padding of y is finite, that of dx is zero, and backward_weights gives the
/// same gradients as backward. The loss is the sum of y * dy.
template <class L, class In>
void check_gradients(std::size_t samples, double tolerance = 1e-7) {
  CAPTURE(samples);
  LayerRig<L, In, double> rig(samples);
  const std::vector<double> dy(rig.dy.begin(), rig.dy.end());  // backward may overwrite it
  const auto loss = [&] {
    rig.forward();
    double sum = 0;
    for (std::size_t i = 0; i < dy.size(); ++i) sum += dy[i] == 0 ? 0 : dy[i] * rig.y[i];
    return sum;
  };
  loss();
  REQUIRE(std::all_of(rig.y.begin(), rig.y.end(), [](double v) { return std::isfinite(v); }));
  rig.backward();

  // Every parameter of a small array; of a large one, a part with a stride that is no multiple of
  // any extent.
  double worst = 0;
  const auto compare = [&](const Array<double>& values, const Array<double>& gradient,
                           bool is_input) {
    const std::size_t step = values.size() < 400 ? 1 : values.size() / 211;
    for (std::size_t i = 0; i < values.size(); i += step) {
      if (is_input && i % rig.stride >= samples * rig.in_size.positions) continue;
      const double saved = values[i];
      constexpr double h = 1e-5;
      values[i] = saved + h;
      const double above = loss();
      values[i] = saved - h;
      const double below = loss();
      values[i] = saved;
      const double expected = (above - below) / (2 * h);
      worst = std::max(worst, std::abs(gradient[i] - expected) / std::max(1.0, std::abs(expected)));
    }
  };
  compare(rig.x, rig.dx, true);
  for (std::size_t i = 0; i < rig.weights.size(); ++i)
    compare(rig.weights[i], rig.gradients[i], false);
  CHECK(worst < tolerance);

  bool padding_is_zero = true;
  for (std::size_t i = 0; i < rig.dx.size(); ++i)
    if (i % rig.stride >= samples * rig.in_size.positions && rig.dx[i] != 0)
      padding_is_zero = false;
  CHECK(padding_is_zero);

  if constexpr (requires { L::template backward_weights<In, double>(rig.backward_pass(false)); }) {
    std::vector<std::vector<double>> gradients;
    for (const auto& array : rig.gradients) gradients.emplace_back(array.begin(), array.end());
    loss();
    std::copy(dy.begin(), dy.end(), rig.dy.begin());
    rig.backward_weights();
    for (std::size_t i = 0; i < gradients.size(); ++i)
      CHECK(std::equal(
          gradients[i].begin(), gradients[i].end(), rig.gradients[i].begin(),
          [](double a, double b) { return std::abs(a - b) <= 1e-12 * (1 + std::abs(a)); }));
  }
}

/// The same for the batches that are awkward: none, one, all lanes, one more.
template <class L, class In>
void check_gradients_for_all_batches(double tolerance = 1e-7) {
  for (const std::size_t samples : {0u, 1u, 3u, 16u, 17u})
    check_gradients<L, In>(samples, tolerance);
}

}  // namespace lockstep_test
