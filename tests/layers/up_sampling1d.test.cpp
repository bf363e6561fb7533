#include "lockstep/layers/up_sampling1d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "layers/token_testing.hpp"
#include "support/finite_differences.hpp"

namespace ls = lockstep;
using ls::UpSampling1D, ls::Sequence;

static_assert(std::is_same_v<UpSampling1D<>::Output<Sequence<5, 2>>, Sequence<10, 2>>);

TEST_CASE("UpSampling1D: where tokens go, and gradients against differences") {
  lockstep_test::check_tokens<UpSampling1D<3>>([](int t) { return t / 3; });
  lockstep_test::check_gradients_for_all_batches<UpSampling1D<3>, Sequence<5, 2>>();
}
