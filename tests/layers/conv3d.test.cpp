#include "lockstep/layers/conv3d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/volumes.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::check_golden;
using ls::Conv3D;
using ls::Conv3DOptions;
using ls::Extent3D;
using ls::Padding;
using ls::Shape;

TEST_CASE("Conv3D: shapes and variables") {
  static_assert(std::is_same_v<Conv3D<8, 3>::Output<Shape<8, 9, 7, 2>>, Shape<6, 7, 5, 8>>);
  constexpr Conv3DOptions steps{.stride = {1, 2, 3}, .padding = Padding::same};
  static_assert(std::is_same_v<Conv3D<4, 3, ls::Linear, steps>::Output<Shape<2, 7, 7, 1>>,
                               Shape<2, 4, 3, 4>>);
  static_assert(
      std::is_same_v<Conv3D<3, 2, ls::Linear>::WithActivation<ls::ReLU>, Conv3D<3, 2, ls::ReLU>>);
  const auto& variables = Conv3D<6, Extent3D{3, 2, 1}, ls::Linear,
                                 Conv3DOptions{.groups = 2}>::variables<Shape<4, 4, 4, 4>>;
  REQUIRE(variables.size() == 2);
  CHECK(variables[0].name == "kernel");
  CHECK(variables[0].rank == 5);
  CHECK(variables[0].size() == 3 * 2 * 2 * 6);
  CHECK(variables[0].fans.in == 12);
  CHECK(variables[0].fans.out == 36);
  CHECK(variables[1].size() == 6);
}

TEST_CASE("Conv3D: Keras's values and gradients") {
  namespace valid = golden::conv3d;
  check_golden<Conv3D<3, 2, ls::ReLU>, Shape<3, 4, 3, 2>>(
      {valid::x,
       valid::y,
       valid::dy,
       valid::dx,
       {{valid::kernel, valid::kernel_gradient}, {valid::bias, valid::bias_gradient}}});
  namespace same = golden::conv3d_same;
  constexpr Conv3DOptions steps{.stride = {2, 1, 2}, .padding = Padding::same};
  check_golden<Conv3D<2, Extent3D{3, 2, 3}, ls::Linear, steps>, Shape<4, 3, 3, 2>>(
      {same::x,
       same::y,
       same::dy,
       same::dx,
       {{same::kernel, same::kernel_gradient}, {same::bias, same::bias_gradient}}});
  namespace gaps = golden::conv3d_dilation;
  check_golden<Conv3D<2, 2, ls::Tanh, Conv3DOptions{.dilation_rate = {2, 1, 3}}>,
               Shape<3, 3, 4, 2>>(
      {gaps::x,
       gaps::y,
       gaps::dy,
       gaps::dx,
       {{gaps::kernel, gaps::kernel_gradient}, {gaps::bias, gaps::bias_gradient}}});
  namespace groups = golden::conv3d_groups;
  constexpr Conv3DOptions in_groups{.groups = 2, .use_bias = false};
  check_golden<Conv3D<4, 2, ls::Linear, in_groups>, Shape<2, 3, 2, 4>>(
      {groups::x, groups::y, groups::dy, groups::dx, {{groups::kernel, groups::kernel_gradient}}});
}

TEST_CASE("Conv3D: gradients with few and with many weights") {
  lockstep_test::for_each_instruction_set([] {
    constexpr Conv3DOptions same{.padding = Padding::same};
    constexpr Conv3DOptions all{
        .stride = {2, 1, 2}, .padding = Padding::same, .dilation_rate = {1, 2, 1}, .groups = 2};
    lockstep_test::check_gradients_for_all_batches<Conv3D<3, 2, ls::ReLU>, Shape<3, 4, 3, 1>>();
    lockstep_test::check_gradients<Conv3D<2, 3, ls::Tanh, same>, Shape<1, 4, 2, 2>>(17);
    lockstep_test::check_gradients<Conv3D<4, 3, ls::ReLU, all>, Shape<3, 4, 5, 4>>(3);
    lockstep_test::check_gradients<Conv3D<3, 2, ls::Linear, Conv3DOptions{.groups = 3}>,
                                   Shape<2, 3, 3, 3>>(5);  // one channel in a group
    lockstep_test::check_gradients<Conv3D<20, 3, ls::ReLU, same>, Shape<3, 3, 4, 9>>(3);
    lockstep_test::check_gradients<
        Conv3D<16, 3, ls::Linear, Conv3DOptions{.stride = 2, .padding = Padding::same}>,
        Shape<4, 3, 5, 16>>(17);
    // A kernel for which an image would be computed by Winograd's algorithm.
    lockstep_test::check_gradients<Conv3D<16, Extent3D{1, 3, 3}>, Shape<2, 6, 6, 16>>(1);
  });
}
