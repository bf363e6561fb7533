// Compares a layer with golden values, in float and double, under every instruction set.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "support/golden_variable.hpp"
#include "support/instruction_sets.hpp"
#include "support/layer_rig.hpp"

namespace lockstep_test {

/// Sample by sample, each in row-major order.
struct GoldenCase {
  Golden x, y, dy, dx;
  std::vector<GoldenVariable> variables = {};
  std::vector<Golden> state = {};         ///< after forward
  std::vector<Golden> state_before = {};  ///< empty: the initial one
};

template <class T>
double worst_error(Golden expected, auto got) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(
        worst, std::abs(static_cast<double>(got(i)) - expected[i]) / (1 + std::abs(expected[i])));
  return worst;
}

template <class L, class In, class T>
void check_golden(const GoldenCase& c, double tolerance) {
  using Rig = LayerRig<L, In, T>;
  using Out = typename Rig::Out;
  Rig rig(c.x.size() / In::size);
  REQUIRE(c.y.size() == Out::size * rig.samples);
  // Sample by sample in the golden values, feature by feature here.
  const auto at = [&](const Array<T>& array, std::size_t features) {
    return [&, features](std::size_t i) -> T& {
      return array[i % features * rig.stride + i / features];
    };
  };
  for (std::size_t i = 0; i < c.x.size(); ++i) at(rig.x, In::size)(i) = static_cast<T>(c.x[i]);
  for (std::size_t i = 0; i < c.dy.size(); ++i) at(rig.dy, Out::size)(i) = static_cast<T>(c.dy[i]);
  REQUIRE(rig.weights.size() == c.variables.size());
  for (std::size_t v = 0; v < rig.weights.size(); ++v) {
    REQUIRE(rig.weights[v].size() == c.variables[v].value.size());
    for (std::size_t i = 0; i < rig.weights[v].size(); ++i)
      rig.weights[v][i] = static_cast<T>(c.variables[v].value[i]);
  }
  for (std::size_t v = 0; v < c.state_before.size(); ++v)
    for (std::size_t i = 0; i < rig.state[v].size(); ++i)
      rig.state[v][i] = static_cast<T>(c.state_before[v][i]);
  rig.forward();
  CHECK(worst_error<T>(c.y, at(rig.y, Out::size)) < tolerance);
  REQUIRE(rig.state.size() == c.state.size());
  for (std::size_t v = 0; v < c.state.size(); ++v) {
    REQUIRE(rig.state[v].size() == c.state[v].size());
    CHECK(worst_error<T>(c.state[v], [&](std::size_t i) { return rig.state[v][i]; }) < tolerance);
  }
  rig.backward();
  CHECK(worst_error<T>(c.dx, at(rig.dx, In::size)) < tolerance);
  for (std::size_t v = 0; v < rig.weights.size(); ++v)
    CHECK(worst_error<T>(c.variables[v].gradient,
                         [&](std::size_t i) { return rig.gradients[v][i]; }) < tolerance);
}

/// y, dx, the gradients and the state of layer L on samples of shape In.
template <class L, class In>
void check_golden(const GoldenCase& c) {
  for_each_instruction_set([&] {
    check_golden<L, In, float>(c, 3e-6);
    check_golden<L, In, double>(c, 2e-8);  // the golden values have 9 digits
  });
}

}  // namespace lockstep_test
