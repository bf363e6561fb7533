#include "lockstep/layers/conv_lstm2d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/volumes.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::check_golden;
using ls::ConvLSTM2D, ls::ConvLSTM2DOptions, ls::Extent2D, ls::Padding, ls::Sequence, ls::Shape;

namespace {

constexpr ConvLSTM2DOptions strided{
    .stride = {1, 2}, .padding = Padding::same, .return_sequences = true};
using Strided = ConvLSTM2D<2, Extent2D{3, 2}, strided>;

}  // namespace

TEST_CASE("ConvLSTM2D: shapes and variables") {
  static_assert(std::is_same_v<ConvLSTM2D<3, 2>::Output<Sequence<5, 4, 6, 2>>, Shape<3, 5, 3>>);
  static_assert(std::is_same_v<Strided::Output<Sequence<5, 4, 6, 2>>, Sequence<5, 4, 3, 2>>);
  const auto& variables = ConvLSTM2D<3, 2>::variables<Sequence<5, 4, 6, 2>>;
  REQUIRE(variables.size() == 3);
  CHECK(variables[0].name == "conv_lstm_cell/kernel");
  CHECK(variables[0].size() == 2 * 2 * 2 * 12);
  CHECK(variables[1].name == "conv_lstm_cell/recurrent_kernel");
  CHECK(variables[1].size() == 2 * 2 * 3 * 12);
  CHECK(variables[2].size() == 12);
}

TEST_CASE("ConvLSTM2D: Keras's values and gradients") {
  namespace last = golden::conv_lstm2d;
  check_golden<ls::Sequential<ls::ToSequence, ConvLSTM2D<2, 2>>, Shape<3, 3, 4, 2>>(
      {last::x,
       last::y,
       last::dy,
       last::dx,
       {{last::kernel, last::kernel_gradient},
        {last::recurrent_kernel, last::recurrent_kernel_gradient},
        {last::bias, last::bias_gradient}}});
  namespace all = golden::conv_lstm2d_same;
  check_golden<ls::Sequential<ls::ToSequence, Strided, ls::Flatten>, Shape<3, 3, 4, 1>>(
      {all::x,
       all::y,
       all::dy,
       all::dx,
       {{all::kernel, all::kernel_gradient},
        {all::recurrent_kernel, all::recurrent_kernel_gradient},
        {all::bias, all::bias_gradient}}});
}

TEST_CASE("ConvLSTM2D: gradients") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<ConvLSTM2D<2, 2>, Sequence<3, 3, 3, 1>>();
    lockstep_test::check_gradients<Strided, Sequence<3, 3, 4, 2>>(3);
    lockstep_test::check_gradients<
        ConvLSTM2D<2, 2, ConvLSTM2DOptions{.dilation_rate = 2, .use_bias = false}, ls::Softsign,
                   ls::HardSigmoid>,
        Sequence<2, 4, 4, 1>>(17);
  });
}
