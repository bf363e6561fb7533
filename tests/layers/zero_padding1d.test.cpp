#include "lockstep/layers/zero_padding1d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "layers/token_testing.hpp"
#include "support/finite_differences.hpp"

namespace ls = lockstep;
using ls::ZeroPadding1D, ls::Sequence;

static_assert(std::is_same_v<ZeroPadding1D<>::Output<Sequence<5, 2>>, Sequence<7, 2>>);
static_assert(std::is_same_v<ZeroPadding1D<2, 1>::Output<Sequence<5, 2>>, Sequence<8, 2>>);

TEST_CASE("ZeroPadding1D: where tokens go, and gradients against differences") {
  lockstep_test::check_tokens<ZeroPadding1D<2, 1>>(
      [](int t) { return t < 2 || t > 6 ? -1 : t - 2; });
  lockstep_test::check_gradients_for_all_batches<ZeroPadding1D<2, 1>, Sequence<5, 2>>();
}
