#include "lockstep/model/weights.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "lockstep/core/shape.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// What named_arrays asks of a network: three trained variables, and one of another kind before the last.
struct Net {
  using InputShape = ls::Shape<1>;
  template <class>
  static constexpr std::array variables{ls::Variable{"kernel", {2, 3}, nullptr}, ls::Variable{"bias", {3}, nullptr},
                                        ls::Variable{"kernel", {3}, nullptr}};
  template <class>
  static constexpr std::array state_variables{ls::Variable{"mean", {3}, nullptr}};
  template <class>
  static std::vector<std::string> variable_names() {
    return {"a/kernel", "a/bias", "c/kernel"};
  }
  template <class>
  static std::vector<std::string> state_variable_names() {
    return {"b/mean"};
  }
  template <class>
  static std::vector<bool> variable_order() {
    return {true, true, false, true};
  }
};

struct Arenas {
  ls::Arena<float> trained{Net::variables<Net::InputShape>};
  ls::Arena<float> untrained{Net::state_variables<Net::InputShape>};

  [[nodiscard]] auto arrays() const { return ls::detail::named_arrays<Net>(trained, untrained); }
};

}  // namespace

TEST_CASE("named_arrays: every variable in its place among the layers, with its own values") {
  const Arenas arenas;
  const auto arrays = arenas.arrays();
  std::vector<std::string> names;
  for (const auto& array : arrays) names.push_back(array.name);
  CHECK(names == std::vector<std::string>{"a/kernel", "a/bias", "b/mean", "c/kernel"});
  CHECK(arrays[0].values.data() == arenas.trained.slices()[0].data());
  CHECK(arrays[2].values.data() == arenas.untrained.slices()[0].data());
  CHECK(arrays[3].values.data() == arenas.trained.slices()[2].data());
  for (const auto& array : arrays) CHECK(array.values.size() == array.variable->size());
}

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
    return message_of<ls::ConfigurationError>([&] { ls::detail::check_weights(weights, arenas.arrays()); });
  };
  CHECK(contains(message([](auto& w) { w.pop_back(); }), "expected 4 arrays, got 3"));
  CHECK(contains(message([](auto& w) { w[0].shape = {3, 2}; }), "expected a/kernel (2, 3), got 'a/kernel' (3, 2)"));
  CHECK(contains(message([](auto& w) { w[2].shape = {}; }), "expected b/mean (3)"));
  CHECK(contains(message([](auto& w) { w[3].values.push_back(0); }), "with 4 values"));
}
