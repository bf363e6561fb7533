// Compares a layer over sequences with golden values, which are [sample][position][feature].
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/core/shape.hpp"
#include "support/golden_variable.hpp"
#include "support/instruction_sets.hpp"
#include "support/layer_rig.hpp"

namespace lockstep_test {

struct GoldenSequences {
  std::size_t samples;
  Golden x, y, dy, dx;
  std::vector<GoldenVariable> variables;
  Golden mask = {};
};

/// Where value i of [sample][position][feature] lies in [feature][stride], or for a Shape in
/// [position][stride].
template <class S>
std::size_t place_in_rows(std::size_t i, std::size_t stride) {
  if constexpr (lockstep::is_sequence<S>)
    return i % S::Token::size * stride + i / S::Token::size;
  else
    return i % S::size * stride + i / S::size;
}

template <class S, class T>
double worst_error(Golden expected, const Array<T>& values, std::size_t stride) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(
        worst, std::abs(static_cast<double>(values[place_in_rows<S>(i, stride)]) - expected[i]));
  return worst;
}

/// Forward and backward of L, in float and double, under every instruction set. An empty dx is not
/// compared.
template <class L, class In>
void check_golden_sequences(const GoldenSequences& c) {
  const auto check = [&]<class T>(T tolerance) {
    using Out = typename LayerRig<L, In, T>::Out;
    LayerRig<L, In, T> rig(c.samples);
    const Array<T> mask(c.mask.size());
    std::transform(c.mask.begin(), c.mask.end(), mask.begin(),
                   [](double m) { return static_cast<T>(m); });
    if (mask.size() > 0) rig.mask = mask.data();
    for (std::size_t i = 0; i < c.x.size(); ++i)
      rig.x[place_in_rows<In>(i, rig.stride)] = static_cast<T>(c.x[i]);
    for (std::size_t i = 0; i < c.dy.size(); ++i)
      rig.dy[place_in_rows<Out>(i, rig.out_stride)] = static_cast<T>(c.dy[i]);
    REQUIRE(rig.weights.size() == c.variables.size());
    for (std::size_t v = 0; v < rig.weights.size(); ++v) {
      REQUIRE(rig.weights[v].size() == c.variables[v].value.size());
      std::transform(c.variables[v].value.begin(), c.variables[v].value.end(),
                     rig.weights[v].begin(), [](double w) { return static_cast<T>(w); });
    }
    rig.forward();
    CHECK(worst_error<Out>(c.y, rig.y, rig.out_stride) < static_cast<double>(tolerance));
    rig.backward();
    CHECK(worst_error<In>(c.dx, rig.dx, rig.stride) < static_cast<double>(tolerance));
    for (std::size_t v = 0; v < rig.weights.size(); ++v)
      CHECK(worst_error<lockstep::Shape<1>>(c.variables[v].gradient, rig.gradients[v], 1) <
            static_cast<double>(tolerance));
  };
  for_each_instruction_set([&] {
    check(1e-5F);
    check(2e-7);  // the golden values have 9 digits
  });
}

}  // namespace lockstep_test
