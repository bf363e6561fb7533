#include "lockstep/layers/cropping1d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "layers/token_testing.hpp"
#include "support/finite_differences.hpp"

namespace ls = lockstep;
using ls::Cropping1D, ls::Sequence;

static_assert(std::is_same_v<Cropping1D<2, 1>::Output<Sequence<5, 2>>, Sequence<2, 2>>);

TEST_CASE("Cropping1D: where tokens go, and gradients against differences") {
  lockstep_test::check_tokens<Cropping1D<2, 1>>([](int t) { return t + 2; });
  lockstep_test::check_gradients_for_all_batches<Cropping1D<2, 1>, Sequence<5, 2>>();
}
