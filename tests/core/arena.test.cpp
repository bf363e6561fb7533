#include "lockstep/core/arena.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace ls = lockstep;

namespace {

// 6, 3, 1, 40 elements: in the arena they take 16, 16, 16, 48.
constexpr std::array variables{ls::Variable{"a", {2, 3}, nullptr}, ls::Variable{"b", {3}, nullptr},
                               ls::Variable{"c", {}, nullptr}, ls::Variable{"d", {40}, nullptr}};

template <class T>
std::ptrdiff_t offset(const ls::Arena<T>& arena, std::size_t slice) {
  return arena.slices()[slice].data() - arena.values().data();
}

}  // namespace

TEST_CASE_TEMPLATE("Arena: the last variable lies first, in the order in which backward finishes",
                   T, float, double) {
  const ls::Arena<T> arena(variables);
  REQUIRE(arena.slices().size() == 4);
  CHECK(offset(arena, 3) == 0);
  CHECK(offset(arena, 2) == 48);
  CHECK(offset(arena, 1) == 64);
  CHECK(offset(arena, 0) == 80);
  CHECK(arena.values().size() == 96);
  for (std::size_t i = 0; i < 4; ++i) CHECK(arena.slices()[i].size() == variables[i].size());
}

TEST_CASE_TEMPLATE("Arena: every slice is aligned and zero", T, float, double) {
  const ls::Arena<T> arena(variables);
  for (const auto& slice : arena.slices())
    CHECK(reinterpret_cast<std::uintptr_t>(slice.data()) % 64 == 0);
  CHECK(std::ranges::all_of(arena.values(), [](T value) { return value == T(0); }));
}

// What is const is not written through values().
static_assert(std::is_same_v<decltype(std::declval<const ls::Arena<float>&>().values()),
                             std::span<const float>>);
static_assert(
    std::is_same_v<decltype(std::declval<ls::Arena<float>&>().values()), std::span<float>>);

TEST_CASE_TEMPLATE("Arena: slices share the memory of values, and a moved arena keeps it", T, float,
                   double) {
  ls::Arena<T> arena(variables);
  arena.slices()[1][2] = T(7);
  CHECK(arena.values()[66] == T(7));
  const T* const before = arena.values().data();
  const ls::Arena<T> moved = std::move(arena);
  CHECK(moved.values().data() == before);
  CHECK(moved.slices()[1][2] == T(7));
}

TEST_CASE("Arena: of no variables is empty") {
  const ls::Arena<float> none(std::span<const ls::Variable>{}), never;
  for (const auto* arena : {&none, &never}) {
    CHECK(arena->values().empty());
    CHECK(arena->slices().empty());
    CHECK(arena->part(0, 3) == std::pair<std::size_t, std::size_t>(0, 0));
  }
}

TEST_CASE("Arena: the memory comes from the function that is given") {
  std::vector<std::size_t> asked;
  const ls::Arena<double> arena(variables, [&](std::size_t bytes) {
    asked.push_back(bytes);
    return ls::Buffer(bytes);
  });
  CHECK(asked == std::vector<std::size_t>{96 * sizeof(double)});
}

TEST_CASE(
    "Arena: parts follow each other, cover all, are cut at cache lines, and differ by one cut at "
    "most") {
  const ls::Arena<float> arena(variables);
  for (const std::size_t count : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 19u}) {
    CAPTURE(count);
    std::size_t next = 0, smallest = arena.values().size(), largest = 0;
    for (std::size_t index = 0; index < count; ++index) {
      const auto [begin, size] = arena.part(index, count);
      CHECK(begin == next);
      CHECK(begin % ls::Arena<float>::slice_multiple == 0);
      next = begin + size;
      smallest = std::min(smallest, size);
      largest = std::max(largest, size);
    }
    CHECK(next == arena.values().size());
    CHECK(largest - smallest <= ls::Arena<float>::slice_multiple);
  }
}
