// What is checked of each recurrent layer.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "lockstep/core/shape.hpp"
#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"
#include "support/layer_rig.hpp"

namespace lockstep_test {

/// A sample's output and input gradient have the same bits alone, and in any row of a batch; and
/// two runs have the same bits in all.
template <class L, class In>
void check_rows_alike() {
  using ls_in = In;
  LayerRig<L, ls_in, float> batch(17), again(17);
  for (auto* rig : {&batch, &again}) rig->forward(), rig->backward();
  CHECK(std::equal(batch.y.begin(), batch.y.end(), again.y.begin()));
  CHECK(std::equal(batch.dx.begin(), batch.dx.end(), again.dx.begin()));
  for (std::size_t v = 0; v < batch.gradients.size(); ++v)
    CHECK(std::equal(batch.gradients[v].begin(), batch.gradients[v].end(),
                     again.gradients[v].begin()));
  for (const std::size_t sample : {0u, 5u, 16u}) {
    LayerRig<L, ls_in, float> whole(17), alone(1);
    for (std::size_t v = 0; v < alone.weights.size(); ++v)
      std::copy(batch.weights[v].begin(), batch.weights[v].end(), alone.weights[v].begin());
    alone.sample_indices[0] = static_cast<std::int64_t>(sample);
    const auto copy = [&](auto size, const auto& from, const auto& to) {
      for (std::size_t f = 0; f < size.features; ++f)
        for (std::size_t t = 0; t < size.positions; ++t)
          to[f * size.stride(1) + t] = from[f * size.stride(17) + sample * size.positions + t];
    };
    const auto same = [&](auto size, const auto& from, const auto& to) {
      bool equal = true;
      for (std::size_t f = 0; f < size.features; ++f)
        for (std::size_t t = 0; t < size.positions; ++t)
          equal = equal && to[f * size.stride(1) + t] ==
                               from[f * size.stride(17) + sample * size.positions + t];
      return equal;
    };
    copy(whole.in_size, whole.x, alone.x);
    copy(whole.out_size, whole.dy, alone.dy);
    alone.forward();
    alone.backward();
    CHECK(same(whole.out_size, batch.y, alone.y));
    CHECK(same(whole.in_size, batch.dx, alone.dx));
  }
}

/// The last output of Keras's tests: 3 units, inputs 0 to 71 as 3 samples of 6 tokens, kernel .01,
/// recurrent kernel .02, bias .03 (but forget_bias at the second of four gates).
template <class L>
std::vector<double> keras_rows(double forget_bias = 0.03) {
  using In = lockstep::Sequence<6, 4>;
  LayerRig<L, In, double> rig(3);
  for (std::size_t i = 0; i < 72; ++i) rig.x[i % 4 * rig.stride + i / 4] = static_cast<double>(i);
  const double values[] = {0.01, 0.02, 0.03};
  for (std::size_t v = 0; v < rig.weights.size(); ++v)
    std::fill(rig.weights[v].begin(), rig.weights[v].end(), values[v]);
  if (rig.weights.size() > 2 && rig.weights[2].size() == 12)
    std::fill_n(rig.weights[2].begin() + 3, 3, forget_bias);
  rig.forward();
  return {rig.y[0], rig.y[1], rig.y[2]};
}

inline void check_near(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(2e-6));
}

}  // namespace lockstep_test
