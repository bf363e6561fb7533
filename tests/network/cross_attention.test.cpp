#include "lockstep/network/cross_attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "golden/attention.hpp"
#include "golden/attention_keys.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"
#include "support/layer_rig.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using ls::Sequence;
using ls::Shape;

namespace {

/// Positions of a sequence from `First` on, as many as Count, of which those are masked whose first
/// number is 0.
template <std::size_t First, std::size_t Count, std::size_t Width>
struct Part {
  static constexpr std::string_view name = "part";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = false;
  template <class In>
  using Output = Sequence<Count, Width>;
  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return samples * Count;
  }
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    each<In>(pass.x.samples(), [&](std::size_t from, std::size_t to) {
      for (std::size_t f = 0; f < Width; ++f) pass.y(to, f) = pass.x(from, f);
      pass.scratch[to] = pass.x(from, Width) > T(0) ? T(1) : T(0);
    });
    pass.set_mask(pass.scratch.data());
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    std::fill_n(pass.dx.data(), pass.dx.features() * pass.dx.stride(), T(0));
    each<In>(pass.x.samples(), [&](std::size_t from, std::size_t to) {
      for (std::size_t f = 0; f < Width; ++f) pass.dx(from, f) = pass.dy(to, f);
    });
  }

 private:
  template <class In, class F>
  static void each(std::size_t rows, const F& f) {
    for (std::size_t s = 0; s < rows / In::positions; ++s)
      for (std::size_t t = 0; t < Count; ++t) f(s * In::positions + First + t, s * Count + t);
  }
};

constexpr ls::MultiHeadAttentionOptions options{.value_dim = 2};

}  // namespace

TEST_CASE("CrossAttention: shape, variables, gradients") {
  using Queries = ls::Sequential<Part<0, 3, 2>, ls::Dense<4, ls::Tanh>>;
  using L = ls::CrossAttention<2, 3, Queries, Part<3, 5, 4>, options>;
  using In = Sequence<8, 5>;
  static_assert(std::is_same_v<L::Output<In>, Sequence<3, 4>>);
  const auto& variables = L::variables<In>;
  REQUIRE(variables.size() == 10);
  CHECK(variables[1].name == "bias");
  CHECK(variables[2].name == "query/kernel");
  CHECK(variables[4].extents[0] == 4);
  CHECK(L::layers<In>.size() == 3);
  CHECK(L::layer_count == 4);
  lockstep_test::check_gradients_for_all_batches<L, In>();
  // One input for both: self attention.
  lockstep_test::check_gradients<ls::CrossAttention<1, 2, ls::Identity, ls::Dense<3>, options>,
                                 Sequence<4, 3>>(2);
}

namespace {

/// Of L, whose branches are 3 queries and 5 values, each token with its mask behind it.
template <class Golden, class L, std::size_t Width>
void check_golden(std::initializer_list<std::pair<const double*, const double*>> weights) {
  using In = Sequence<8, Width + 1>;
  lockstep_test::LayerRig<L, In, double> rig(2);
  REQUIRE(rig.weights.size() == weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i)
    std::copy_n(std::data(weights)[i].first, rig.weights[i].size(), rig.weights[i].begin());
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::size_t t = 0; t < 3; ++t) {
      for (std::size_t f = 0; f < 4; ++f) {
        rig.x[f * rig.stride + s * 8 + t] = Golden::x[(s * 3 + t) * 4 + f];
        rig.dy[f * rig.out_stride + s * 3 + t] = Golden::dy[(s * 3 + t) * 4 + f];
      }
      rig.x[4 * rig.stride + s * 8 + t] = Golden::mask[s * 3 + t];
    }
    for (std::size_t t = 0; t < 5; ++t) {
      for (std::size_t f = 0; f < Width; ++f)
        rig.x[f * rig.stride + s * 8 + 3 + t] = Golden::m[(s * 5 + t) * Width + f];
      rig.x[Width * rig.stride + s * 8 + 3 + t] = Golden::value_mask[s * 5 + t];
    }
  }
  rig.forward();
  rig.backward();
  double worst = 0;
  const auto compare = [&](double a, double b) { worst = std::max(worst, std::abs(a - b)); };
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::size_t t = 0; t < 3; ++t)
      for (std::size_t f = 0; f < 4; ++f) {
        compare(rig.y[f * rig.out_stride + s * 3 + t], Golden::y[(s * 3 + t) * 4 + f]);
        compare(rig.dx[f * rig.stride + s * 8 + t], Golden::dx[(s * 3 + t) * 4 + f]);
      }
    for (std::size_t t = 0; t < 5; ++t)
      for (std::size_t f = 0; f < Width; ++f)
        compare(rig.dx[f * rig.stride + s * 8 + 3 + t], Golden::dm[(s * 5 + t) * Width + f]);
  }
  for (std::size_t i = 0; i < weights.size(); ++i)
    for (std::size_t k = 0; k < rig.gradients[i].size(); ++k)
      compare(rig.gradients[i][k], std::data(weights)[i].second[k]);
  CHECK(worst < 2e-7);
}

using Queries4 = Part<0, 3, 4>;
using Values4 = Part<3, 5, 4>;

/// Of Attention or AdditiveAttention; weights stand one after the other.
template <class Golden, class L>
void check_plain() {
  if constexpr (Golden::weights == 0)
    check_golden<Golden, L, 4>({});
  else if constexpr (Golden::weights == 1)
    check_golden<Golden, L, 4>({{Golden::weight, Golden::weight_gradient}});
  else
    check_golden<Golden, L, 4>({{Golden::weight, Golden::weight_gradient},
                                {Golden::weight + 1, Golden::weight_gradient + 1}});
}

}  // namespace

TEST_CASE("CrossAttention: Keras's values and gradients") {
  using Golden = lockstep_test::golden::attention_cross;
  check_golden<Golden, ls::CrossAttention<2, 3, Queries4, Part<3, 5, 6>, options>, 6>(
      {{Golden::query_kernel, Golden::query_kernel_gradient},
       {Golden::query_bias, Golden::query_bias_gradient},
       {Golden::key_kernel, Golden::key_kernel_gradient},
       {Golden::key_bias, Golden::key_bias_gradient},
       {Golden::value_kernel, Golden::value_kernel_gradient},
       {Golden::value_bias, Golden::value_bias_gradient},
       {Golden::attention_output_kernel, Golden::attention_output_kernel_gradient},
       {Golden::attention_output_bias, Golden::attention_output_bias_gradient}});
}

TEST_CASE("Attention and AdditiveAttention: Keras's values and gradients") {
  namespace golden = lockstep_test::golden;
  using ls::AdditiveAttention;
  using ls::AdditiveAttentionOptions;
  using ls::Attention;
  using ls::AttentionOptions;
  using ls::ScoreMode;
  lockstep_test::for_each_instruction_set([] {
    check_plain<golden::attention_dot, Attention<Queries4, Values4>>();
    check_plain<golden::attention_dot_scaled,
                Attention<Queries4, Values4,
                          AttentionOptions{.use_scale = true, .use_causal_mask = true}>>();
    check_plain<
        golden::attention_concat,
        Attention<Queries4, Values4,
                  AttentionOptions{.score_mode = ScoreMode::concat, .use_causal_mask = true}>>();
    check_plain<golden::attention_concat_scaled,
                Attention<Queries4, Values4,
                          AttentionOptions{.use_scale = true, .score_mode = ScoreMode::concat}>>();
    check_plain<golden::attention_additive, AdditiveAttention<Queries4, Values4>>();
    check_plain<
        golden::attention_additive_plain,
        AdditiveAttention<Queries4, Values4,
                          AdditiveAttentionOptions{.use_scale = false, .use_causal_mask = true}>>();
  });
}

TEST_CASE("Attention and AdditiveAttention: shape, variables, gradients, dropout") {
  using Queries = ls::Sequential<Part<0, 3, 2>, ls::Dense<4, ls::Tanh>>;
  constexpr ls::AttentionOptions concat{
      .use_scale = true, .score_mode = ls::ScoreMode::concat, .dropout = 0.4};
  using L = ls::Attention<Queries, Values4, concat>;
  using In = Sequence<8, 5>;
  static_assert(std::is_same_v<L::Output<In>, Sequence<3, 4>>);
  static_assert(L::variables<In>[2].name == "scale" &&
                L::variables<In>[3].name == "concat_score_weight" && L::variables<In>[3].rank == 0);
  lockstep_test::check_gradients_for_all_batches<L, In>();
  constexpr ls::AdditiveAttentionOptions dropped{.dropout = 0.4};
  lockstep_test::check_gradients_for_all_batches<ls::AdditiveAttention<Queries, Values4, dropped>,
                                                 In>();
  constexpr ls::AttentionOptions scaled{.use_scale = true};
  lockstep_test::check_gradients_for_all_batches<ls::Attention<Queries, Values4, scaled>, In>();
  // Sequences above 256 keep two numbers for each query.
  using Long = ls::AdditiveAttention<ls::Identity, ls::Dense<1>>;
  lockstep_test::check_gradients<Long, Sequence<260, 1>>(1);
}

namespace {

/// Of Attention or AdditiveAttention with 3 queries, 5 values and 5 keys.
template <class Golden, class L>
void check_three() {
  using In = Sequence<13, 5>;
  lockstep_test::LayerRig<L, In, double> rig(2);
  REQUIRE(rig.weights.size() == Golden::weights);
  for (std::size_t i = 0; i < rig.weights.size(); ++i)  // one number each, or one array
    std::copy_n(Golden::weight + i, rig.weights[i].size(), rig.weights[i].begin());
  double worst = 0;
  const auto compare = [&](double a, double b) { worst = std::max(worst, std::abs(a - b)); };
  const auto each = [&](std::size_t first, std::size_t count, std::size_t width, const auto& f) {
    for (std::size_t s = 0; s < 2; ++s)
      for (std::size_t t = 0; t < count; ++t)
        for (std::size_t i = 0; i < width; ++i)
          f((s * count + t) * width + i, i * rig.stride + s * 13 + first + t);
  };
  each(0, 3, 4, [&](std::size_t from, std::size_t to) { rig.x[to] = Golden::query[from]; });
  each(3, 5, 2, [&](std::size_t from, std::size_t to) { rig.x[to] = Golden::value[from]; });
  each(8, 5, 4, [&](std::size_t from, std::size_t to) { rig.x[to] = Golden::key[from]; });
  for (std::size_t s = 0; s < 2; ++s) {  // behind each token
    for (std::size_t t = 0; t < 3; ++t)
      rig.x[4 * rig.stride + s * 13 + t] = Golden::mask[s * 3 + t];
    for (std::size_t t = 0; t < 5; ++t) {
      rig.x[2 * rig.stride + s * 13 + 3 + t] = Golden::value_mask[s * 5 + t];
      rig.x[4 * rig.stride + s * 13 + 8 + t] = 0;  // the keys' has no effect
    }
    for (std::size_t t = 0; t < 3; ++t)
      for (std::size_t f = 0; f < 2; ++f)
        rig.dy[f * rig.out_stride + s * 3 + t] = Golden::dy[(s * 3 + t) * 2 + f];
  }
  rig.forward();
  rig.backward();
  for (std::size_t s = 0; s < 2; ++s)
    for (std::size_t t = 0; t < 3; ++t)
      for (std::size_t f = 0; f < 2; ++f)
        compare(rig.y[f * rig.out_stride + s * 3 + t], Golden::y[(s * 3 + t) * 2 + f]);
  each(0, 3, 4,
       [&](std::size_t from, std::size_t to) { compare(rig.dx[to], Golden::dquery[from]); });
  each(3, 5, 2,
       [&](std::size_t from, std::size_t to) { compare(rig.dx[to], Golden::dvalue[from]); });
  each(8, 5, 4, [&](std::size_t from, std::size_t to) { compare(rig.dx[to], Golden::dkey[from]); });
  for (std::size_t i = 0; i < rig.gradients.size(); ++i)
    for (std::size_t k = 0; k < rig.gradients[i].size(); ++k)
      compare(rig.gradients[i][k], Golden::weight_gradient[i + k]);
  CHECK(worst < 2e-7);
}

}  // namespace

TEST_CASE("Attention and AdditiveAttention with keys: Keras's values and gradients") {
  namespace golden = lockstep_test::golden;
  using Three = ls::ValueAndKey<Part<3, 5, 2>, Part<8, 5, 4>>;
  lockstep_test::for_each_instruction_set([] {
    check_three<golden::attention_keys_dot,
                ls::Attention<Queries4, Three, ls::AttentionOptions{.use_scale = true}>>();
    check_three<golden::attention_keys_concat,
                ls::Attention<Queries4, Three,
                              ls::AttentionOptions{.use_scale = true,
                                                   .score_mode = ls::ScoreMode::concat,
                                                   .use_causal_mask = true}>>();
    check_three<golden::attention_keys_additive, ls::AdditiveAttention<Queries4, Three>>();
  });
}

TEST_CASE("Attention and AdditiveAttention with keys: shape, variables, gradients") {
  using Queries = ls::Sequential<Part<0, 3, 2>, ls::Dense<4, ls::Tanh>>;
  using Three = ls::ValueAndKey<ls::Sequential<Part<3, 5, 4>, ls::Dense<3>>,
                                ls::Sequential<Part<3, 5, 2>, ls::Dense<4>>>;
  using In = Sequence<8, 5>;
  constexpr ls::AttentionOptions scaled{.use_scale = true, .dropout = 0.4};
  using L = ls::Attention<Queries, Three, scaled>;
  static_assert(std::is_same_v<L::Output<In>, Sequence<3, 3>>);
  static_assert(L::variables<In>.size() == 7 && L::variables<In>[6].name == "scale");
  lockstep_test::check_gradients_for_all_batches<L, In>();
  lockstep_test::check_gradients_for_all_batches<ls::AdditiveAttention<Queries, Three>, In>();
  // Keys that are the values are the values.
  constexpr ls::AttentionOptions without{.use_scale = true};  // (Layers have other random numbers.)
  using Twice = ls::Attention<ls::Identity, ls::ValueAndKey<ls::Identity, ls::Identity>, without>;
  using Once = ls::Attention<ls::Identity, ls::Identity, without>;
  lockstep_test::LayerRig<Twice, Sequence<4, 3>, double> twice(2);
  lockstep_test::LayerRig<Once, Sequence<4, 3>, double> once(2);
  twice.weights[0][0] = once.weights[0][0] = 0.7;
  twice.forward();
  once.forward();
  twice.backward();
  once.backward();
  for (std::size_t f = 0; f < 3; ++f)
    for (std::size_t row = 0; row < 8; ++row) {
      CHECK(twice.y[f * 16 + row] == once.y[f * 16 + row]);
      CHECK(twice.dx[f * 16 + row] == doctest::Approx(once.dx[f * 16 + row]).epsilon(1e-12));
    }
  CHECK(twice.gradients[0][0] == doctest::Approx(once.gradients[0][0]).epsilon(1e-12));
}

TEST_CASE("CrossAttention: the outputs of its branches are shown, and its own") {
  using Net = ls::Sequential<
      ls::Input<4, 3>, ls::ToSequence,
      ls::CrossAttention<1, 2, ls::Sequential<ls::Dense<3>, ls::Dense<2>>, ls::Identity>>;
  lockstep_test::NetRunner<Net> net;
  net.run(2);
  std::vector<std::size_t> positions;
  net.workspace().each_output([&](std::size_t position, const ls::TensorView<const double>& y) {
    positions.push_back(position);
    if (position == Net::layer_count - 1) CHECK(y.data() == net.workspace().predictions().data());
  });
  CHECK(positions == std::vector<std::size_t>{1, 2, 3, 5});
}
