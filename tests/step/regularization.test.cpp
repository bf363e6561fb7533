#include "lockstep/step/workspace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ls = lockstep;

namespace {

constexpr ls::Variable plain{"kernel", {5, 7}, nullptr};
constexpr std::array variables{plain.with(ls::L2{0.5}), plain, plain.with(ls::L1{0.25})};

void fill(const ls::Arena<double>& arena, double step) {
  double value = -10;
  for (const auto slice : arena.slices())
    for (double& element : slice) element = value += step;
}

}  // namespace

TEST_CASE("Regularization: the penalties of all variables") {
  const ls::Arena<double> parameters(variables);
  fill(parameters, 0.25);
  double expected = 0;
  for (const double w : parameters.slices()[0]) expected += 0.5 * w * w;
  for (const double w : parameters.slices()[2]) expected += 0.25 * std::abs(w);
  CHECK(ls::detail::Regularization<double>(variables).penalty(parameters) ==
        doctest::Approx(expected));
}

TEST_CASE("Regularization: gradients times rows, once, however backward's progress is told") {
  const ls::Arena<double> parameters(variables);
  fill(parameters, 0.25);
  const auto run = [&](const std::vector<std::size_t>& ends, double rows) {
    const ls::Arena<double> gradients(variables);
    fill(gradients, 0.125);
    ls::detail::Regularization<double> regularization(variables);
    for (int step = 0; step < 2; ++step) {
      regularization.begin_step(rows);
      for (const std::size_t end : ends) regularization.add_gradients(parameters, gradients, end);
      regularization.add_gradients(parameters, gradients, gradients.values().size());
    }
    return std::vector<double>(gradients.values().begin(), gradients.values().end());
  };
  const std::vector<double> whole = run({}, 3);
  const ls::Arena<double> expected(variables);
  fill(expected, 0.125);
  for (std::size_t i = 0; i < 35; ++i) {
    const double w = parameters.slices()[0][i], v = parameters.slices()[2][i];
    expected.slices()[0][i] += 2 * 3 * w;
    expected.slices()[2][i] += 2 * 3 * 0.25 * (v > 0 ? 1 : v < 0 ? -1 : 0);
  }
  CHECK(std::equal(whole.begin(), whole.end(), expected.values().begin()));
  CHECK(whole == run({1, 40, 40, 77, 110}, 3));
  CHECK(whole == run({113}, 3));
  fill(expected, 0.125);
  const std::vector<double> without = run({}, 0);
  CHECK(std::equal(without.begin(), without.end(), expected.values().begin()));
}
