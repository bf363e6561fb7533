#include "lockstep/layers/conv1d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/recurrent.hpp"
#include "lockstep/layers/activations.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_struct.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::check_golden_struct;
using ls::Conv1D, ls::Conv1DOptions, ls::Padding, ls::Sequence;

namespace {

constexpr Conv1DOptions strided{.stride = 2, .padding = Padding::same};
constexpr Conv1DOptions causal{.padding = Padding::causal, .dilation_rate = 2};
constexpr Conv1DOptions grouped{.padding = Padding::same, .groups = 2, .use_bias = false};
constexpr Conv1DOptions all{
    .stride = 3, .padding = Padding::causal, .dilation_rate = 2, .groups = 3};

static_assert(std::is_same_v<Conv1D<7, 4>::Output<Sequence<11, 4>>, Sequence<8, 7>>);
static_assert(
    std::is_same_v<Conv1D<7, 4, ls::Linear, strided>::Output<Sequence<11, 4>>, Sequence<6, 7>>);
static_assert(
    std::is_same_v<Conv1D<7, 4, ls::Linear, causal>::Output<Sequence<11, 4>>, Sequence<11, 7>>);

}  // namespace

TEST_CASE("Conv1D: values and gradients of Keras") {
  using In = Sequence<11, 4>;
  check_golden_struct<golden::conv1d_valid, Conv1D<3, 4>, In>(2);
  check_golden_struct<golden::conv1d_same, Conv1D<3, 4, ls::Tanh, strided>, In>(2);
  check_golden_struct<golden::conv1d_causal, Conv1D<2, 3, ls::Linear, causal>, In>(2);
  check_golden_struct<golden::conv1d_groups, Conv1D<6, 3, ls::Linear, grouped>, In>(2);
}

TEST_CASE("Conv1D: gradients against differences") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<Conv1D<6, 3, ls::GELU, all>, Sequence<5, 6>>();
    lockstep_test::check_gradients<Conv1D<3, 2>, Sequence<19, 2>>(3);
  });
  lockstep_test::check_gradients<Conv1D<2, 3, ls::ReLU, causal>, Sequence<1, 2>>(3);
}

TEST_CASE("Conv1D: penalties and constraints go to its variables") {
  using L = lockstep::Conv1D<4, 3, lockstep::Linear,
                             lockstep::Conv1DOptions{.bias_regularizer = lockstep::L1{0.5}}>;
  using In = lockstep::Sequence<5, 3>;
  CHECK((L::variables<In>[1].regularizer.l1 == 0.5));
}
