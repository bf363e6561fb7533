#include "lockstep/layers/to_sequence.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "lockstep/layers/flatten.hpp"
#include "lockstep/layers/reshape.hpp"
#include "support/finite_differences.hpp"

namespace ls = lockstep;
using lockstep_test::LayerRig;

static_assert(std::is_same_v<ls::ToSequence::Output<ls::Shape<5, 3>>, ls::Sequence<5, 3>>);
static_assert(std::is_same_v<ls::ToSequence::Output<ls::Shape<5>>, ls::Sequence<5, 1>>);

TEST_CASE("ToSequence, Flatten and Reshape: gradients, for all batches") {
  lockstep_test::check_gradients_for_all_batches<ls::ToSequence, ls::Shape<5, 3>>();
  lockstep_test::check_gradients_for_all_batches<ls::ToSequence, ls::Shape<20>>();
  lockstep_test::check_gradients_for_all_batches<ls::Flatten, ls::Sequence<5, 3>>();
  lockstep_test::check_gradients_for_all_batches<ls::Reshape<3, 1, 5>, ls::Sequence<5, 3>>();
}

TEST_CASE("ToSequence: value d of token t of sample s lies in row s * positions + t of feature d") {
  LayerRig<ls::ToSequence, ls::Shape<5, 3>, float> rig(17);
  rig.forward();
  for (std::size_t s = 0; s < 17; ++s)
    for (std::size_t t = 0; t < 5; ++t)
      for (std::size_t d = 0; d < 3; ++d)
        CHECK(rig.y[d * rig.out_stride + s * 5 + t] == rig.x[(t * 3 + d) * rig.stride + s]);
}

TEST_CASE("Flatten: of a Sequence, the tokens one after the other") {
  LayerRig<ls::Flatten, ls::Sequence<5, 3>, float> rig(4);
  rig.forward();
  for (std::size_t s = 0; s < 4; ++s)
    for (std::size_t t = 0; t < 5; ++t)
      for (std::size_t d = 0; d < 3; ++d)
        CHECK(rig.y[(t * 3 + d) * rig.out_stride + s] == rig.x[d * rig.stride + s * 5 + t]);
}
