// A small GPT: ten training steps against PyTorch's, and the sizes of the models that it is named
// for.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "golden/gpt.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/tied_head.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/one_device.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::gpt;

namespace {

constexpr ls::LayerNormalizationOptions norm_options(bool biases) {
  return {.epsilon = 1e-5, .center = biases};
}

template <std::size_t Vocabulary, std::size_t Context, std::size_t Positions, std::size_t Width,
          std::size_t Heads, std::size_t Layers, class Activation, bool Biases>
struct Gpt {
  using Norm = ls::LayerNormalization<norm_options(Biases)>;
  using Attention = ls::MultiHeadAttention<Heads, Width / Heads,
                                           ls::MultiHeadAttentionOptions{.use_bias = Biases,
                                                                         .use_causal_mask = true}>;
  using Expand = ls::Dense<4 * Width, Activation, ls::DenseOptions{.use_bias = Biases}>;
  using Contract = ls::Dense<Width, ls::Linear, ls::DenseOptions{.use_bias = Biases}>;
  using Block = ls::Sequential<ls::Residual<Norm, Attention>, ls::Residual<Norm, Expand, Contract>>;
  using Type =
      ls::Sequential<ls::Input<Positions>,
                     ls::TiedHead<ls::Embedding<Vocabulary, Width>, ls::PositionEmbedding<Context>,
                                  ls::Repeat<Layers, Block>, Norm>>;
};

using Gpt2Small = Gpt<50'257, 1024, 64, 768, 12, 12, ls::GELUTanh, true>::Type;
static_assert(Gpt2Small::parameter_count == 124'439'808);
using CharacterGpt = Gpt<65, 64, 64, 128, 4, 4, ls::GELU, false>::Type;
static_assert(CharacterGpt::parameter_count == 804'096);

constexpr std::size_t vocabulary = 13, positions = 8, batch = 6;
using Tiny = Gpt<vocabulary, positions, positions, 16, 2, 2, ls::GELU, false>::Type;

/// As in make_golden_gpt.py.
std::uint32_t hash(std::uint32_t h) {
  h ^= h >> 16;
  h *= 0x85EBCA6B;
  h ^= h >> 13;
  h *= 0xC2B2AE35;
  return h ^ (h >> 16);
}

}  // namespace

TEST_CASE("GPT: ten steps of AdamW equal PyTorch's") {
  ls::OneDeviceStrategy strategy;
  auto model =
      ls::compile<Tiny>(strategy, ls::SparseCategoricalCrossentropy{.from_logits = true},
                        ls::AdamW{.learning_rate = 3e-3,
                                  .weight_decay = 0.1,
                                  .beta_2 = 0.99,
                                  .epsilon = 1e-8,
                                  .global_clipnorm = 0.5,
                                  .exclude_from_weight_decay = ls::fewer_dimensions_than(2)});
  auto weights = model.get_weights();
  std::uint32_t element = 1;
  for (auto& weight : weights)
    for (float& value : weight.values)
      value = (static_cast<float>(hash(element++) >> 8) * 0x1p-24F - 0.5F) * 0.5F +
              (weight.shape.size() == 1 ? 1.0F : 0.0F);
  model.set_weights(weights);
  CHECK(weights[3].name ==
        "tied_head/repeat/sequential/residual/multi_head_attention/query/kernel");
  for (std::size_t step = 0; step < std::size(golden::losses); ++step) {
    Eigen::MatrixXf x(batch, positions), y(batch, positions);
    for (std::size_t i = 0; i < batch * (positions + 1); ++i) {
      const auto row = static_cast<Eigen::Index>(i / (positions + 1)),
                 t = static_cast<Eigen::Index>(i % (positions + 1));
      const auto id = static_cast<float>(
          hash(static_cast<std::uint32_t>(1'000'000 + step * batch * (positions + 1) + i)) %
          vocabulary);
      if (t < static_cast<Eigen::Index>(positions)) x(row, t) = id;
      if (t > 0) y(row, t - 1) = id;
    }
    const ls::History history =
        model.fit(x, y, {.batch_size = batch, .verbose = 0, .shuffle = false});
    CHECK(std::abs(history["loss"].front() - golden::losses[step]) < 1e-5);
  }
  std::vector<float> all;
  for (const auto& weight : model.get_weights())
    all.insert(all.end(), weight.values.begin(), weight.values.end());
  double worst = 0;
  for (std::size_t i = 0; i < std::size(golden::parameters); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(all[7 * i]) - golden::parameters[i]));
  CHECK(worst < 1e-4);
}

TEST_CASE(
    "Embedding: an id that is none ends fit and evaluate with an error that names the sample") {
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Tiny>(strategy, ls::SparseCategoricalCrossentropy{.from_logits = true},
                                 ls::SGD{});
  Eigen::MatrixXf x = Eigen::MatrixXf::Zero(5, positions), y = x;
  x(3, 2) = 13;
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const ls::DataError& error) {
      return error.what();
    }
    return "";
  };
  const std::string expected =
      "Embedding: the id at position 2 of sample 3 is 13; expected a whole number from 0 to 12";
  CHECK(message([&] { model.fit(x, y, {.verbose = 0}); }) == expected);
  CHECK(message([&] { model.evaluate(x, y, {.verbose = 0}); }) == expected);
}
