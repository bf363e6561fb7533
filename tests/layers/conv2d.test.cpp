#include "lockstep/layers/conv2d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/image_layers.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::check_golden;
using ls::Conv2D;
using ls::Conv2DOptions;
using ls::DepthwiseConv2D;
using ls::DepthwiseConv2DOptions;
using ls::Extent2D;
using ls::Padding;
using ls::SeparableConv2D;
using ls::SeparableConv2DOptions;
using ls::Shape;

TEST_CASE("Conv2D: shapes and variables") {
  using L = Conv2D<32, 3, ls::ReLU>;
  static_assert(std::is_same_v<L::Output<Shape<28, 28, 1>>, Shape<26, 26, 32>>);
  static_assert(
      std::is_same_v<Conv2D<4, 3, ls::Linear, Conv2DOptions{.stride = 2}>::Output<Shape<8, 7, 3>>,
                     Shape<3, 3, 4>>);
  static_assert(
      std::is_same_v<
          Conv2D<4, 3, ls::Linear,
                 Conv2DOptions{.stride = {2, 3}, .padding = Padding::same}>::Output<Shape<8, 7, 3>>,
          Shape<4, 3, 4>>);
  static_assert(std::is_same_v<Conv2D<4, Extent2D{1, 5}>::Output<Shape<8, 7, 3>>, Shape<8, 3, 4>>);
  const auto& variables = L::variables<Shape<28, 28, 1>>;
  REQUIRE(variables.size() == 2);
  CHECK(variables[0].name == "kernel");
  CHECK(variables[0].rank == 4);
  CHECK(variables[0].extents[0] == 3);
  CHECK(variables[0].extents[2] == 1);
  CHECK(variables[0].extents[3] == 32);
  CHECK(variables[0].fans.in == 9);
  CHECK(variables[0].fans.out == 288);
  CHECK(variables[1].name == "bias");
  CHECK(variables[1].size() == 32);
}

TEST_CASE("Conv2D: gradients with few weights") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<Conv2D<5, 3>, Shape<6, 5, 1>>();
    lockstep_test::check_gradients_for_all_batches<
        Conv2D<2, 3, ls::ReLU, Conv2DOptions{.padding = Padding::same}>, Shape<5, 7, 2>>();
    lockstep_test::check_gradients<
        Conv2D<3, Extent2D{2, 4}, ls::Tanh, Conv2DOptions{.stride = {2, 3}}>, Shape<7, 11, 2>>(3);
    lockstep_test::check_gradients<
        Conv2D<3, Extent2D{5, 2}, ls::ReLU,
               Conv2DOptions{.stride = {3, 2}, .padding = Padding::same}>,
        Shape<8, 9, 3>>(17);
    lockstep_test::check_gradients<Conv2D<1, 1>, Shape<1, 1, 1>>(1);
    lockstep_test::check_gradients<
        Conv2D<4, 5, ls::Sigmoid, Conv2DOptions{.padding = Padding::same}>, Shape<3, 2, 1>>(5);
    lockstep_test::check_gradients<Conv2D<3, 1, ls::Linear, Conv2DOptions{.stride = 3}>,
                                   Shape<7, 7, 2>>(2);
    lockstep_test::check_gradients_for_all_batches<Conv2D<3, 2, ls::SiLU>, Shape<4, 3, 2>>();
  });
}

TEST_CASE("Conv2D: gradients with many weights") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients<Conv2D<33, 3, ls::ReLU, Conv2DOptions{.padding = Padding::same}>,
                                   Shape<5, 5, 9>>(3);
    lockstep_test::check_gradients<
        Conv2D<10, 3, ls::LeakyReLU<10>, Conv2DOptions{.stride = 2, .padding = Padding::same}>,
        Shape<6, 9, 40>>(17);
    lockstep_test::check_gradients<Conv2D<40, 1>, Shape<3, 4, 60>>(1);
    lockstep_test::check_gradients<Conv2D<64, Extent2D{3, 2}>, Shape<4, 12, 16>>(0);
    lockstep_test::check_gradients<
        Conv2D<12, 7, ls::Tanh, Conv2DOptions{.stride = 2, .padding = Padding::same}>,
        Shape<9, 8, 4>>(130);
  });
}

TEST_CASE("Conv2D: gradients by Winograd's algorithm") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients<Conv2D<17, 3, ls::ReLU, Conv2DOptions{.padding = Padding::same}>,
                                   Shape<4, 6, 16>>(3);
    lockstep_test::check_gradients<
        Conv2D<16, 3, ls::Tanh, Conv2DOptions{.padding = Padding::same, .use_bias = false}>,
        Shape<6, 4, 18>>(17);
    lockstep_test::check_gradients<Conv2D<16, 3>, Shape<8, 7, 16>>(1);
    lockstep_test::check_gradients<Conv2D<16, 3>, Shape<8, 7, 16>>(0);
  });
}

TEST_CASE("Conv2D: what is not finite stays visible") {
  lockstep_test::LayerRig<Conv2D<2, 2, ls::ReLU>, Shape<3, 3, 1>, float> rig(2);
  rig.forward();
  rig.dy[0] = -std::numeric_limits<float>::infinity();
  rig.y[0] = 1;
  rig.backward_weights();
  CHECK(!std::isfinite(rig.gradients[1][0]));
}

TEST_CASE("Conv2D: initialisers") {
  using L = ls::Conv2D<4, 3, ls::Linear,
                       ls::Conv2DOptions{.kernel_initializer = ls::he_uniform,
                                         .bias_initializer = ls::ones}>;
  const auto& variables = L::variables<ls::Shape<8, 8, 2>>;
  CHECK((variables[0].initializer == ls::he_uniform));
  CHECK(variables[0].fans.in == 18);
  CHECK((variables[1].initializer == ls::ones));
  CHECK((Conv2D<4, 3>::variables<ls::Shape<8, 8, 2>>[0].initializer == ls::glorot_uniform));
  CHECK((Conv2D<4, 3>::variables<ls::Shape<8, 8, 2>>[1].initializer == ls::zeros));
}

TEST_CASE("Conv2D: without a bias") {
  constexpr ls::Conv2DOptions options{.padding = ls::Padding::same, .use_bias = false};
  using Few = ls::Conv2D<5, 3, ls::ReLU, options>;
  using Many = ls::Conv2D<48, 3, ls::Linear, options>;
  static_assert(Few::variables<ls::Shape<4, 5, 2>>.size() == 1);
  static_assert(
      std::is_same_v<ls::Conv2D<5, 3, ls::Linear, options>::WithActivation<ls::ReLU>, Few>);
  lockstep_test::check_gradients_for_all_batches<Few, ls::Shape<4, 5, 2>>();
  lockstep_test::check_gradients<Many, ls::Shape<3, 2, 16>>(5);
}

TEST_CASE("Conv2D: groups and dilation, Keras's values and gradients") {
  using lockstep_test::check_golden;
  namespace groups = lockstep_test::golden::conv_groups;
  constexpr Conv2DOptions in_groups{.stride = 2, .padding = Padding::same, .groups = 2};
  static_assert(Conv2D<6, 3, ls::ReLU, in_groups>::variables<Shape<5, 4, 4>>[0].extents[2] == 2);
  check_golden<Conv2D<6, 3, ls::ReLU, in_groups>, Shape<5, 4, 4>>(
      {groups::x,
       groups::y,
       groups::dy,
       groups::dx,
       {{groups::kernel, groups::kernel_gradient}, {groups::bias, groups::bias_gradient}}});
  namespace gaps = lockstep_test::golden::conv_dilation;
  constexpr Conv2DOptions with_gaps{.padding = Padding::same, .dilation_rate = {3, 2}};
  check_golden<Conv2D<3, Extent2D{2, 3}, ls::Linear, with_gaps>, Shape<6, 5, 2>>(
      {gaps::x,
       gaps::y,
       gaps::dy,
       gaps::dx,
       {{gaps::kernel, gaps::kernel_gradient}, {gaps::bias, gaps::bias_gradient}}});
  namespace both = lockstep_test::golden::conv_dilation_groups;  // one channel in a group
  constexpr Conv2DOptions with_both{.dilation_rate = 2, .groups = 3};
  static_assert(
      std::is_same_v<Conv2D<6, 3, ls::Tanh, with_both>::Output<Shape<6, 5, 3>>, Shape<2, 1, 6>>);
  check_golden<Conv2D<6, 3, ls::Tanh, with_both>, Shape<6, 5, 3>>(
      {both::x,
       both::y,
       both::dy,
       both::dx,
       {{both::kernel, both::kernel_gradient}, {both::bias, both::bias_gradient}}});
}

TEST_CASE("Conv2D: gradients with groups and dilation") {
  static constexpr Conv2DOptions options{
      .stride = {1, 2}, .padding = Padding::same, .dilation_rate = {2, 1}, .groups = 2};
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<Conv2D<4, 3, ls::ReLU, options>,
                                                   Shape<5, 4, 6>>();
  });
}

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

TEST_CASE("SeparableConv2D: shapes and variables") {
  using L = SeparableConv2D<4, 3, ls::ReLU,
                            SeparableConv2DOptions{.dilation_rate = {1, 2}, .depth_multiplier = 2}>;
  static_assert(std::is_same_v<L::Output<Shape<8, 7, 5>>, Shape<6, 3, 4>>);
  const auto& variables = L::variables<Shape<8, 7, 5>>;
  REQUIRE(variables.size() == 3);
  CHECK(variables[0].name == "depthwise_kernel");
  CHECK(variables[0].size() == 3 * 3 * 5 * 2);
  CHECK(variables[1].name == "pointwise_kernel");
  CHECK(variables[1].rank == 4);
  CHECK(variables[1].extents[2] == 10);
  CHECK(variables[1].extents[3] == 4);
  CHECK(variables[1].fans.in == 10);
  CHECK(variables[2].name == "bias");
}

TEST_CASE("SeparableConv2D: Keras's values and gradients") {
  namespace both = lockstep_test::golden::separable;
  constexpr SeparableConv2DOptions options{
      .stride = 2, .padding = Padding::same, .depth_multiplier = 2};
  check_golden<SeparableConv2D<3, 3, ls::ReLU, options>, Shape<5, 4, 2>>(
      {both::x,
       both::y,
       both::dy,
       both::dx,
       {{both::depthwise_kernel, both::depthwise_kernel_gradient},
        {both::pointwise_kernel, both::pointwise_kernel_gradient},
        {both::bias, both::bias_gradient}}});
}

TEST_CASE("SeparableConv2D: gradients") {
  lockstep_test::for_each_instruction_set([] {
    constexpr SeparableConv2DOptions options{.padding = Padding::same, .use_bias = false};
    lockstep_test::check_gradients_for_all_batches<SeparableConv2D<3, 2, ls::GELU, options>,
                                                   Shape<3, 4, 3>>();
    lockstep_test::check_gradients<SeparableConv2D<2, 3>, Shape<4, 5, 1>>(3);
  });
}

TEST_CASE("SeparableConv2D: penalties and constraints go to its variables") {
  using L = lockstep::SeparableConv2D<4, 3, lockstep::Linear,
                                      lockstep::SeparableConv2DOptions{
                                          .pointwise_regularizer = lockstep::L2{0.5},
                                          .depthwise_constraint = lockstep::NonNeg{}}>;
  using In = lockstep::Shape<8, 8, 3>;
  CHECK((L::variables<In>[1].regularizer.l2 == 0.5 &&
         L::variables<In>[0].constraint == lockstep::NonNeg{}));
}
