#include "lockstep/layers/pooling3d.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "golden/volumes.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::check_golden, lockstep_test::for_each_instruction_set;
using lockstep_test::LayerRig;
using ls::AveragePooling3D, ls::MaxPooling3D, ls::Pooling3DOptions, ls::UpSampling3D;
using ls::Extent3D, ls::Padding, ls::Shape;

namespace {

constexpr Pooling3DOptions overlapping{.stride = {2, 1, 2}, .padding = Padding::same};

static_assert(std::is_same_v<MaxPooling3D<>::Output<Shape<5, 6, 7, 3>>, Shape<2, 3, 3, 3>>);
static_assert(
    std::is_same_v<AveragePooling3D<3, overlapping>::Output<Shape<5, 2, 7, 3>>, Shape<3, 2, 4, 3>>);
static_assert(std::is_same_v<ls::GlobalMaxPooling3D::Output<Shape<5, 2, 7, 3>>, Shape<3>>);

}  // namespace

TEST_CASE("3-D pooling: Keras's values and gradients") {
  namespace max = golden::max_pooling3d;
  check_golden<MaxPooling3D<>, Shape<4, 2, 5, 2>>({max::x, max::y, max::dy, max::dx});
  namespace max_same = golden::max_pooling3d_same;
  check_golden<MaxPooling3D<Extent3D{3, 2, 2}, overlapping>, Shape<4, 2, 3, 2>>(
      {max_same::x, max_same::y, max_same::dy, max_same::dx});
  namespace average = golden::average_pooling3d;
  check_golden<AveragePooling3D<Extent3D{2, 1, 4}>, Shape<4, 2, 5, 2>>(
      {average::x, average::y, average::dy, average::dx});
  namespace average_same = golden::average_pooling3d_same;
  check_golden<AveragePooling3D<2, overlapping>, Shape<4, 2, 3, 2>>(
      {average_same::x, average_same::y, average_same::dy, average_same::dx});
  namespace global_max = golden::global_max_pooling3d;
  check_golden<ls::GlobalMaxPooling3D, Shape<2, 3, 2, 3>>(
      {global_max::x, global_max::y, global_max::dy, global_max::dx});
  namespace global_average = golden::global_average_pooling3d;
  check_golden<ls::GlobalAveragePooling3D, Shape<2, 3, 2, 3>>(
      {global_average::x, global_average::y, global_average::dy, global_average::dx});
  namespace up = golden::up_sampling3d;
  check_golden<UpSampling3D<Extent3D{2, 1, 3}>, Shape<2, 2, 1, 2>>({up::x, up::y, up::dy, up::dx});
}

TEST_CASE("3-D pooling: gradients") {
  for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<MaxPooling3D<>, Shape<5, 4, 3, 2>>();
    lockstep_test::check_gradients<MaxPooling3D<3, overlapping>, Shape<5, 3, 4, 2>>(17);
    lockstep_test::check_gradients_for_all_batches<AveragePooling3D<>, Shape<5, 4, 3, 2>>();
    lockstep_test::check_gradients<AveragePooling3D<3, overlapping>, Shape<5, 3, 4, 2>>(17);
    lockstep_test::check_gradients<AveragePooling3D<1, Pooling3DOptions{.stride = 2}>,
                                   Shape<3, 3, 4, 1>>(3);
    lockstep_test::check_gradients<ls::GlobalMaxPooling3D, Shape<2, 3, 2, 2>>(3);
    lockstep_test::check_gradients<ls::GlobalAveragePooling3D, Shape<2, 3, 2, 2>>(3);
    lockstep_test::check_gradients_for_all_batches<UpSampling3D<Extent3D{3, 2, 1}>,
                                                   Shape<2, 1, 3, 2>>();
  });
}

TEST_CASE("MaxPooling3D: the gradient goes to the first of equal maxima; NaN stays visible") {
  for_each_instruction_set([] {
    LayerRig<MaxPooling3D<>, Shape<2, 2, 2, 1>, float> rig(1);
    for (float& x : rig.x) x = 0;
    rig.x[3 * 16] = rig.x[5 * 16] = 2;  // the last of the first plane, the second of the next one
    rig.forward();
    rig.backward();
    for (std::size_t f = 0; f < 8; ++f) CHECK(rig.dx[f * 16] == (f == 3 ? rig.dy[0] : 0));
    for (std::size_t f = 0; f < 8; ++f) {
      for (float& x : rig.x) x = 0;
      rig.x[f * 16] = std::numeric_limits<float>::quiet_NaN();
      rig.forward();
      CHECK(std::isnan(rig.y[0]));
    }
  });
}
