#include "lockstep/model/model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/variable.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr std::array trained_variables{ls::Variable{"kernel", {2, 3}, nullptr},
                                       ls::Variable{"bias", {3}, nullptr},
                                       ls::Variable{"kernel", {3}, nullptr}};
constexpr std::array untrained_variables{ls::Variable{"mean", {3}, nullptr}};

/// Three trained variables, and one of another kind before the last.
struct Arenas {
  ls::Arena<float> trained{trained_variables};
  ls::Arena<float> untrained{untrained_variables};

  [[nodiscard]] std::vector<ls::detail::NamedArray<float>> arrays() const {
    return {{"a/kernel", &trained_variables[0], trained.slices()[0]},
            {"a/bias", &trained_variables[1], trained.slices()[1]},
            {"b/mean", &untrained_variables[0], untrained.slices()[0]},
            {"c/kernel", &trained_variables[2], trained.slices()[2]}};
  }
};

}  // namespace

TEST_CASE("weights: what is copied out of one model can be put into another") {
  const Arenas from, to;
  float next = 1;
  for (const auto& array : from.arrays())
    for (float& value : array.values) value = next++;
  const auto weights = ls::detail::copy_weights(from.arrays());
  CHECK(weights[0].shape == std::vector<std::size_t>{2, 3});
  CHECK(weights[2].name == "b/mean");
  CHECK(weights[2].values == std::vector<float>{10, 11, 12});
  ls::detail::check_weights(weights, to.arrays());
  ls::detail::put_weights(weights, to.arrays());
  CHECK(std::ranges::equal(to.trained.values(), from.trained.values()));
  CHECK(std::ranges::equal(to.untrained.values(), from.untrained.values()));
}

TEST_CASE("weights: other numbers and shapes are refused by name") {
  const Arenas arenas;
  const auto message = [&](auto change) {
    auto weights = ls::detail::copy_weights(arenas.arrays());
    change(weights);
    return message_of<ls::ConfigurationError>(
        [&] { ls::detail::check_weights(weights, arenas.arrays()); });
  };
  CHECK(contains(message([](auto& w) { w.pop_back(); }), "expected 4 arrays, got 3"));
  CHECK(contains(message([](auto& w) {
                   w[0].shape = {3, 2};
                 }),
                 "expected a/kernel (2, 3), got 'a/kernel' (3, 2)"));
  CHECK(contains(message([](auto& w) { w[2].shape = {}; }), "expected b/mean (3)"));
  CHECK(contains(message([](auto& w) { w[3].values.push_back(0); }), "with 4 values"));
}
