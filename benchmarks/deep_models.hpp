// The models of compare.sh models, with their batches and optimizers. peers/torch_models.py and
// peers/tensorflow_models.py have the same.
#pragma once

#include <cstddef>
#include <numbers>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/bidirectional.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/recompute.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/tied_head.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"

namespace benchmarks {

namespace ls = lockstep;

// flop() of a model: floating-point operations of the products of one training step, which is
// three times forward, but for the input gradient of a first layer that nothing learns below.

template <class Block>
using Kept = Block;
template <class Block>
using Recomputed = ls::Recompute<Block>;

/// GPT-2's form, with or without biases.
template <std::size_t Vocabulary, std::size_t Positions, std::size_t Context, std::size_t Width,
          std::size_t Heads, std::size_t Layers, bool Bias, template <class> class Blocks = Kept>
struct GptModel {
  static constexpr ls::RandomNormal normal{.stddev = 0.02};
  using Norm =
      ls::LayerNormalization<ls::LayerNormalizationOptions{.epsilon = 1e-5, .center = Bias}>;
  using Attention =
      ls::MultiHeadAttention<Heads, Width / Heads,
                             ls::MultiHeadAttentionOptions{.use_bias = Bias,
                                                           .use_causal_mask = true,
                                                           .kernel_initializer = normal,
                                                           .output_kernel_initializer = normal}>;
  static constexpr ls::DenseOptions dense{.use_bias = Bias, .kernel_initializer = normal};
  // (GPT-2's GELU is that of tanh, nanoGPT's the exact one.)
  using Function = std::conditional_t<Bias, ls::GELUTanh, ls::GELU>;
  using Block = ls::Sequential<ls::Residual<Norm, Attention>,
                               ls::Residual<Norm, ls::Dense<4 * Width, Function, dense>,
                                            ls::Dense<Width, ls::Linear, dense>>>;
  using Tokens =
      ls::Embedding<Vocabulary, Width, ls::EmbeddingOptions{.embeddings_initializer = normal}>;
  using Places =
      ls::PositionEmbedding<Context, ls::PositionEmbeddingOptions{.initializer = normal}>;
  using Net = ls::Sequential<ls::Input<Positions>,
                             ls::TiedHead<Tokens, Places, ls::Repeat<Layers, Blocks<Block>>, Norm>>;
  static constexpr std::size_t classes = Vocabulary, ids = Vocabulary, targets = Positions;

  /// (Of attention, the part at and before each position.)
  static constexpr double flop(std::size_t samples) {
    const double width = Width, tokens = static_cast<double>(samples * Positions);
    const double block = 12 * width * width + width * (Positions + 1);
    return 3 * 2 * tokens * (Layers * block + width * Vocabulary);
  }
};

/// nanoGPT's settings for a CPU.
struct CharGpt : GptModel<65, 64, 64, 128, 4, 4, false> {
  static constexpr std::string_view name = "gpt";
  static constexpr std::size_t batch = 12;
  static constexpr int steps_per_epoch = 20;
  static auto optimizer() {
    return ls::AdamW{.learning_rate = 1e-4,
                     .weight_decay = 0.1,
                     .beta_2 = 0.99,
                     .epsilon = 1e-8,
                     .global_clipnorm = 1.0,
                     .exclude_from_weight_decay = ls::fewer_dimensions_than(2)};
  }
};

/// GPT-2 124M on 4 texts.
template <std::size_t Positions, template <class> class Blocks>
struct Gpt2Of : GptModel<50257, Positions, 1024, 768, 12, 12, true, Blocks> {
  static constexpr std::size_t batch = 4;
  static constexpr int steps_per_epoch = 1;
  static auto optimizer() {
    return ls::AdamW{.learning_rate = 1e-4, .weight_decay = 0.01, .epsilon = 1e-8};
  }
};
/// With the batch of llm.c's tests.
struct Gpt2 : Gpt2Of<64, Kept> {
  static constexpr std::string_view name = "gpt2";
};
/// With its whole context.
template <template <class> class Blocks>
using Gpt2Long = Gpt2Of<1024, Blocks>;

/// ResNet-20 for CIFAR-10.
struct ResNet20 {
  static constexpr std::string_view name = "resnet";
  static constexpr std::size_t batch = 128, classes = 10, ids = 0, targets = 1;
  static constexpr int steps_per_epoch = 4;
  template <std::size_t Filters, std::size_t Kernel = 3, std::size_t Stride = 1>
  using Conv = ls::Conv2D<Filters, Kernel, ls::Linear,
                          ls::Conv2DOptions{
                              .stride = Stride, .padding = ls::Padding::same, .use_bias = false}>;
  using Normalize = ls::BatchNormalization<>;
  using Activate = ls::Activation<ls::ReLU>;
  template <std::size_t Filters>
  using Block =
      ls::Sequential<ls::Residual<Conv<Filters>, Normalize, Activate, Conv<Filters>, Normalize>,
                     Activate>;
  template <std::size_t Filters>
  using Halve = ls::Sequential<ls::Residual<ls::Sequential<Conv<Filters, 3, 2>, Normalize, Activate,
                                                           Conv<Filters>, Normalize>,
                                            ls::Sequential<Conv<Filters, 1, 2>, Normalize>>,
                               Activate>;
  using Net = ls::Sequential<ls::Input<32, 32, 3>, Conv<16>, Normalize, Activate, Block<16>,
                             Block<16>, Block<16>, Halve<32>, Block<32>, Block<32>, Halve<64>,
                             Block<64>, Block<64>, ls::GlobalAveragePooling2D, ls::Dense<10>>;
  static auto optimizer() { return ls::SGD{.learning_rate = 1e-3, .momentum = 0.9}; }

  static constexpr double flop(std::size_t samples) {
    const auto conv = [](double side, double from, double to, double kernel) {
      return 2 * side * side * from * to * kernel * kernel;
    };
    const double first = conv(32, 3, 16, 3);
    const double others = 6 * conv(32, 16, 16, 3) + conv(16, 16, 32, 3) + conv(16, 16, 32, 1) +
                          5 * conv(16, 32, 32, 3) + conv(8, 32, 64, 3) + conv(8, 32, 64, 1) +
                          5 * conv(8, 64, 64, 3) + 2 * 64 * 10;
    return static_cast<double>(samples) * (2 * first + 3 * others);
  }
};

/// The bidirectional LSTM of Keras's example on IMDB.
struct BiLstm {
  static constexpr std::string_view name = "bilstm";
  static constexpr std::size_t batch = 32, classes = 2, ids = 20'000, targets = 1;
  static constexpr int steps_per_epoch = 5;
  using Net =
      ls::Sequential<ls::Input<200>, ls::Embedding<20'000, 128>,
                     ls::Bidirectional<ls::LSTM<64, ls::LSTMOptions{.return_sequences = true}>>,
                     ls::Bidirectional<ls::LSTM<64>>, ls::Dense<2>>;
  static auto optimizer() { return ls::Adam{.learning_rate = 1e-4}; }

  static constexpr double flop(std::size_t samples) {
    const double gates = 4 * 64, inputs = 128 + 64, directions_and_layers = 4;
    return static_cast<double>(samples) *
           (3 * 2 * 200 * directions_and_layers * gates * inputs + 3 * 2 * 128 * 2);
  }
};

/// One random batch of a model on each of `workers`, forever: ids or numbers, and classes for each
/// sample or token.
template <class Subject>
auto random_batch(int workers = 1) {
  std::mt19937 random(1);
  using In = typename Subject::Net::InputShape;
  std::vector<float> x(Subject::batch * In::size), y(Subject::batch * Subject::targets);
  for (float& value : x)
    value = Subject::ids > 0 ? static_cast<float>(random() % Subject::ids)
                             : static_cast<float>(random() % 1000) / 1000;
  for (float& value : y) value = static_cast<float>(random() % Subject::classes);
  std::vector<std::size_t> shape{Subject::batch};
  shape.insert(shape.end(), In::extents.begin(), In::extents.end());
  return ls::from_tensor_slices(ls::Tensor<float>(std::move(x), shape),
                                ls::Tensor<float>(std::move(y), {Subject::batch, Subject::targets}))
      .repeat()
      .batch(static_cast<std::int64_t>(Subject::batch) * workers);
}

}  // namespace benchmarks
