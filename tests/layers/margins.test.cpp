#include "lockstep/layers/margins.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/image_layers.hpp"
#include "golden/volumes.hpp"
#include "layers/token_testing.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::check_golden;
using ls::Cropping1D, ls::Sequence;
using ls::Cropping2D;
using ls::Margins2D;
using ls::Shape;
using ls::ZeroPadding1D, ls::Sequence;
using ls::ZeroPadding2D;

static_assert(std::is_same_v<ZeroPadding1D<>::Output<Sequence<5, 2>>, Sequence<7, 2>>);
static_assert(std::is_same_v<ZeroPadding1D<2, 1>::Output<Sequence<5, 2>>, Sequence<8, 2>>);

TEST_CASE("ZeroPadding1D: where tokens go, and gradients against differences") {
  lockstep_test::check_tokens<ZeroPadding1D<2, 1>>(
      [](int t) { return t < 2 || t > 6 ? -1 : t - 2; });
  lockstep_test::check_gradients_for_all_batches<ZeroPadding1D<2, 1>, Sequence<5, 2>>();
}

static_assert(std::is_same_v<Cropping1D<2, 1>::Output<Sequence<5, 2>>, Sequence<2, 2>>);

TEST_CASE("Cropping1D: where tokens go, and gradients against differences") {
  lockstep_test::check_tokens<Cropping1D<2, 1>>([](int t) { return t + 2; });
  lockstep_test::check_gradients_for_all_batches<Cropping1D<2, 1>, Sequence<5, 2>>();
}

TEST_CASE("ZeroPadding2D: shapes") {
  static_assert(std::is_same_v<ZeroPadding2D<>::Output<Shape<2, 3, 4>>, Shape<4, 5, 4>>);
  static_assert(
      std::is_same_v<ZeroPadding2D<Margins2D{1, 2}>::Output<Shape<2, 3, 4>>, Shape<4, 7, 4>>);
}

TEST_CASE("ZeroPadding2D: Keras's values and gradients") {
  namespace padded = lockstep_test::golden::zero_padding;
  check_golden<ZeroPadding2D<Margins2D{1, 0, 2, 1}>, Shape<2, 3, 2>>(
      {padded::x, padded::y, padded::dy, padded::dx});
}

TEST_CASE("ZeroPadding2D: gradients") {
  lockstep_test::for_each_instruction_set(
      [] { lockstep_test::check_gradients_for_all_batches<ZeroPadding2D<2>, Shape<3, 2, 2>>(); });
}

TEST_CASE("ZeroPadding3D: Keras's values and gradients") {
  using ls::Margins3D, ls::ZeroPadding3D;
  static_assert(std::is_same_v<ZeroPadding3D<Margins3D{0, 1, 2}>::Output<Shape<2, 3, 4, 1>>,
                               Shape<2, 5, 8, 1>>);
  namespace padded = lockstep_test::golden::zero_padding3d;
  check_golden<ZeroPadding3D<Margins3D{1, 0, 2, 1, 0, 1}>, Shape<2, 1, 2, 2>>(
      {padded::x, padded::y, padded::dy, padded::dx});
  lockstep_test::check_gradients_for_all_batches<ZeroPadding3D<>, Shape<2, 1, 2, 2>>();
}

TEST_CASE("Cropping2D: shapes") {
  static_assert(std::is_same_v<Cropping2D<1>::Output<Shape<4, 5, 4>>, Shape<2, 3, 4>>);
  static_assert(ls::InputWithRoomFor<0, Shape<3, 3, 1>, ls::detail::LeastCropped<1>>);
  static_assert(!ls::InputWithRoomFor<0, Shape<3, 2, 1>, ls::detail::LeastCropped<1>>);
}

TEST_CASE("Cropping2D: Keras's values and gradients") {
  namespace cropped = lockstep_test::golden::cropping;
  check_golden<Cropping2D<Margins2D{1, 0, 2, 1}>, Shape<3, 5, 2>>(
      {cropped::x, cropped::y, cropped::dy, cropped::dx});
}

TEST_CASE("Cropping2D: gradients") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<Cropping2D<Margins2D{0, 1}>, Shape<3, 4, 2>>();
  });
}
