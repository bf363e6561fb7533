#include "lockstep/losses/bad_target.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "lockstep/core/error.hpp"

TEST_CASE("BadTarget is an error of the data") {
  static_assert(std::is_base_of_v<lockstep::DataError, lockstep::BadTarget>);
  CHECK(lockstep::BadTarget("", 3, "").row() == 3);
}
