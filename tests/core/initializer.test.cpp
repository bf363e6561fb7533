#include "lockstep/core/initializer.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <vector>

namespace ls = lockstep;

namespace {

constexpr ls::Initializer thirds = [](ls::RandomStream&, ls::Fans fans) {
  return static_cast<double>(fans.in) / 3;
};

/// 0, step, 2 step, ..., beginning with the number of columns.
constexpr ls::InitializerMethod counted{.fill = [](ls::RandomStream&, const ls::InitialArray& array,
                                                   ls::InitializerNumbers step) {
  for (std::size_t i = 0; i < array.values.size(); ++i)
    array.values[i] = static_cast<double>(array.shape.back()) + static_cast<double>(i) * step.first;
}};
constexpr ls::InitializerMethod drawn{
    .draw = [](ls::RandomStream& random, ls::Fans, ls::InitializerNumbers limits) {
      return random.uniform(limits.first, limits.second);
    }};

template <class T>
std::vector<T> filled(const ls::Initializer& initializer) {
  constexpr std::size_t shape[] = {2, 3};
  ls::RandomStream random{ls::RandomKey(3)};
  std::vector<T> values(6, T(77));
  initializer.fill(random, shape, {.in = 2, .out = 3}, std::span<T>(values));
  return values;
}

}  // namespace

TEST_CASE("Initializer: a function, a method with numbers, a method for whole arrays, none") {
  CHECK(filled<double>(thirds) == std::vector<double>(6, 2.0 / 3));
  CHECK(filled<float>(thirds) == std::vector<float>(6, static_cast<float>(2.0 / 3)));
  CHECK(filled<float>(ls::Initializer(counted, {.first = 0.5})) ==
        std::vector<float>{3, 3.5, 4, 4.5, 5, 5.5});
  CHECK(filled<double>({}) == std::vector<double>(6, 0.0));
  CHECK(filled<double>(nullptr) == std::vector<double>(6, 0.0));
  ls::RandomStream random{ls::RandomKey(3)};
  for (const double value : filled<double>(ls::Initializer(drawn, {-2, 5})))
    CHECK(value == random.uniform(-2, 5));
}

TEST_CASE("Initializer: equal if all of it is") {
  static_assert(thirds == thirds && thirds != ls::Initializer{});
  static_assert(ls::Initializer(drawn, {1, 2}) == ls::Initializer(drawn, {1, 2}));
  static_assert(ls::Initializer(drawn, {1, 2}) != ls::Initializer(drawn, {1, 3}));
  static_assert(ls::Initializer(drawn, {1, 2}) != ls::Initializer(counted, {1, 2}));
}
