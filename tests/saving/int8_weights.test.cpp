// What Int8Weights makes of trained networks. (Its numbers are in kernels/int8.test.cpp.)
#include "lockstep/saving/int8_weights.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "lockstep/data/tensor.hpp"
#include "lockstep/datasets/synthetic_digits.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/lora.hpp"
#include "lockstep/network/mixed_precision.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/tied_head.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/saving/generator.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/saving/predictor.hpp"
#include "lockstep/step/compiled.hpp"
#include "support/instruction_sets.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

// The tutorial's network, and one of dense layers.
using Cnn = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 1>, ls::Conv2D<32, 3, ls::ReLU>,
                           ls::Flatten, ls::Dense<128, ls::ReLU>, ls::Dense<10>>;
using Mlp = ls::Sequential<ls::Input<28, 28>, ls::Flatten, ls::Dense<64, ls::ReLU>,
                           ls::Dense<33, ls::ReLU>, ls::Dense<10>>;

constexpr std::size_t positions = 16, vocabulary = 11;
using Norm = ls::LayerNormalization<>;
constexpr ls::MultiHeadAttentionOptions causal{.use_causal_mask = true};
using Block = ls::Sequential<ls::Residual<Norm, ls::MultiHeadAttention<2, 16, causal>>,
                             ls::Residual<Norm, ls::Dense<64, ls::GELU>, ls::Dense<32>>>;
using Gpt = ls::Sequential<ls::Input<positions>, ls::Embedding<vocabulary, 32>,
                           ls::PositionEmbedding<positions>, ls::Repeat<2, Block>, Norm,
                           ls::Dense<vocabulary>>;
using TiedGpt =
    ls::Sequential<ls::Input<positions>,
                   ls::TiedHead<ls::Embedding<vocabulary, 32>, ls::PositionEmbedding<positions>,
                                ls::Repeat<2, Block>, Norm>>;

const ls::SparseCategoricalCrossentropy loss{.from_logits = true};

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The part of the rows, of `classes` scores each, whose largest score is the label's.
double accuracy(const Rows& scores, const std::vector<std::int64_t>& labels, Eigen::Index classes) {
  std::size_t right = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const float* const row = scores.data() + static_cast<Eigen::Index>(i) * classes;
    right += std::max_element(row, row + classes) - row == labels[i] ? 1U : 0U;
  }
  return static_cast<double>(right) / static_cast<double>(labels.size());
}

/// exp of the mean crossentropy.
double perplexity(const Rows& scores, const std::vector<std::int64_t>& labels,
                  Eigen::Index classes) {
  double sum = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const float* const row = scores.data() + static_cast<Eigen::Index>(i) * classes;
    double all = 0;
    for (Eigen::Index k = 0; k < classes; ++k) all += std::exp(static_cast<double>(row[k]));
    sum += std::log(all) - static_cast<double>(row[labels[i]]);
  }
  return std::exp(sum / static_cast<double>(labels.size()));
}

double distance(const Rows& a, const Rows& b) { return (a - b).norm() / b.norm(); }

std::vector<float> values_of(const Rows& rows) { return {rows.data(), rows.data() + rows.size()}; }

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(i * 37 % 101) / 50.0F - 1.0F;
  return values;
}

}  // namespace

TEST_CASE_TEMPLATE("Int8Weights: digits are told as well as in float, within half a per cent", Net,
                   Cnn, Mlp) {
  const auto [train, test] = ls::make_synthetic_digits({.train = 2000, .test = 1000});
  auto model = ls::compile<Net>({.seed = 1}, loss, ls::Adam{});
  model.fit(train.images / 255.0F, train.labels, {.epochs = 2, .verbose = 0});
  const std::vector<std::int64_t> labels(test.labels.values().begin(), test.labels.values().end());
  const Rows whole = model.predict(test.images / 255.0F);
  const Rows rounded = ls::Predictor<Net, ls::Int8Weights>(model).predict(test.images / 255.0F);
  const double expected = accuracy(whole, labels, 10);
  CHECK(expected > 0.8);
  CHECK(accuracy(rounded, labels, 10) > expected - 0.005);
  CHECK(distance(rounded, whole) > 0);
  CHECK(distance(rounded, whole) < 0.02);
}

TEST_CASE_TEMPLATE("Int8Weights: a small GPT writes as in float, in one pass and token by token",
                   Net, Gpt, TiedGpt) {
  // Each text counts up, by a step that differs from text to text.
  const auto texts = [](std::size_t count) {
    std::vector<float> ids(count * positions);
    std::vector<std::int64_t> next(count * positions);
    for (std::size_t text = 0; text < count; ++text)
      for (std::size_t t = 0; t < positions; ++t) {
        const std::size_t step = 1 + text % 5, first = text * 7 % vocabulary;
        ids[text * positions + t] = static_cast<float>((first + t * step) % vocabulary);
        next[text * positions + t] =
            static_cast<std::int64_t>((first + (t + 1) * step) % vocabulary);
      }
    return std::pair(std::move(ids), std::move(next));
  };
  const auto [ids, next] = texts(55);
  auto model = ls::compile<Net>({.seed = 1}, loss, ls::Adam{.learning_rate = 0.005});
  const ls::Tensor<float> x(ids, {55, positions});
  model.fit(x, ls::Tensor<std::int64_t>(next, {55, positions}),
            {.batch_size = 11, .epochs = 80, .verbose = 0});
  const Rows whole = model.predict(x);
  const double expected = accuracy(whole, next, vocabulary);
  CHECK(expected > 0.8);
  const ls::Predictor<Net, ls::Int8Weights> net(model);
  const Rows rounded = net.predict(x);
  CHECK(accuracy(rounded, next, vocabulary) > expected - 0.005);
  CHECK(perplexity(rounded, next, vocabulary) < 1.005 * perplexity(whole, next, vocabulary));
  CHECK(distance(rounded, whole) > 0);
  CHECK(distance(rounded, whole) < 0.03);

  const ls::Generator<Net, ls::Int8Weights> writer(model);
  std::vector<std::uint32_t> tokens(positions);
  for (std::size_t t = 0; t < positions; ++t) tokens[t] = static_cast<std::uint32_t>(ids[t]);
  auto text = writer.text();
  for (std::size_t t = 0; t < positions; ++t) {
    CAPTURE(t);
    const auto logits = text.append(std::span(tokens).subspan(t, 1));
    // (A row's numbers are rounded alike; what is not int8 differs in the last bits.)
    for (std::size_t id = 0; id < vocabulary; ++id)
      CHECK(logits[id] ==
            doctest::Approx(rounded(0, static_cast<Eigen::Index>(t * vocabulary + id)))
                .epsilon(0.03)
                .scale(5));
  }
  const std::vector<std::uint32_t> prompt(tokens.begin(), tokens.begin() + 6);
  const auto written = writer.generate(prompt, {.max_new_tokens = 5});
  CHECK(written == ls::Generator<Net>(model).generate(prompt, {.max_new_tokens = 5}));
  // Several texts, of which each is what it would be alone.
  CHECK(writer.generate({prompt, {1, 2, 3}, prompt}, {.max_new_tokens = 5}) ==
        std::vector{written,
                    writer.generate(std::vector<std::uint32_t>{1, 2, 3}, {.max_new_tokens = 5}),
                    written});
}

TEST_CASE("Int8Weights: a tied table has the same bits on each instruction set, and is kept once") {
  auto model = ls::compile<TiedGpt>({.seed = 3});
  std::vector<float> ids(3 * positions);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<float>(i * 5 % vocabulary);
  // (All but embedding and head are float, whose bits differ.)
  using Tied = ls::Sequential<ls::Input<positions>,
                              ls::TiedHead<ls::Embedding<vocabulary, 32>, ls::Dense<32>>>;
  auto tied = ls::compile<Tied>({.seed = 3});
  const ls::Tensor<float> x(ids, {3, positions});
  const Rows expected = ls::Predictor<Tied, ls::Int8Weights>(tied).predict(x);
  CHECK(distance(expected, tied.predict(x)) > 0);
  CHECK(distance(expected, tied.predict(x)) < 0.03);
  for_each_instruction_set([&] {
    CHECK(values_of(ls::Predictor<Tied, ls::Int8Weights>(tied).predict(x)) == values_of(expected));
    const std::vector<std::uint32_t> token = {static_cast<std::uint32_t>(ids[0])};
    const ls::Generator<Tied, ls::Int8Weights> writer(tied);
    auto text = writer.text();
    const auto logits = text.append(token);
    CHECK(std::vector<float>(logits.begin(), logits.end()) ==
          std::vector<float>(expected.data(), expected.data() + vocabulary));
  });

  using Program = ls::detail::Compiled<TiedGpt, float, ls::NoLoss, ls::NoOptimizer>;
  const Program program(ls::NoLoss{}, ls::NoOptimizer{}, std::tuple<>());
  const TemporaryFolder folder;
  model.save_weights(folder.path("net.npz"));
  ls::LoadedWeights loaded;
  const ls::detail::ConstantVariables<float> rounded =
      ls::detail::int8_variables(program, {program, folder.path("net.npz"), nullptr, loaded});
  CHECK(rounded.memory.size() ==
        16 * (32 + 8) + 2 * (4 * 32 * (32 + 8) + 64 * (32 + 8) + 32 * (64 + 8)));
}

TEST_CASE(
    "Int8Weights: the same bits on each instruction set, and however many samples there are") {
  auto model = ls::compile<Mlp>({.seed = 3});
  const std::vector<float> x = numbers(70 * 784);
  const ls::Tensor<float> all(x, {70, 28, 28});
  const Rows expected = ls::Predictor<Mlp, ls::Int8Weights>(model).predict(all);
  for_each_instruction_set([&] {
    const ls::Predictor<Mlp, ls::Int8Weights> net(model);
    CHECK(values_of(net.predict(all)) == values_of(expected));
    for (const std::size_t count : {1U, 3U, 4U, 5U, 65U}) {
      CAPTURE(count);
      std::vector<float> y(count * 10);
      net.predict(std::span(x).first(count * 784), y);
      CHECK(y == std::vector<float>(expected.data(), expected.data() + count * 10));
    }
  });
}

TEST_CASE("Int8Weights: kernels take a quarter of their memory, and the others are copied") {
  using Program = ls::detail::Compiled<Mlp, float, ls::NoLoss, ls::NoOptimizer>;
  const Program program(ls::NoLoss{}, ls::NoOptimizer{}, std::tuple<>());
  auto model = ls::compile<Mlp>({.seed = 3});
  auto weights = model.get_weights();
  for (auto& weight : weights)
    if (weight.name.ends_with("bias")) std::ranges::fill(weight.values, 0.5F);
  model.set_weights(weights);
  const TemporaryFolder folder;
  model.save_weights(folder.path("net.npz"));
  ls::LoadedWeights loaded;
  const ls::detail::ConstantVariables<float> rounded =
      ls::detail::int8_variables(program, {program, folder.path("net.npz"), nullptr, loaded});
  // Units and inputs are filled up to 16 and 32; two numbers for each unit.
  CHECK(rounded.memory.size() == 64 * (800 + 8) + 48 * (64 + 8) + 16 * (64 + 8));
  CHECK(rounded.parameters.values().size() == 64 + 48 + 16);  // biases
  CHECK(rounded.weights()[1][63] == 0.5F);
  CHECK(rounded.weights()[3].size() == 33);
}

TEST_CASE("Int8Weights: from each kind of file, with options, and from what is frozen") {
  using Body = ls::Sequential<ls::Dense<40, ls::ReLU>, ls::Dense<36>>;
  using Net =
      ls::Sequential<ls::Input<50>, ls::Frozen<Body>, ls::LoRA<ls::Dense<35>, 2>, ls::Dense<3>>;
  auto model = ls::compile<Net>({.seed = 4});
  const TemporaryFolder folder;
  const ls::Tensor<float> x(numbers(9 * 50), {9, 50});
  const Rows whole = model.predict(x);
  const Rows expected = ls::Predictor<Net, ls::Int8Weights>(model).predict(x);
  CHECK(distance(expected, whole) > 0);
  CHECK(distance(expected, whole) < 0.03);
  for (const char* const name : {"weights", "weights.npz", "weights.safetensors"}) {
    CAPTURE(name);
    model.save_weights(folder.path(name));
    CHECK(values_of(ls::Predictor<Net, ls::Int8Weights>(folder.path(name)).predict(x)) ==
          values_of(expected));
  }
  const ls::Predictor<Net, ls::Int8Weights> by_name(folder.path("weights.npz"), {.by_name = true});
  CHECK(values_of(by_name.predict(x)) == values_of(expected));
  CHECK(by_name.loaded().missing.empty());
}

TEST_CASE("Int8Weights: threads call one object at once, and one of floats beside it") {
  auto model = ls::compile<Mlp>({.seed = 3});
  const ls::Predictor<Mlp, ls::Int8Weights> rounded(model);
  const ls::Predictor<Mlp> whole(model);
  constexpr std::size_t count = 8;
  std::array<std::vector<float>, count> x;
  std::array<int, count> wrong{};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < count; ++i)
      threads.emplace_back([&, i] {
        x[i] = numbers((i * 9 + 1) * 784);
        for (float& value : x[i]) value += static_cast<float>(i);
        std::vector<float> first((i * 9 + 1) * 10), exact(first.size()), y(first.size());
        rounded.predict(x[i], first);
        whole.predict(x[i], exact);
        for (int call = 0; call < 20; ++call) {
          rounded.predict(x[i], y);
          wrong[i] += y == first && y != exact ? 0 : 1;
          whole.predict(x[i], y);
          wrong[i] += y == exact ? 0 : 1;
        }
      });
  }
  CHECK(wrong == std::array<int, count>{});
}

TEST_CASE("Predictor<Net, MixedBFloat16>: the outputs of a model that is compiled with it") {
  auto model = ls::compile<Mlp, ls::MixedBFloat16>({.seed = 3});
  const ls::Tensor<float> x(numbers(20 * 784), {20, 28, 28});
  const Rows expected = model.predict(x);
  CHECK(values_of(ls::Predictor<Mlp, ls::MixedBFloat16>(model).predict(x)) == values_of(expected));
  const TemporaryFolder folder;
  model.save_weights(folder.path("net.npz"));
  const ls::Predictor<Mlp, ls::MixedBFloat16> net(folder.path("net.npz"));
  CHECK(values_of(net.predict(x)) == values_of(expected));
  CHECK(distance(expected, ls::Predictor<Mlp>(folder.path("net.npz")).predict(x)) < 0.02);
  CHECK(values_of(ls::Predictor(model).predict(x)) == values_of(expected));
}
