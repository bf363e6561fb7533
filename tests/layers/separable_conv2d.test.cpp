#include "lockstep/layers/separable_conv2d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/image_layers.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::check_golden;
using ls::Padding;
using ls::SeparableConv2D;
using ls::SeparableConv2DOptions;
using ls::Shape;

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
