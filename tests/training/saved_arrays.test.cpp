#include "lockstep/training/model_state.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr std::array variables{ls::Variable{"kernel", {2, 3}, nullptr},
                               ls::Variable{"bias", {3}, nullptr}};

struct Arrays {
  std::vector<float> kernel = {1, 2, 3, 4, 5, 6}, bias = {7, 8, 9};
  ls::detail::ArrayList list() {
    const std::array<std::span<float>, 2> slices{kernel, bias};
    return ls::detail::array_list<float>(variables, {"dense/kernel", "dense/bias"}, slices);
  }
};

}  // namespace

TEST_CASE("saved arrays: names, shapes and bytes come back, from any place in the list") {
  Arrays source;
  std::vector<ls::SavedArray> saved(1);
  ls::detail::save_arrays(saved, 1, source.list(), "/slot_0");
  REQUIRE(saved.size() == 3);
  CHECK(saved[1].name == "dense/kernel/slot_0");
  CHECK(saved[1].extents == std::vector<std::uint64_t>{2, 3});
  CHECK(saved[2].bytes.size() == 12);

  const std::byte* const memory = saved[1].bytes.data();
  source.kernel[0] = 10;
  ls::detail::save_arrays(saved, 1, source.list(), "/slot_0");
  CHECK(saved.size() == 3);
  CHECK(saved[1].bytes.data() == memory);  // it serves again

  Arrays target{.kernel = std::vector<float>(6), .bias = std::vector<float>(3)};
  ls::detail::load_arrays(saved, 1, target.list(), true);
  CHECK(target.kernel == std::vector<float>(6));  // only checked
  ls::detail::load_arrays(saved, 1, target.list(), false);
  CHECK(target.kernel == source.kernel);
  CHECK(target.bias == source.bias);
}

TEST_CASE("saved arrays: the first that differs is named") {
  Arrays arrays;
  std::vector<ls::SavedArray> saved;
  ls::detail::save_arrays(saved, 0, arrays.list());
  const auto message = [&](auto change) {
    auto changed = saved;
    change(changed);
    return message_of<ls::ConfigurationError>(
        [&] { ls::detail::load_arrays(changed, 0, arrays.list(), true); });
  };
  CHECK(message([](auto&) {}) == "NO EXCEPTION");
  CHECK(contains(message([](auto& s) { s.pop_back(); }), "no array for dense/bias (3)"));
  const std::string shape = message([](auto& s) { s[0].extents = {3, 2}; });
  CHECK(contains(
      shape, "expected dense/kernel (2, 3) of float32, the saved state has 'dense/kernel' (3, 2)"));
  CHECK(contains(message([](auto& s) { s[0].extents = {6}; }), "(6)"));
  CHECK(contains(message([](auto& s) { s[0].extents.clear(); }), "()"));
  CHECK(contains(message([](auto& s) { s[1].bytes.resize(24); }), "expected dense/bias (3)"));
}
