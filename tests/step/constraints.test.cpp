#include "lockstep/step/constraints.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/instruction_sets.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;

namespace {

std::vector<double> random_values(std::size_t n) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(n);
  for (double& value : values) value = uniform(random);
  return values;
}

template <class T>
std::vector<T> constrained(const ls::Variable& variable, const std::vector<double>& values) {
  const std::array variables{variable};
  ls::detail::Constraints<T> constraints(variables);
  std::vector<T> result(values.begin(), values.end());
  const std::array slices{std::span<T>(result)};
  constraints.apply(slices);
  return result;
}

/// Norm by norm, element by element. [outer][squared][inner]
std::vector<double> expected(const ls::Constraint& c, std::vector<double> values, std::size_t outer,
                             std::size_t squared, std::size_t inner) {
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t i = 0; i < inner; ++i) {
      const auto at = [&](std::size_t s) -> double& {
        return values[(o * squared + s) * inner + i];
      };
      double norm = 0;
      for (std::size_t s = 0; s < squared; ++s) norm += at(s) * at(s);
      norm = std::sqrt(norm);
      const double desired = c.rate * std::clamp(norm, c.minimum, c.maximum) + (1 - c.rate) * norm;
      for (std::size_t s = 0; s < squared; ++s) at(s) *= desired / (1e-7 + norm);
    }
  return values;
}

double worst(const std::vector<double>& a, const auto& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - static_cast<double>(b[i])));
  return largest;
}

}  // namespace

TEST_CASE("constraints: norms over the first dimension, over several, over the last one") {
  const std::vector<double> values = random_values(7 * 5 * 20);
  struct Case {
    ls::Constraint constraint;
    std::size_t outer, squared, inner;
  };
  lockstep_test::for_each_instruction_set([&] {
    for (const Case& c :
         {Case{ls::MaxNorm{1}, 1, 7, 100}, Case{ls::UnitNorm{.axis = 1}, 7, 5, 20},
          Case{ls::MinMaxNorm{.min_value = 2, .max_value = 3, .rate = 0.25, .axes = 2}, 1, 35, 20},
          Case{ls::UnitNorm{.axes = 3}, 1, 700, 1}, Case{ls::MaxNorm{2, 2}, 35, 20, 1}}) {
      const ls::Variable variable =
          ls::Variable{"kernel", {7, 5, 20}, nullptr}.with({}, c.constraint);
      const std::vector<double> right = expected(c.constraint, values, c.outer, c.squared, c.inner);
      CHECK(worst(right, constrained<double>(variable, values)) < 1e-14);
      CHECK(worst(right, constrained<float>(variable, values)) < 1e-6);
    }
  });
}

TEST_CASE("constraints: zero stays zero, negative numbers become zero, NaN stays NaN") {
  const ls::Variable plain{"bias", {4}, nullptr};
  CHECK(constrained<float>(plain.with({}, ls::NonNeg{}), {-1, 0, 2, -3}) ==
        std::vector<float>{0, 0, 2, 0});
  CHECK(constrained<float>(plain.with({}, ls::MaxNorm{1}), {0, 0, 0, 0}) ==
        std::vector<float>(4, 0.0f));
  for (const ls::Constraint& c : {ls::Constraint(ls::NonNeg{}), ls::Constraint(ls::UnitNorm{})})
    CHECK(std::isnan(constrained<float>(plain.with({}, c), {1, std::nan(""), 1, 1})[1]));
}

TEST_CASE("constraints: the parts of the work make the whole; other variables stay as they are") {
  const ls::Variable variable{"kernel", {3, 2}, nullptr};
  const std::array variables{variable.with({}, ls::UnitNorm{}), variable,
                             variable.with({}, ls::NonNeg{}), variable.with({}, ls::MaxNorm{0.5})};
  const auto run = [&](std::size_t parts) {
    std::vector<double> values = random_values(24);
    std::vector<std::span<double>> slices;
    for (std::size_t i = 0; i < 4; ++i) slices.push_back(std::span(values).subspan(i * 6, 6));
    for (std::size_t part = 0; part < parts; ++part) {
      ls::detail::Constraints<double> constraints(variables);
      CHECK(!constraints.empty());
      constraints.apply(slices, part, parts);
    }
    return values;
  };
  const std::vector<double> whole = run(1);
  CHECK(whole == run(2));
  CHECK(whole == run(5));
  CHECK(std::equal(whole.begin() + 6, whole.begin() + 12, random_values(24).begin() + 6));
  CHECK(whole != random_values(24));
  CHECK(ls::detail::Constraints<double>(std::array{variable}).empty());
}

TEST_CASE("describe_variable_options: a line for each penalty and constraint") {
  constexpr ls::Variable plain{"kernel", {2}, nullptr};
  const std::array variables{plain.with(ls::L2{0.25}, ls::NonNeg{}), plain,
                             plain.with({}, ls::UnitNorm{.axes = 2})};
  const std::array<std::string, 3> names{"a/kernel", "b/kernel", "c/kernel"};
  CHECK(ls::detail::describe_variable_options(variables, names) ==
        "\npenalty of a/kernel: L1L2(l1=0, l2=0.25)\nconstraint of a/kernel: NonNeg"
        "\nconstraint of c/kernel: MinMaxNorm(min_value=1, max_value=1, rate=1, axis=0, axes=2)");
  CHECK(ls::detail::describe_variable_options(std::array{plain}, std::array<std::string, 1>{"d"}) ==
        "");
}

TEST_CASE("check_variable_options: what makes no sense is refused by name") {
  const auto refusal = [](const ls::Regularizer& penalty, const ls::Constraint& constraint) {
    const std::array variables{ls::Variable{"kernel", {2, 3}, nullptr}.with(penalty, constraint)};
    return lockstep_test::message_of<ls::ConfigurationError>([&] {
      ls::detail::check_variable_options(variables, std::array<std::string, 1>{"a/kernel"});
    });
  };
  CHECK(refusal(ls::L1{1}, ls::UnitNorm{.axis = 1}) == "NO EXCEPTION");
  CHECK(refusal(ls::L1{-1}, {}) ==
        "the penalty of a/kernel has l1=-1 and l2=0; expected numbers of at least 0");
  CHECK(refusal({}, ls::UnitNorm{.axis = 1, .axes = 2}) ==
        "the constraint of a/kernel takes norms over 2 dimensions from number 1 on, and the "
        "variable has 2: set .axis "
        "and .axes");
  CHECK(refusal({}, ls::MinMaxNorm{.min_value = 2, .max_value = 1}) ==
        "the constraint of a/kernel has norms from 2 to 1 and the rate 1; expected 0 <= minimum <= "
        "maximum and a rate "
        "in (0, 1]");
}
