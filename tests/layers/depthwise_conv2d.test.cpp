#include "lockstep/layers/depthwise_conv2d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/image_layers.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::check_golden;
using ls::DepthwiseConv2D;
using ls::DepthwiseConv2DOptions;
using ls::Extent2D;
using ls::Padding;
using ls::Shape;

TEST_CASE("DepthwiseConv2D: shapes and variables") {
  using L = DepthwiseConv2D<3, ls::ReLU,
                            DepthwiseConv2DOptions{.depth_multiplier = 2, .dilation_rate = {1, 2}}>;
  static_assert(std::is_same_v<L::Output<Shape<8, 7, 5>>, Shape<6, 3, 10>>);
  const auto& variables = L::variables<Shape<8, 7, 5>>;
  REQUIRE(variables.size() == 2);
  CHECK(variables[0].name == "kernel");
  CHECK(variables[0].rank == 4);
  CHECK(variables[0].extents[2] == 5);
  CHECK(variables[0].extents[3] == 2);
  CHECK(variables[0].fans.in == 45);
  CHECK(variables[0].fans.out == 18);
  CHECK(variables[1].size() == 10);
  constexpr DepthwiseConv2DOptions without_bias{.use_bias = false};
  static_assert(DepthwiseConv2D<3, ls::Linear, without_bias>::variables<Shape<8, 7, 5>>.size() ==
                1);
  static_assert(
      std::is_same_v<DepthwiseConv2D<3>::WithActivation<ls::ReLU>, DepthwiseConv2D<3, ls::ReLU>>);
}

TEST_CASE("DepthwiseConv2D: Keras's values and gradients") {
  namespace same = lockstep_test::golden::depthwise;
  check_golden<DepthwiseConv2D<3, ls::ReLU, DepthwiseConv2DOptions{.padding = Padding::same}>,
               Shape<5, 4, 3>>(
      {same::x,
       same::y,
       same::dy,
       same::dx,
       {{same::kernel, same::kernel_gradient}, {same::bias, same::bias_gradient}}});
  namespace stride = lockstep_test::golden::depthwise_stride;
  constexpr DepthwiseConv2DOptions in_steps{
      .stride = 2, .padding = Padding::same, .depth_multiplier = 2};
  check_golden<DepthwiseConv2D<Extent2D{3, 2}, ls::Linear, in_steps>, Shape<6, 5, 2>>(
      {stride::x,
       stride::y,
       stride::dy,
       stride::dx,
       {{stride::kernel, stride::kernel_gradient}, {stride::bias, stride::bias_gradient}}});
  namespace gaps = lockstep_test::golden::depthwise_dilation;
  check_golden<DepthwiseConv2D<2, ls::Tanh, DepthwiseConv2DOptions{.dilation_rate = {2, 3}}>,
               Shape<5, 6, 2>>(
      {gaps::x,
       gaps::y,
       gaps::dy,
       gaps::dx,
       {{gaps::kernel, gaps::kernel_gradient}, {gaps::bias, gaps::bias_gradient}}});
}

TEST_CASE("DepthwiseConv2D: gradients") {
  lockstep_test::for_each_instruction_set([] {
    constexpr DepthwiseConv2DOptions options{
        .stride = 2, .padding = Padding::same, .depth_multiplier = 2};
    constexpr DepthwiseConv2DOptions without_bias{.use_bias = false};
    lockstep_test::check_gradients<DepthwiseConv2D<3, ls::ReLU, without_bias>, Shape<5, 4, 3>>(3);
    lockstep_test::check_gradients<DepthwiseConv2D<3, ls::Linear, without_bias>, Shape<5, 4, 3>>(3);
    lockstep_test::check_gradients_for_all_batches<DepthwiseConv2D<3, ls::ReLU, options>,
                                                   Shape<5, 6, 3>>();
    lockstep_test::check_gradients<DepthwiseConv2D<Extent2D{2, 3}, ls::GELU>, Shape<4, 5, 2>>(3);
    lockstep_test::check_gradients<DepthwiseConv2D<3>, Shape<4, 5, 1>>(5);  // one channel
  });
}

TEST_CASE("DepthwiseConv2D: penalties and constraints go to its variables") {
  using L = lockstep::DepthwiseConv2D<3, lockstep::Linear,
                                      lockstep::DepthwiseConv2DOptions{
                                          .depthwise_regularizer = lockstep::L2{0.5},
                                          .bias_constraint = lockstep::NonNeg{}}>;
  using In = lockstep::Shape<8, 8, 3>;
  CHECK((L::variables<In>[0].regularizer.l2 == 0.5 &&
         L::variables<In>[1].constraint == lockstep::NonNeg{}));
}
