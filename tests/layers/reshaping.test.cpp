#include "lockstep/layers/reshaping.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

#include "golden/image_layers.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"
#include "support/layer_rig.hpp"

namespace ls = lockstep;
using lockstep_test::check_golden;
using lockstep_test::LayerRig;
using ls::Permute;
using ls::RepeatVector;
using ls::Shape;

namespace {

static_assert(std::is_same_v<ls::Flatten::Output<ls::Shape<3, 4, 5>>, ls::Shape<60>>);
static_assert(ls::AliasingLayer<ls::Flatten> && ls::Flatten::name == "flatten");

}  // namespace

TEST_CASE("Flatten: all dimensions in one") {}  // at compile time

namespace {

static_assert(std::is_same_v<ls::Reshape<2, 6>::Output<ls::Shape<3, 4>>, ls::Shape<2, 6>>);
static_assert(ls::AliasingLayer<ls::Reshape<12>> && ls::Reshape<12>::name == "reshape");
static_assert(ls::Reshape<2, 6>::check<0, ls::Shape<3, 4>>());

}  // namespace

TEST_CASE("Reshape: another shape of the same size") {
}  // at compile time; see compile_fail/reshape_size.cpp

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

TEST_CASE("Permute: shapes") {
  static_assert(std::is_same_v<Permute<3, 1, 2>::Output<Shape<2, 3, 4>>, Shape<4, 2, 3>>);
  static_assert(ls::InputOfRank<0, Shape<2, 3>, 2> && !ls::InputOfRank<0, Shape<2, 3>, 3>);
  static_assert(ls::detail::is_permutation<2, 3, 1>() && !ls::detail::is_permutation<2, 2, 1>());
}

TEST_CASE("Permute: Keras's values and gradients") {
  namespace permuted = lockstep_test::golden::permute;
  check_golden<Permute<3, 1, 2>, Shape<2, 3, 4>>(
      {permuted::x, permuted::y, permuted::dy, permuted::dx});
}

TEST_CASE("Permute: gradients") {
  lockstep_test::for_each_instruction_set(
      [] { lockstep_test::check_gradients_for_all_batches<Permute<2, 1>, Shape<3, 4>>(); });
}

static_assert(std::is_same_v<RepeatVector<4>::Output<ls::Shape<3>>, ls::Sequence<4, 3>>);

TEST_CASE("RepeatVector: each token is the sample, and the gradient is the sum of theirs") {
  lockstep_test::LayerRig<RepeatVector<4>, ls::Shape<3>, double> rig(5);
  rig.forward();
  rig.backward();
  for (std::size_t f = 0; f < 3; ++f)
    for (std::size_t s = 0; s < 5; ++s) {
      double sum = 0;
      for (std::size_t t = 0; t < 4; ++t) {
        CHECK(rig.y[f * rig.out_stride + s * 4 + t] == rig.x[f * rig.stride + s]);
        sum += rig.dy[f * rig.out_stride + s * 4 + t];
      }
      CHECK(rig.dx[f * rig.stride + s] == doctest::Approx(sum));
    }
}

static_assert(std::is_same_v<ls::Slice<1, 2>::Output<ls::Shape<4>>, ls::Shape<2>>);

TEST_CASE("Slice: takes some features, and gives a gradient to them alone") {
  lockstep_test::check_gradients_for_all_batches<ls::Slice<1, 2>, ls::Shape<4>>();
  lockstep_test::LayerRig<ls::Slice<1, 2>, ls::Shape<4>, float> rig(3);
  rig.forward();
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(rig.y[i] == rig.x[rig.stride + i]);
    CHECK(rig.y[rig.stride + i] == rig.x[2 * rig.stride + i]);
  }
}
