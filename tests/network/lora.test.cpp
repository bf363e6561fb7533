#include "lockstep/network/lora.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Names = std::vector<std::string>;
constexpr ls::DenseOptions without_bias{.use_bias = false};
constexpr ls::MultiHeadAttentionOptions llama{.use_bias = false,
                                              .use_causal_mask = true,
                                              .sliding_window = 4,
                                              .rope_theta = 10,
                                              .num_key_value_heads = 1};
template <class A, class B, class C>
using Flat = ls::Sequential<ls::Input<5>, A, B, C>;
using Plain = Flat<ls::Dense<4, ls::Tanh>, ls::Dense<6, ls::GELU>, ls::Dense<3>>;
using Tuned = Flat<ls::LoRA<ls::Dense<4, ls::Tanh>, 2>, ls::LoRA<ls::Dense<6, ls::GELU>, 3>,
                   ls::LoRA<ls::Dense<3, ls::Linear, without_bias>, 1>>;
template <class Attention>
using Tokens = ls::Sequential<ls::Input<7, 4>, ls::ToSequence, Attention>;

}  // namespace

TEST_CASE("LoRA: factors are trained, the layer's variables keep their names and stay") {
  using In = ls::Shape<5>;
  CHECK(Tuned::variable_names<In>() == Names{"dense/lora_kernel_a", "dense/lora_kernel_b",
                                             "dense_1/lora_kernel_a", "dense_1/lora_kernel_b",
                                             "dense_2/lora_kernel_a", "dense_2/lora_kernel_b"});
  CHECK(Tuned::state_variable_names<In>() ==
        Names{"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias", "dense_2/kernel"});
  CHECK(Tuned::parameter_count == 2 * (5 + 4) + 3 * (4 + 6) + (6 + 3));
  for (const ls::Variable& variable : Tuned::state_variables<In>) CHECK(variable.is_constant);
  NetRunner<Tuned> net;
  std::vector<std::vector<double>> before;
  for (const auto slice : net.workspace().state().slices())
    before.emplace_back(slice.begin(), slice.end());
  net.run(6);
  std::size_t i = 0;
  for (const auto slice : net.workspace().state().slices())
    CHECK(std::vector<double>(slice.begin(), slice.end()) == before[i++]);
  // (Only factors are reduced: the status block alone is added to them.)
  CHECK(net.workspace().pack_status().size() == net.workspace().status().values().size());
}

TEST_CASE("LoRA: Dense computes as one with the kernel W + A B") {
  NetRunner<Tuned> tuned;
  NetRunner<Plain> plain;
  const auto factors = tuned.parameter_slices(), weights = plain.parameter_slices();
  const auto state = tuned.workspace().state().slices();
  for (std::size_t layer = 0; layer < 3; ++layer) {
    const auto a = factors[2 * layer], b = factors[2 * layer + 1];
    const std::size_t rank = layer == 0 ? 2 : layer == 1 ? 3 : 1, units = b.size() / rank;
    for (std::size_t i = 0; i < weights[2 * layer].size(); ++i) {
      weights[2 * layer][i] = state[2 * layer][i];
      for (std::size_t r = 0; r < rank; ++r)
        weights[2 * layer][i] += a[i / units * rank + r] * b[r * units + i % units];
    }
    std::fill(weights[2 * layer + 1].begin(), weights[2 * layer + 1].end(), 0.0);
    if (layer < 2)
      std::copy(state[2 * layer + 1].begin(), state[2 * layer + 1].end(),
                weights[2 * layer + 1].begin());
  }
  tuned.run(5);
  plain.run(5);
  const auto y = tuned.outputs(), expected = plain.outputs();
  REQUIRE(y.size() == expected.size());
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::abs(y[i] - expected[i]) < 1e-12);
}

TEST_CASE("LoRA: gradients") {
  check_gradients<Tuned>(7);
  check_gradients<Tokens<ls::LoRA<ls::MultiHeadAttention<2, 3>, 2>>>(3);
  check_gradients<Tokens<ls::LoRA<ls::MultiHeadAttention<2, 4, llama>, 3>>>(2);
}

TEST_CASE("LoRA: attention with factors of zero has the bits of the layer alone") {
  using Attention = ls::GroupQueryAttention<4, 2, 1, llama>;
  NetRunner<Tokens<Attention>, float> plain;
  NetRunner<Tokens<ls::LoRA<Attention, 2>>, float> tuned;
  using In = ls::Shape<7, 4>;
  CHECK(Tokens<ls::LoRA<Attention, 2>>::variable_names<In>() ==
        Names{"grouped_query_attention/query/lora_kernel_a",
              "grouped_query_attention/query/lora_kernel_b",
              "grouped_query_attention/value/lora_kernel_a",
              "grouped_query_attention/value/lora_kernel_b"});
  const auto state = tuned.workspace().state().slices();
  for (std::size_t i = 0; i < state.size(); ++i)
    std::copy(state[i].begin(), state[i].end(), plain.parameter_slices()[i].begin());
  for (const std::size_t b : {1u, 3u})
    std::fill(tuned.parameter_slices()[b].begin(), tuned.parameter_slices()[b].end(), 0.0F);
  plain.run(3);
  tuned.run(3);
  CHECK(tuned.outputs() == plain.outputs());
}
