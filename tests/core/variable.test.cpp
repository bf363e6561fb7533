#include "lockstep/core/variable.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <vector>

namespace ls = lockstep;

TEST_CASE("Constraint: Keras's names and defaults") {
  static_assert(ls::Constraint{}.kind == ls::Constraint::Kind::none);
  static_assert(ls::Constraint(ls::NonNeg{}).kind == ls::Constraint::Kind::non_negative);
  constexpr ls::Constraint most = ls::MaxNorm{}, unit = ls::UnitNorm{.axis = 1},
                           both = ls::MinMaxNorm{.rate = 0.5};
  CHECK((most.minimum == 0 && most.maximum == 2 && most.rate == 1 && most.axis == 0 &&
         most.axes == 1));
  CHECK((unit.minimum == 1 && unit.maximum == 1 && unit.axis == 1));
  CHECK((both.minimum == 0 && both.maximum == 1 && both.rate == 0.5));
}

TEST_CASE("Regularizer: Keras's names and defaults; a variable can have one") {
  static_assert(ls::Regularizer(ls::L1{}) == ls::Regularizer{.l1 = 0.01, .l2 = 0});
  static_assert(ls::Regularizer(ls::L2{}) == ls::Regularizer{.l1 = 0, .l2 = 0.01});
  static_assert(ls::L1L2{}.is_none() && !ls::Regularizer(ls::L1{}).is_none());
  constexpr ls::Variable plain{"kernel", {2, 3}, nullptr};
  constexpr ls::Variable with = plain.with(ls::L2{0.5}, ls::NonNeg{});
  CHECK(plain.regularizer.is_none());
  CHECK(with.regularizer.l2 == 0.5);
  CHECK((with.constraint == ls::NonNeg{}));
  CHECK(with.size() == 6);
}

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

namespace {

constexpr ls::Variable kernel("kernel", {3, 3, 1, 32}, nullptr, {.in = 9, .out = 288});
static_assert(kernel.name == "kernel" && kernel.rank == 4 && kernel.size() == 288);
static_assert(kernel.extents == std::array<std::size_t, ls::Variable::max_rank>{3, 3, 1, 32, 0, 0});
static_assert(kernel.fans.in == 9 && kernel.fans.out == 288);
static_assert(ls::Variable("scale", {}, nullptr).size() == 1);

}  // namespace

TEST_CASE("Variable: a lambda without captures is an initialiser") {
  const ls::Variable variable("half", {4}, [](ls::RandomStream&, ls::Fans fans) {
    return 0.5 * static_cast<double>(fans.in);
  });
  ls::RandomStream random{ls::RandomKey()};
  CHECK(variable.initializer(random, {.in = 3, .out = 1}) == 1.5);
}
