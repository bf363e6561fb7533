#include "lockstep/collectives/data_type.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

using namespace lockstep;

static_assert(Reducible<float> && Reducible<double> && Reducible<std::int64_t>);
static_assert(!Reducible<int> && !Reducible<const float> && !Reducible<long double>);
static_assert(std::is_convertible_v<std::span<float>, NumberSpan>);
static_assert(std::is_convertible_v<std::span<double, 3>, NumberSpan>);
static_assert(std::is_convertible_v<std::span<const float>, ConstNumberSpan>);
static_assert(std::is_convertible_v<NumberSpan, ConstNumberSpan>);
static_assert(std::is_convertible_v<NumberSpan, std::span<const float>>);
static_assert(!std::is_convertible_v<std::span<const float>, NumberSpan>);
static_assert(!std::is_convertible_v<std::span<int>, NumberSpan>);
static_assert(!std::is_convertible_v<ConstNumberSpan, NumberSpan>);
static_assert(!std::is_convertible_v<ConstNumberSpan, std::span<float>>);

TEST_CASE_TEMPLATE("data_type: a type as a value knows its size, and leads back to the type", T,
                   float, double, std::int64_t) {
  constexpr DataType type = data_type_of<T>;
  CHECK(size_of(type) == sizeof(T));
  CHECK(visit_type(type, []<class U>(U*) { return std::is_same_v<T, U>; }));
}

TEST_CASE_TEMPLATE("NumberSpan: goes to the bytes of its elements and back", T, float, double,
                   std::int64_t) {
  std::vector<T> values{1, 2, 3, 4};
  const NumberSpan span = std::span(values);
  CHECK(span.size() == 4);
  CHECK(span.size_bytes() == 4 * sizeof(T));
  CHECK(span.bytes().data() == reinterpret_cast<std::byte*>(values.data()));
  const std::span<T> part = span.subspan(1, 2);
  CHECK(part.data() == values.data() + 1);
  CHECK(part.size() == 2);
  const ConstNumberSpan read = span;
  CHECK(read.as<T>()[3] == T(4));
  CHECK(NumberSpan().empty());
}

TEST_CASE("NumberSpan: an array of another type is refused by name") {
  std::vector<double> values(3);
  const NumberSpan span = std::span(values);
  CHECK_THROWS_WITH_AS((void)span.as<float>(), "an array of double was taken for one of float",
                       Error);
  CHECK_THROWS_WITH_AS((void)std::span<const std::int64_t>(span),
                       "an array of double was taken for one of int64", Error);
}
