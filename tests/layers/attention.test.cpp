#include "lockstep/layers/attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <type_traits>

#include "golden/attention.hpp"
#include "golden/llama.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_sequences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::MultiHeadAttention;
using ls::MultiHeadAttentionOptions;
using ls::Sequence;

namespace {

constexpr MultiHeadAttentionOptions plain{.value_dim = 2};
constexpr MultiHeadAttentionOptions causal{.value_dim = 2, .use_causal_mask = true};

/// Golden, a struct of golden/attention.hpp, against L.
template <class Golden, class L, class In>
void check() {
  lockstep_test::GoldenSequences c{
      std::size(Golden::x) / In::size, Golden::x, Golden::y, Golden::dy, Golden::dx, {}};
  const auto add = [&](lockstep_test::Golden value, lockstep_test::Golden gradient) {
    c.variables.push_back({value, gradient});
  };
  constexpr bool has_biases = requires { Golden::query_bias; };
  add(Golden::query_kernel, Golden::query_kernel_gradient);
  if constexpr (has_biases) add(Golden::query_bias, Golden::query_bias_gradient);
  add(Golden::key_kernel, Golden::key_kernel_gradient);
  if constexpr (has_biases) add(Golden::key_bias, Golden::key_bias_gradient);
  add(Golden::value_kernel, Golden::value_kernel_gradient);
  if constexpr (has_biases) add(Golden::value_bias, Golden::value_bias_gradient);
  add(Golden::attention_output_kernel, Golden::attention_output_kernel_gradient);
  if constexpr (has_biases)
    add(Golden::attention_output_bias, Golden::attention_output_bias_gradient);
  if constexpr (requires { Golden::mask; }) c.mask = Golden::mask;
  lockstep_test::check_golden_sequences<L, In>(c);
}

}  // namespace

TEST_CASE("MultiHeadAttention: Keras's variables") {
  using L = MultiHeadAttention<2, 3, plain>;
  static_assert(std::is_same_v<L::Output<Sequence<5, 4>>, Sequence<5, 4>>);
  const auto& variables = L::variables<Sequence<5, 4>>;
  REQUIRE(variables.size() == 8);
  const char* const names[] = {"query/kernel",
                               "query/bias",
                               "key/kernel",
                               "key/bias",
                               "value/kernel",
                               "value/bias",
                               "attention_output/kernel",
                               "attention_output/bias"};
  const std::size_t sizes[] = {24, 6, 24, 6, 16, 4, 16, 4};
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(variables[i].name == names[i]);
    CHECK(variables[i].size() == sizes[i]);
  }
  CHECK(variables[0].rank == 3);
  CHECK(variables[0].fans.in == 4);  // of the projection, not of one head
  CHECK(variables[0].fans.out == 6);
  CHECK(variables[6].fans.in == 4);
  CHECK(variables[6].fans.out == 4);
  static_assert(
      MultiHeadAttention<4, 8, MultiHeadAttentionOptions{.use_bias = false}>::variables<Sequence<5, 32>>.size() == 4);
}

TEST_CASE("MultiHeadAttention: penalties and constraints go to all four projections") {
  constexpr MultiHeadAttentionOptions options{.kernel_regularizer = ls::L2{0.5},
                                              .bias_regularizer = ls::L1{0.25},
                                              .kernel_constraint = ls::MaxNorm{3},
                                              .bias_constraint = ls::NonNeg{}};
  const auto& variables = MultiHeadAttention<2, 3, options>::variables<Sequence<5, 4>>;
  for (std::size_t i = 0; i < 8; i += 2) {
    CHECK(variables[i].regularizer.l2 == 0.5);
    CHECK(variables[i + 1].regularizer.l1 == 0.25);
    CHECK(variables[i].constraint.maximum == 3);
    CHECK((variables[i + 1].constraint.kind == ls::Constraint::Kind::non_negative));
  }
}

TEST_CASE("GroupQueryAttention: Keras's variables, and the names of both") {
  using L = ls::GroupQueryAttention<3, 4, 2>;
  const auto& variables = L::variables<Sequence<5, 4>>;
  const std::size_t sizes[] = {48, 12, 24, 6, 24, 6, 48, 4};
  REQUIRE(variables.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) CHECK(variables[i].size() == sizes[i]);
  CHECK(variables[2].extents[1] == 2);
  CHECK(variables[2].fans.out == 6);
  CHECK(L::name == "grouped_query_attention");
  CHECK(MultiHeadAttention<4, 3>::name == "multi_head_attention");
}

TEST_CASE("GroupQueryAttention: Keras's values and gradients, with a sliding window") {
  check<golden::group_query,
        ls::GroupQueryAttention<4, 4, 2, MultiHeadAttentionOptions{.use_causal_mask = true}>,
        Sequence<5, 4>>();
  static constexpr MultiHeadAttentionOptions window{
      .use_bias = false, .use_causal_mask = true, .sliding_window = 3};
  check<golden::group_query_window, ls::GroupQueryAttention<4, 3, 1, window>, Sequence<7, 4>>();
}

TEST_CASE("MultiHeadAttention: rotary positions, groups and a window, as transformers' Mistral") {
  constexpr MultiHeadAttentionOptions options{.use_bias = false,
                                              .use_causal_mask = true,
                                              .sliding_window = 5,
                                              .rope_theta = 100,
                                              .num_key_value_heads = 2};
  check<golden::mistral_attention, MultiHeadAttention<4, 4, options>, Sequence<19, 6>>();
}

TEST_CASE("MultiHeadAttention: a window as long as the sequence changes no bit, rotary or not") {
  static constexpr MultiHeadAttentionOptions all{.use_causal_mask = true, .rope_theta = 10000};
  static constexpr MultiHeadAttentionOptions window{
      .use_causal_mask = true, .sliding_window = 33, .rope_theta = 10000};
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::LayerRig<MultiHeadAttention<2, 4, all>, Sequence<33, 6>, float> a(2);
    lockstep_test::LayerRig<MultiHeadAttention<2, 4, window>, Sequence<33, 6>, float> b(2);
    a.forward();
    b.forward();
    a.backward();
    b.backward();
    CHECK(std::equal(a.y.begin(), a.y.end(), b.y.begin()));
    CHECK(std::equal(a.dx.begin(), a.dx.end(), b.dx.begin()));
  });
}

TEST_CASE("MultiHeadAttention: gradients") {
  using Wide =
      MultiHeadAttention<1, 4,
                         MultiHeadAttentionOptions{
                             .use_bias = false, .use_causal_mask = true, .output_shape = 5}>;
  static constexpr MultiHeadAttentionOptions llama{.dropout = 0.2,
                                                   .use_causal_mask = true,
                                                   .sliding_window = 4,
                                                   .rope_theta = 10,
                                                   .num_key_value_heads = 2};
  using Dropping =
      MultiHeadAttention<2, 2, MultiHeadAttentionOptions{.dropout = 0.4, .use_causal_mask = true}>;
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<MultiHeadAttention<2, 3, plain>,
                                                   Sequence<5, 4>>();
    lockstep_test::check_gradients<MultiHeadAttention<2, 3, causal>, Sequence<1, 4>>(3);
    lockstep_test::check_gradients<MultiHeadAttention<2, 3, causal>, Sequence<17, 4>>(2);
    lockstep_test::check_gradients<Wide, Sequence<48, 3>>(2);
    lockstep_test::check_gradients<Dropping, Sequence<16, 4>>(3);
    lockstep_test::check_gradients_for_all_batches<MultiHeadAttention<4, 2, llama>,
                                                   Sequence<5, 6>>();
    lockstep_test::check_gradients<MultiHeadAttention<4, 2, llama>, Sequence<35, 3>>(2);
  });
}

TEST_CASE("MultiHeadAttention: Keras's values and gradients, with masks and causal") {
  check<golden::attention_plain, MultiHeadAttention<2, 3, plain>, Sequence<5, 4>>();
  check<golden::attention_masked, MultiHeadAttention<2, 3, plain>, Sequence<5, 4>>();
  check<golden::attention_masked_causal, MultiHeadAttention<2, 3, causal>, Sequence<5, 4>>();
}

TEST_CASE(
    "MultiHeadAttention: without biases; Keras's other output shape, PyTorch's "
    "scaled_dot_product_attention") {
  constexpr MultiHeadAttentionOptions options{.use_bias = false, .use_causal_mask = true};
  constexpr MultiHeadAttentionOptions wider{
      .use_bias = false, .use_causal_mask = true, .output_shape = 5};
  check<golden::attention_output_shape, MultiHeadAttention<1, 2, wider>, Sequence<3, 4>>();
  check<golden::attention_torch, MultiHeadAttention<2, 2, options>, Sequence<17, 4>>();
}

TEST_CASE("MultiHeadAttention: the correctness test of Keras") {
  // 8 heads that see the identity as queries and keys, and 0 ... 63 / 100 as values: here both are
  // parts of a token.
  using L = MultiHeadAttention<8, 8, MultiHeadAttentionOptions{.output_shape = 8}>;
  lockstep_test::LayerRig<L, Sequence<8, 16>, float> rig(1);
  for (const auto& weights : rig.weights) std::fill(weights.begin(), weights.end(), 0.0F);
  for (std::size_t t = 0; t < 8; ++t)
    for (std::size_t f = 0; f < 8; ++f) {
      rig.x[f * rig.stride + t] = f == t ? 1.0F : 0.0F;
      rig.x[(8 + f) * rig.stride + t] = static_cast<float>(8 * t + f) / 100;
    }
  for (std::size_t head = 0; head < 8; ++head)
    for (std::size_t i = 0; i < 8; ++i) {
      rig.weights[0][(i * 8 + head) * 8 + i] = 1;        // query
      rig.weights[2][(i * 8 + head) * 8 + i] = 1;        // key
      rig.weights[4][((8 + i) * 8 + head) * 8 + i] = 1;  // value
      rig.weights[6][(head * 8 + i) * 8 + head] = 1;     // attention_output
    }
  rig.forward();
  const float expected[] = {2.406F, 2.440F, 2.473F, 2.504F, 2.535F, 2.568F, 2.602F, 2.633F};
  for (std::size_t t = 0; t < 8; ++t)
    for (std::size_t f = 0; f < 8; ++f)
      CHECK(std::abs(rig.y[f * rig.stride + t] - expected[t]) < 1e-2F);
}

TEST_CASE("MultiHeadAttention: with dropout 1 the bias of the output is all that is left" *
          doctest::test_suite("Keras: numerics")) {
  using L = MultiHeadAttention<2, 2, MultiHeadAttentionOptions{.dropout = 1}>;
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::LayerRig<L, Sequence<6, 4>, float> rig(3);
    rig.forward();
    for (std::size_t f = 0; f < 4; ++f)
      for (std::size_t row = 0; row < 18; ++row)
        CHECK(rig.y[f * rig.out_stride + row] == rig.weights[7][f]);
    rig.backward();
    for (const std::size_t kernel : {0u, 2u, 4u, 6u})
      for (const float gradient : rig.gradients[kernel]) CHECK(gradient == 0);
    for (const float dx : rig.dx) CHECK(dx == 0);
  });
}

TEST_CASE("MultiHeadAttention: dropout depends on the sample's index, and is off in inference") {
  using L = MultiHeadAttention<2, 2, MultiHeadAttentionOptions{.dropout = 0.5}>;
  using In = Sequence<6, 4>;
  lockstep_test::LayerRig<L, In, float> two(2), other(1);
  for (std::size_t f = 0; f < 4; ++f)
    for (std::size_t t = 0; t < 6; ++t)
      other.x[f * other.stride + t] = two.x[f * two.stride + 6 + t];
  other.sample_indices[0] = 1;  // the second one of `two`
  const auto equal = [&] {
    two.forward();
    other.forward();
    bool same = true;
    for (std::size_t f = 0; f < 4; ++f)
      for (std::size_t t = 0; t < 6; ++t)
        same = same && other.y[f * other.stride + t] == two.y[f * two.stride + 6 + t];
    return same;
  };
  CHECK(equal());
  other.sample_indices[0] = 2;
  CHECK(!equal());
  two.context.training = other.context.training = false;
  CHECK(equal());
}
