#include "lockstep/layers/pooling1d.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "golden/recurrent.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_struct.hpp"
#include "support/layer_rig.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::check_golden_struct;
using ls::AveragePooling1D, ls::GlobalAveragePooling1D, ls::GlobalMaxPooling1D, ls::MaxPooling1D,
    ls::Padding, ls::Pooling1DOptions, ls::Sequence, ls::Shape;

namespace {

using MaxSame = MaxPooling1D<3, Pooling1DOptions{.stride = 2, .padding = Padding::same}>;
using AverageSame = AveragePooling1D<4, Pooling1DOptions{.stride = 3, .padding = Padding::same}>;

static_assert(std::is_same_v<MaxPooling1D<>::Output<Sequence<11, 4>>, Sequence<5, 4>>);
static_assert(std::is_same_v<MaxSame::Output<Sequence<11, 4>>, Sequence<6, 4>>);
static_assert(std::is_same_v<GlobalMaxPooling1D::Output<Sequence<11, 4>>, Shape<4>>);

}  // namespace

TEST_CASE("1-D pooling: values and gradients of Keras") {
  using In = Sequence<11, 4>;
  check_golden_struct<golden::max_pooling1d, MaxPooling1D<>, In>(2);
  check_golden_struct<golden::max_pooling1d_same, MaxSame, In>(2);
  check_golden_struct<golden::average_pooling1d, AveragePooling1D<3>, In>(2);
  check_golden_struct<golden::average_pooling1d_same, AverageSame, In>(2);
}

TEST_CASE("global 1-D pooling: values and gradients of Keras, with a mask for the mean") {
  check_golden_struct<golden::global_average_pooling1d, GlobalAveragePooling1D, Sequence<5, 3>>(4);
  check_golden_struct<golden::global_max_pooling1d, GlobalMaxPooling1D, Sequence<5, 3>>(4);
}

TEST_CASE("1-D pooling: gradients against differences") {
  lockstep_test::check_gradients_for_all_batches<MaxSame, Sequence<5, 2>>();
  lockstep_test::check_gradients_for_all_batches<AverageSame, Sequence<5, 2>>();
  lockstep_test::check_gradients_for_all_batches<GlobalAveragePooling1D, Sequence<19, 2>>();
  lockstep_test::check_gradients_for_all_batches<GlobalMaxPooling1D, Sequence<5, 2>>();
}

TEST_CASE("GlobalAveragePooling1D: zero where nothing counts, whatever is there") {
  lockstep_test::LayerRig<GlobalAveragePooling1D, Sequence<2, 1>, float> rig(2);
  const float mask[] = {0, 0, 1, 0};
  rig.mask = mask;
  rig.x[0] = std::numeric_limits<float>::quiet_NaN();
  rig.x[2] = 5;
  rig.x[3] = std::numeric_limits<float>::infinity();
  rig.forward();
  CHECK(rig.y[0] == 0);
  CHECK(rig.y[1] == 5);
  rig.backward();
  CHECK(rig.dx[0] == 0);
  CHECK(rig.dx[2] == rig.dy[1]);
}
