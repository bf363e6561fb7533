#include "lockstep/layers/conv2d_transpose.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/image_layers.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::check_golden;
using ls::Conv2DTranspose;
using ls::Conv2DTransposeOptions;
using ls::Extent2D;
using ls::Padding;
using ls::Shape;

TEST_CASE("Conv2DTranspose: shapes and variables") {
  using L = Conv2DTranspose<4, Extent2D{3, 5}, ls::ReLU, Conv2DTransposeOptions{.stride = 2}>;
  static_assert(std::is_same_v<L::Output<Shape<8, 7, 6>>, Shape<17, 17, 4>>);
  const auto& variables = L::variables<Shape<8, 7, 6>>;
  REQUIRE(variables.size() == 2);
  CHECK(variables[0].extents[2] == 4);  // (filters before channels)
  CHECK(variables[0].extents[3] == 6);
  CHECK(variables[0].fans.in == 60);
  CHECK(variables[0].fans.out == 90);
  CHECK(variables[1].size() == 4);
}

TEST_CASE("Conv2DTranspose: Keras's values and gradients") {
  namespace valid = lockstep_test::golden::transpose_valid;
  check_golden<Conv2DTranspose<3, 3, ls::ReLU, Conv2DTransposeOptions{.stride = 2}>,
               Shape<3, 4, 2>>(
      {valid::x,
       valid::y,
       valid::dy,
       valid::dx,
       {{valid::kernel, valid::kernel_gradient}, {valid::bias, valid::bias_gradient}}});
  namespace same = lockstep_test::golden::transpose_same;
  constexpr Conv2DTransposeOptions padded{.stride = 2, .padding = Padding::same};
  check_golden<Conv2DTranspose<2, 3, ls::Linear, padded>, Shape<3, 2, 3>>(
      {same::x,
       same::y,
       same::dy,
       same::dx,
       {{same::kernel, same::kernel_gradient}, {same::bias, same::bias_gradient}}});
  namespace gaps = lockstep_test::golden::transpose_gaps;  // a stride beyond the kernel
  constexpr Conv2DTransposeOptions far_apart{.stride = {2, 3}};
  check_golden<Conv2DTranspose<2, Extent2D{1, 2}, ls::Linear, far_apart>, Shape<2, 2, 3>>(
      {gaps::x,
       gaps::y,
       gaps::dy,
       gaps::dx,
       {{gaps::kernel, gaps::kernel_gradient}, {gaps::bias, gaps::bias_gradient}}});
}

TEST_CASE("Conv2DTranspose: Keras's output_padding, PyTorch's dilation") {
  namespace more = lockstep_test::golden::transpose_more;
  constexpr Conv2DTransposeOptions padded{
      .stride = 2, .padding = Padding::same, .output_padding = 1};
  check_golden<Conv2DTranspose<2, 3, ls::Tanh, padded>, Shape<3, 2, 3>>(
      {more::x,
       more::y,
       more::dy,
       more::dx,
       {{more::kernel, more::kernel_gradient}, {more::bias, more::bias_gradient}}});
  namespace valid = lockstep_test::golden::transpose_more_valid;
  constexpr Conv2DTransposeOptions both{.stride = {3, 2}, .output_padding = {2, 0}};
  check_golden<Conv2DTranspose<2, Extent2D{2, 3}, ls::Linear, both>, Shape<2, 3, 2>>(
      {valid::x,
       valid::y,
       valid::dy,
       valid::dx,
       {{valid::kernel, valid::kernel_gradient}, {valid::bias, valid::bias_gradient}}});
  namespace dilated = lockstep_test::golden::transpose_dilation;
  constexpr Conv2DTransposeOptions apart{
      .stride = {2, 1}, .output_padding = {1, 0}, .dilation_rate = {3, 2}};
  check_golden<Conv2DTranspose<3, Extent2D{2, 3}, ls::Linear, apart>, Shape<3, 4, 2>>(
      {dilated::x,
       dilated::y,
       dilated::dy,
       dilated::dx,
       {{dilated::kernel, dilated::kernel_gradient}, {dilated::bias, dilated::bias_gradient}}});
}

TEST_CASE("Conv2DTranspose: output_padding that no convolution undoes is refused") {
  using ls::detail::FittingOutputPadding;
  using In = Shape<3, 3, 2>;
  constexpr Extent2D odd = 3, even = 4;
  constexpr Conv2DTransposeOptions none{.stride = 2, .padding = Padding::same};
  constexpr Conv2DTransposeOptions zero{.stride = 2, .padding = Padding::same, .output_padding = 0};
  constexpr Conv2DTransposeOptions as_stride{.stride = 2, .output_padding = 2};
  static_assert(FittingOutputPadding<0, In, even, none>);
  static_assert(FittingOutputPadding<0, In, odd, zero>);
  static_assert(!FittingOutputPadding<0, In, even, zero>);
  static_assert(!FittingOutputPadding<0, In, odd, as_stride>);
  static_assert(
      std::is_same_v<Conv2DTranspose<1, 3, ls::Linear, zero>::Output<In>, Shape<5, 5, 1>>);
}

TEST_CASE("Conv2DTranspose: gradients") {
  static constexpr Conv2DTransposeOptions options{
      .stride = {1, 2}, .padding = Padding::same, .use_bias = false};
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<Conv2DTranspose<3, 3, ls::SiLU>,
                                                   Shape<3, 2, 2>>();
    lockstep_test::check_gradients<Conv2DTranspose<33, 3, ls::ReLU, options>, Shape<2, 3, 9>>(
        3);  // many weights
  });
}

TEST_CASE("Conv2DTranspose: penalties and constraints go to its variables") {
  using L = lockstep::Conv2DTranspose<4, 3, lockstep::Linear,
                                      lockstep::Conv2DTransposeOptions{.kernel_regularizer =
                                                                           lockstep::L1{0.5}}>;
  using In = lockstep::Shape<8, 8, 3>;
  CHECK((L::variables<In>[0].regularizer.l1 == 0.5));
}
