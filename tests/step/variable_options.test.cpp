#include "lockstep/step/variable_options.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "support/model_testing.hpp"

namespace ls = lockstep;

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
