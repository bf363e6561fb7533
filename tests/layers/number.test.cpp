#include "lockstep/layers/number.hpp"

#include <doctest/doctest.h>

namespace {

template <lockstep::Number N>
constexpr double value = N.value;

}  // namespace

TEST_CASE("Number: a template argument") {
  static_assert(value<0.5> == 0.5);
  static_assert(value<-1.0> == -1);
}
