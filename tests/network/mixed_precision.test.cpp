#include "lockstep/network/mixed_precision.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "golden/mixed_precision.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/margins.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/budget.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/cross_attention.hpp"
#include "lockstep/network/float32.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/lora.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/recompute.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/shared.hpp"
#include "lockstep/network/spectral_normalization.hpp"
#include "lockstep/network/tied_head.hpp"
#include "lockstep/network/time_distributed.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/step/workspace.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/captured_stderr.hpp"
#include "support/instruction_sets.hpp"
#include "support/tcp_workers.hpp"
#include "support/temporary_folder.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::mixed_precision;
using lockstep_test::for_each_bfloat16_instruction_set;
using lockstep_test::run_workers;
using lockstep_test::WorkerStrategy;

namespace {

using Mlp =
    ls::Sequential<ls::Input<20>, ls::Dense<32, ls::ReLU>, ls::Dense<16, ls::Tanh>, ls::Dense<4>>;
using Cnn = ls::Sequential<ls::Input<8, 8, 1>, ls::Conv2D<6, 3, ls::ReLU>, ls::MaxPooling2D<2>,
                           ls::BatchNormalization<>, ls::Flatten, ls::Float32<ls::Dense<4>>>;
using Norm = ls::LayerNormalization<>;
using Attention =
    ls::MultiHeadAttention<2, 8, ls::MultiHeadAttentionOptions{.use_causal_mask = true}>;
using Gpt =
    ls::Sequential<ls::Input<8>, ls::Embedding<13, 16>, ls::Residual<Norm, Attention>,
                   ls::Residual<Norm, ls::Dense<32, ls::GELU>, ls::Dense<16>>, Norm, ls::Dense<13>>;

constexpr ls::SparseCategoricalCrossentropy loss{.from_logits = true};

/// As in make_golden_mixed_precision.py.
std::uint32_t hash(std::uint32_t h) {
  h ^= h >> 16;
  h *= 0x85EBCA6B;
  h ^= h >> 13;
  h *= 0xC2B2AE35;
  return h ^ (h >> 16);
}
float uniform(std::uint32_t i) { return static_cast<float>(hash(i) >> 8) * 0x1p-24F - 0.5F; }

template <class Model>
void set_weights(Model& model) {
  auto weights = model.get_weights();
  std::uint32_t element = 1;
  for (auto& weight : weights)
    for (float& value : weight.values)
      value = weight.shape.size() == 1 ? uniform(element++) + 1 : uniform(element++) * 0.5F;
  model.set_weights(weights);
}

struct Batch {
  Eigen::MatrixXf x, y;
};
Batch batch_of(std::size_t inputs, std::uint32_t classes, bool of_ids, Eigen::Index samples = 16) {
  Batch batch{{samples, static_cast<Eigen::Index>(inputs)},
              {samples, of_ids ? static_cast<Eigen::Index>(inputs) : 1}};
  std::uint32_t i = 0;
  for (Eigen::Index row = 0; row < samples; ++row)
    for (Eigen::Index column = 0; column < batch.x.cols(); ++column, ++i)
      batch.x(row, column) =
          of_ids ? static_cast<float>(hash(1'000'000 + i) % 13) : uniform(1'000'000 + i) * 2;
  i = 0;
  for (Eigen::Index row = 0; row < samples; ++row)
    for (Eigen::Index column = 0; column < batch.y.cols(); ++column, ++i)
      batch.y(row, column) = static_cast<float>(hash(2'000'000 + i) % classes);
  return batch;
}

/// The largest relative distance to the losses of 20 steps.
template <class Net, class Policy>
double distance(std::span<const double> expected, double rate, std::uint32_t classes, bool of_ids) {
  auto model = ls::compile<Net, Policy>({.seed = 1}, loss, ls::SGD{.learning_rate = rate});
  set_weights(model);
  const auto [x, y] = batch_of(Net::InputShape::size, classes, of_ids);
  const ls::History history =
      model.fit(x, y, {.batch_size = 16, .epochs = 20, .verbose = 0, .shuffle = false});
  REQUIRE(history["loss"].size() == expected.size());
  double worst = 0;
  for (std::size_t step = 0; step < expected.size(); ++step)
    worst = std::max(worst, std::abs(history["loss"][step] / expected[step] - 1));
  return worst;
}

struct Doubled {
  static constexpr std::string_view name = "doubled";
  template <class In>
  using Output = In;
};

template <auto Round>
bool is_rounded(float value) {
  float result = 0;
  Round(1, &value, &result);
  return result == value;
}
bool is_bfloat16(float value) { return is_rounded<ls::kernels::round_to_bfloat16>(value); }

template <class Net>
Eigen::Index positions_of_output() {
  using Out = typename Net::template Output<typename Net::InputShape>;
  return static_cast<Eigen::Index>(ls::positions_of<Out>);
}

template <class Net, class Policy = ls::MixedBFloat16>
std::vector<float> predictions(std::size_t inputs, bool of_ids) {
  auto model = ls::compile<Net, Policy>({.seed = 1});
  const auto [x, y] = batch_of(inputs, 4, of_ids, 5);
  const auto rows = model.predict(x);
  return {rows.data(), rows.data() + rows.size()};
}

/// Values after some steps, from the strategy of one rank.
template <class Net = Gpt, class Strategy>
std::vector<float> trained(Strategy& strategy, int batch_size = 8) {
  auto model = ls::compile<Net, ls::MixedBFloat16>(strategy, {.seed = 1}, loss, ls::Adam{});
  set_weights(model);
  const auto [x, y] = batch_of(8, 13, true, 32);
  model.fit(x, y, {.batch_size = batch_size, .epochs = 2, .verbose = 0, .shuffle = false});
  std::vector<float> all;
  for (const auto& weight : model.get_weights())
    all.insert(all.end(), weight.values.begin(), weight.values.end());
  return all;
}

}  // namespace

TEST_CASE("mixed precision: 20 steps have the losses of Keras with mixed_bfloat16") {
  for_each_bfloat16_instruction_set([] {
    using Policy = ls::MixedBFloat16;
    CHECK(distance<Mlp, Policy>(golden::mlp_mixed_bfloat16, 0.1, 4, false) < 1e-2);
    CHECK(distance<Cnn, Policy>(golden::cnn_mixed_bfloat16, 0.02, 4, false) < 1e-2);
    CHECK(distance<Gpt, Policy>(golden::gpt_mixed_bfloat16, 0.1, 13, true) < 1e-2);
  });
  // (What makes these figures comparable.)
  CHECK(distance<Mlp, float>(golden::mlp_float32, 0.1, 4, false) < 1e-5);
  CHECK(distance<Cnn, float>(golden::cnn_float32, 0.02, 4, false) < 1e-4);
  CHECK(distance<Gpt, float>(golden::gpt_float32, 0.1, 13, true) < 1e-4);
}

TEST_CASE("mixed precision: 20 steps have the losses of Keras with mixed_float16") {
  for_each_bfloat16_instruction_set([] {
    using Policy = ls::MixedFloat16;
    CHECK(distance<Mlp, Policy>(golden::mlp_mixed_float16, 0.1, 4, false) < 1e-3);
    CHECK(distance<Cnn, Policy>(golden::cnn_mixed_float16, 0.02, 4, false) < 4e-3);
    CHECK(distance<Gpt, Policy>(golden::gpt_mixed_float16, 0.1, 13, true) < 1e-3);
  });
}

TEST_CASE("mixed precision: what layers give is float16 with MixedFloat16") {
  const auto count = [](const std::vector<float>& values) {
    std::size_t fine = 0;
    for (const float value : values) fine += !is_rounded<ls::kernels::round_to_float16>(value);
    return fine;
  };
  CHECK(count(predictions<Mlp, ls::MixedFloat16>(20, false)) == 0);
  CHECK(count(predictions<Gpt, ls::MixedFloat16>(8, true)) == 0);
  CHECK(count(predictions<Cnn, ls::MixedFloat16>(64, false)) > 0);
  // Beyond 65504 it is infinite, and between 1 and 2 there are 1024 steps.
  using Net = ls::Sequential<ls::Input<1>, ls::Dense<1>>;
  auto model = ls::compile<Net, ls::MixedFloat16>({.seed = 1});
  auto weights = model.get_weights();
  const auto predict = [&](float kernel, float bias) {
    weights[0].values = {kernel};
    weights[1].values = {bias};
    model.set_weights(weights);
    return model.predict(Eigen::MatrixXf::Constant(1, 1, 1))(0, 0);
  };
  for_each_bfloat16_instruction_set([&] {
    CHECK(predict(1 + 0x1p-10F, 0) == 1 + 0x1p-10F);
    CHECK(predict(1 + 0x1p-11F, 0) == 1);
    CHECK(predict(1, 0x1p-11F) == 1);
    CHECK(predict(65504, 15) == 65504);
    CHECK(std::isinf(predict(65504, 16)));
    CHECK(predict(0x1p-24F, 0) == 0x1p-24F);
    CHECK(predict(0x1p-26F, 0) == 0);
  });
}

TEST_CASE("mixed precision: a Dense rounds its input, its kernel and its output") {
  using Net = ls::Sequential<ls::Input<3>, ls::Dense<1>>;
  auto model = ls::compile<Net, ls::MixedBFloat16>({.seed = 1});
  const auto set = [&](float a, float b, float c, float bias) {
    auto weights = model.get_weights();
    weights[0].values = {a, b, c};
    weights[1].values = {bias};
    model.set_weights(weights);
  };
  const auto predict = [&](float a, float b, float c) {
    Eigen::MatrixXf x(1, 3);
    x << a, b, c;
    return model.predict(x)(0, 0);
  };
  for_each_bfloat16_instruction_set([&] {
    constexpr float fine = 1 + 0x1p-10F;  // 1 when rounded
    set(fine, 0, 0, 0);
    CHECK(predict(1, 0, 0) == 1);
    CHECK(predict(fine * 4, 0, 0) == 4);
    set(0x1p7F, 1, -0x1p7F, 0);
    CHECK(predict(1, 0x1p-7F, 1) == 0x1p-7F);  // the sum is not rounded on its way
    set(0x1p7F, 1, 0, 0);
    CHECK(predict(1, 0x1p-7F, 1) == 0x1p7F);  // but in the end
    set(1, 0, 0, 0x1p-9F);
    CHECK(predict(1, 0, 0) == 1);
  });
}

TEST_CASE("mixed precision: what layers give is bfloat16, and float where they say so") {
  const auto count = [](const std::vector<float>& values) {
    std::size_t fine = 0;
    for (const float value : values) fine += !is_bfloat16(value);
    return fine;
  };
  using Recurrent = ls::Sequential<ls::Input<6, 3>, ls::ToSequence, ls::LSTM<5>>;
  using Convolution = ls::Sequential<ls::Input<6, 6, 2>, ls::Conv2D<3, 3>, ls::Activation<ls::Tanh>,
                                     ls::GlobalAveragePooling2D>;
  using Tied =
      ls::Sequential<ls::Input<8>, ls::TiedHead<ls::Embedding<13, 16>, ls::Repeat<2, Norm>>>;
  CHECK(count(predictions<Mlp>(20, false)) == 0);
  CHECK(count(predictions<Gpt>(8, true)) == 0);
  CHECK(count(predictions<Tied>(8, true)) == 0);
  CHECK(count(predictions<Recurrent>(18, false)) == 0);
  CHECK(count(predictions<Convolution>(72, false)) == 0);
  CHECK(count(predictions<Cnn>(64, false)) > 0);
  // Containers leave their input as it is: 301 is no bfloat16.
  using Whole =
      ls::Sequential<ls::Input<1>, ls::Recompute<ls::Embedding<302, 1>, ls::Activation<ls::ReLU>>>;
  auto model = ls::compile<Whole, ls::MixedBFloat16>({.seed = 1});
  auto weights = model.get_weights();
  for (std::size_t id = 0; id < 302; ++id) weights[0].values[id] = id == 301 ? 2.0F : 1.0F;
  model.set_weights(weights);
  CHECK(model.predict(Eigen::MatrixXf::Constant(1, 1, 301))(0, 0) == 2);
}

TEST_CASE("mixed precision: layers in containers are as they are without") {
  using Table = ls::Embedding<13, 16>;
  using Head = ls::Float32<ls::Dense<13>>;
  using Block =
      ls::Residual<ls::Sequential<Norm, ls::Dense<16, ls::GELU>>, ls::Sequential<ls::Dense<16>>>;
  using Plain = ls::Sequential<ls::Input<8>, Table, Block, Norm, Head>;
  using Kept =
      ls::Sequential<ls::Input<8>, Table,
                     ls::Residual<ls::Recompute<ls::Sequential<Norm, ls::Dense<16, ls::GELU>>>,
                                  ls::Sequential<ls::Dense<16>>>,
                     ls::Recompute<Norm, Head>>;
  ls::OneDeviceStrategy strategy;
  CHECK(trained<Plain>(strategy) == trained<Kept>(strategy));
  using Timed = ls::Sequential<
      ls::Input<8>, Table,
      ls::Residual<
          ls::Sequential<ls::TimeDistributed<ls::Sequential<Norm, ls::Dense<16, ls::GELU>>>>,
          ls::Sequential<ls::TimeDistributed<ls::Dense<16>>>>,
      ls::TimeDistributed<Norm>, Head>;
  CHECK(trained<Plain>(strategy) == trained<Timed>(strategy));
  using Towers = ls::Sequential<ls::Input<8>, ls::Parallel<ls::Concatenate, ls::Slice<0, 8>>,
                                ls::Dense<6, ls::ReLU>, Norm, ls::Dense<4>>;
  using Shared = ls::Sequential<
      ls::Input<8>,
      ls::Shared<ls::Concatenate, ls::Sequential<ls::Dense<6, ls::ReLU>, Norm>, ls::Slice<0, 8>>,
      ls::Dense<4>>;
  CHECK(predictions<Towers>(8, false) == predictions<Shared>(8, false));
  // The output of a TiedHead's Embedding is rounded before a position is added.
  using Tied =
      ls::Sequential<ls::Input<1>, ls::TiedHead<ls::Embedding<2, 1>, ls::PositionEmbedding<1>>>;
  auto model = ls::compile<Tied, ls::MixedBFloat16>({.seed = 1});
  auto weights = model.get_weights();
  weights[0].values = {1 + 0x3p-10F, 1};
  weights[1].values = {0x1p-9F};
  model.set_weights(weights);
  CHECK(model.predict(Eigen::MatrixXf::Zero(1, 1))(0, 1) == 1);
}

TEST_CASE("mixed precision: normalisation, maximum and sum are one layer, with the same bits") {
  using Image = ls::Input<6, 6, 2>;
  using Conv = ls::Conv2D<4, 3, ls::Linear, ls::Conv2DOptions{.padding = ls::Padding::same}>;
  using Normalize = ls::BatchNormalization<>;
  using Activate = ls::Activation<ls::ReLU>;
  using Apart = ls::ZeroPadding2D<0>;  // it changes nothing, and no layer does its work
  using Fused = ls::Sequential<
      Image, Conv, Normalize, Activate, ls::Residual<Conv, Normalize, Activate, Conv, Normalize>,
      Activate,
      ls::Residual<ls::Sequential<Conv, Normalize>, ls::Sequential<Conv, ls::Recompute<Normalize>>>,
      ls::Flatten, ls::Dense<3>>;
  using Layers =
      ls::Sequential<Image, Conv, Normalize, Apart, Activate,
                     ls::Residual<Conv, Normalize, Apart, Activate, Conv, Normalize, Apart>, Apart,
                     Activate,
                     ls::Residual<ls::Sequential<Conv, Normalize, Apart>,
                                  ls::Sequential<Conv, ls::Recompute<Normalize>, Apart>>,
                     ls::Flatten, ls::Dense<3>>;
  const auto variables_of = []<class Net>() {
    auto model = ls::compile<Net, ls::MixedBFloat16>({.seed = 1}, loss, ls::SGD{});
    const auto [x, y] = batch_of(72, 3, false, 21);
    model.fit(x, y, {.batch_size = 7, .epochs = 3, .verbose = 0, .shuffle = false});
    std::vector<std::vector<float>> all;
    for (const auto& weight : model.get_weights()) all.push_back(weight.values);
    return all;
  };
  for_each_bfloat16_instruction_set([&] {
    CHECK(variables_of.template operator()<Fused>() == variables_of.template operator()<Layers>());
  });
  const auto activations = []<class Net>() { return ls::budget<Net>(16, ls::SGD{}).activations; };
  const auto mixed = activations.template operator()<ls::MixedBFloat16::Network<Fused>>();
  CHECK(mixed <= 0.55 * static_cast<double>(activations.template operator()<Fused>()));
  CHECK(mixed < activations.template operator()<ls::MixedBFloat16::Network<Layers>>());
}

TEST_CASE("mixed precision: each container goes back from what it keeps, as in float") {
  using Table = ls::Embedding<13, 16>;
  using Tower = ls::Sequential<Norm, ls::Dense<16, ls::ReLU>, ls::Dense<8, ls::Tanh>>;
  const auto losses_of = []<class Net, class Policy>() {
    auto model = ls::compile<Net, Policy>({.seed = 1}, loss, ls::SGD{.learning_rate = 0.15});
    set_weights(model);
    const auto [x, y] = batch_of(8, 13, true);
    return model.fit(x, y.leftCols(positions_of_output<Net>()),
                     {.batch_size = 16, .epochs = 20, .verbose = 0, .shuffle = false})["loss"];
  };
  const auto check = [&]<class Net>() {
    const auto mixed = losses_of.template operator()<Net, ls::MixedBFloat16>(),
               finer = losses_of.template operator()<Net, ls::MixedFloat16>(),
               in_float = losses_of.template operator()<Net, float>();
    REQUIRE(mixed.size() == 20);
    CHECK(in_float.back() < 0.95 * in_float.front());
    for (std::size_t step = 0; step < 20; ++step)
      CHECK(std::abs(mixed[step] / in_float[step] - 1) < 0.03);
    for (std::size_t step = 0; step < 20; ++step)
      CHECK(std::abs(finer[step] / in_float[step] - 1) < 0.005);
    return mixed;
  };
  check.operator()<ls::Sequential<ls::Input<8>, ls::Frozen<Table>, Norm,
                                  ls::Frozen<ls::Dense<16, ls::GELU>>, ls::Dense<13>>>();
  check.operator()<ls::Sequential<ls::Input<8>, Table, ls::LoRA<ls::Dense<16, ls::GELU>, 2>,
                                  ls::LoRA<Attention, 2>, ls::Dense<13>>>();
  check.operator()<ls::Sequential<
      ls::Input<8>,
      ls::CrossAttention<2, 8, ls::Sequential<ls::Slice<0, 4>, Table, ls::Dense<16, ls::ReLU>>,
                         ls::Sequential<ls::Slice<4, 4>, Table>>,
      ls::Dense<13>>>();
  using Value = ls::Sequential<ls::Slice<4, 4>, Table, ls::Dense<8, ls::Tanh>>;
  using Key = ls::Sequential<ls::Slice<4, 4>, Table, ls::Dense<16>>;
  check.operator()<ls::Sequential<
      ls::Input<8>,
      ls::Attention<ls::Sequential<ls::Slice<0, 4>, Table>, ls::ValueAndKey<Value, Key>>, Norm,
      ls::Dense<13>>>();
  check.operator()<ls::Sequential<
      ls::Input<8>, Table,
      ls::Parallel<ls::Multiply, ls::Dense<16, ls::ReLU>,
                   ls::Sequential<ls::Dense<8, ls::Tanh>, ls::Dense<16, ls::Sigmoid>>>,
      ls::Dense<13>>>();
  check.operator()<ls::Sequential<
      ls::Input<8>, Table, ls::SpectralNormalization<ls::Dense<16, ls::GELU>>,
      ls::TimeDistributed<ls::Sequential<ls::Dense<16, ls::Tanh>,
                                         ls::SpectralNormalization<ls::Dense<16, ls::ReLU>>>>,
      ls::Dense<13>>>();
  using Shared =
      ls::Sequential<ls::Input<8>, Table, ls::Flatten,
                     ls::Shared<ls::Concatenate, Tower, ls::Slice<0, 64>, ls::Slice<64, 64>>,
                     ls::Dense<13>>;
  using Again = ls::Sequential<
      ls::Input<8>, Table, ls::Flatten,
      ls::Shared<ls::Concatenate, ls::Recompute<Tower>, ls::Slice<0, 64>, ls::Slice<64, 64>>,
      ls::Dense<13>>;
  CHECK(check.operator()<Shared>() == check.operator()<Again>());
}

TEST_CASE("mixed precision: a loss that is not finite names the layer, also one that is packed") {
  using Net = ls::Sequential<ls::Input<4>, ls::Dense<4>,
                             ls::Residual<ls::Dense<8, ls::ReLU>, ls::Dense<4>>, ls::Dense<3>>;
  auto model = ls::compile<Net, ls::MixedBFloat16>({.seed = 1}, loss, ls::SGD{});
  set_weights(model);
  auto weights = model.get_weights();
  for (float& value : weights[2].values) value = 3e38F;  // of the first Dense in Residual
  model.set_weights(weights);
  const auto [x, y] = batch_of(4, 3, false);
  const lockstep_test::CapturedStderr output;
  model.fit(x, y, {.batch_size = 16, .verbose = 0});
  CHECK(output.text().find("first in the output of residual/dense)") != std::string::npos);
}

TEST_CASE("mixed precision: a layer of the program's own reads rounded variables and inputs") {
  static_assert(
      std::is_same_v<ls::detail::WithHalf<ls::detail::BFloat16Numbers, ls::Reshape<2, 2>>::Type,
                     ls::Reshape<2, 2>>);
  static_assert(ls::detail::WithHalf<ls::detail::BFloat16Numbers, Doubled>::precision ==
                ls::detail::Precision::operands);
  // Bins are whole numbers, which an Embedding looks up.
  static_assert(ls::detail::precision_of("discretization") == ls::detail::Precision::unchanged);
  static_assert(ls::detail::precision_of("category_encoding") == ls::detail::Precision::unchanged);
  // As a convolution of one pixel and one tap.
  using Net = ls::Sequential<ls::Input<1, 1, 1>, ls::Conv2D<1, 1>, ls::Flatten>;
  auto model = ls::compile<Net, ls::MixedBFloat16>({.seed = 1});
  auto weights = model.get_weights();
  weights[0].values = {1 + 0x1p-10F};
  weights[1].values = {0};
  model.set_weights(weights);
  Eigen::MatrixXf x(1, 1);
  x << 3 + 0x1p-8F;
  CHECK(model.predict(x)(0, 0) == 3);
}

TEST_CASE("mixed precision: activations take half of their memory, and the budget knows it") {
  using Policy = ls::MixedBFloat16;
  const auto check = []<class Net>(std::size_t batch) {
    const ls::Budget in_float = ls::budget<Net>(batch, ls::SGD{}),
                     mixed = ls::budget<Policy::Network<Net>>(batch, ls::SGD{});
    CHECK(mixed.flop == in_float.flop);
    CHECK(static_cast<double>(mixed.activations) <=
          0.55 * static_cast<double>(in_float.activations));
    CHECK(mixed.memory < in_float.memory);
    // What a replica allocates.
    const ls::detail::Compiled<Policy::Network<Net>, float, ls::SparseCategoricalCrossentropy,
                               ls::SGD>
        program(loss, ls::SGD{}, {});
    ls::detail::Workspace<float> workspace(program,
                                           [](std::size_t bytes) { return ls::Buffer(bytes); });
    workspace.resize(batch);
    CHECK(workspace.batch_bytes() == mixed.batch + mixed.activations + mixed.workspace);
  };
  using Hidden = ls::Repeat<16, ls::Dense<128, ls::ReLU>>;
  check.operator()<ls::Sequential<ls::Input<128>, Hidden, ls::Dense<10>>>(64);
  using Block = ls::Sequential<
      ls::Residual<Norm, ls::MultiHeadAttention<
                             4, 16, ls::MultiHeadAttentionOptions{.use_causal_mask = true}>>,
      ls::Residual<Norm, ls::Dense<256, ls::GELU>, ls::Dense<64>>>;
  check.operator()<ls::Sequential<ls::Input<64>,
                                  ls::TiedHead<ls::Embedding<65, 64>, ls::Repeat<6, Block>, Norm>>>(
      12);
}

template <class Net>
std::size_t halved_activations() {
  return ls::budget<Net>(64, ls::SGD{}).activations -
         ls::budget<ls::MixedBFloat16::Network<Net>>(64, ls::SGD{}).activations;
}

TEST_CASE("mixed precision: a wrapped layer's output takes half of its memory, too") {
  using Dense = ls::Dense<128, ls::ReLU>;
  using Last = ls::Dense<10>;
  const std::size_t saved = halved_activations<ls::Sequential<ls::Input<32>, Dense, Last>>();
  CHECK(saved >= 64 * 128 / 2 * sizeof(float));
  CHECK(halved_activations<ls::Sequential<ls::Input<32>, ls::Frozen<Dense>, Last>>() == saved);
  CHECK(
      halved_activations<ls::Sequential<ls::Input<32>, ls::SpectralNormalization<Dense>, Last>>() ==
      saved);
  CHECK(halved_activations<ls::Sequential<ls::Input<32>, ls::Recompute<Dense>, Last>>() == saved);
  CHECK(halved_activations<ls::Sequential<ls::Input<4, 32>, ls::ToSequence,
                                          ls::TimeDistributed<Dense>, ls::Flatten, Last>>() ==
        halved_activations<
            ls::Sequential<ls::Input<4, 32>, ls::ToSequence, Dense, ls::Flatten, Last>>());
}

TEST_CASE("mixed precision: the budget knows of rounded copies") {
  using Policy = ls::MixedBFloat16;
  using Wide = ls::Sequential<ls::Input<8, 8, 16>, ls::Conv2D<4, 3>, ls::Flatten, ls::Dense<4>>;
  constexpr auto wide = ls::budget<Wide>(16, ls::SGD{}),
                 mixed_wide = ls::budget<Policy::Network<Wide>>(16, ls::SGD{});
  constexpr std::size_t copies = 8 * 8 * 16 * 16 + 3 * 3 * 16 * 4 + 16;
  constexpr std::size_t unpacked = 2 * 6 * 6 * 4 * 16;  // outputs
  CHECK(mixed_wide.workspace > wide.workspace);
  CHECK(mixed_wide.workspace <= wide.workspace + sizeof(float) * (copies + unpacked));
}

TEST_CASE("mixed precision: derivatives of an activation are packed as they are computed") {
  using Policy = ls::MixedBFloat16;
  using Net = ls::Sequential<ls::Input<8, 8, 4>, ls::Conv2D<16, 3, ls::GELU>, ls::Flatten,
                             ls::Dense<64, ls::SiLU>, ls::Dense<4>>;
  constexpr std::size_t samples = 16, outputs = (6 * 6 * 16 + 64) * samples;
  constexpr auto in_float = ls::budget<Net>(samples, ls::SGD{}),
                 mixed = ls::budget<Policy::Network<Net>>(samples, ls::SGD{});
  CHECK(in_float.activations == 2 * outputs * sizeof(float));
  CHECK(mixed.activations == in_float.activations / 2);
  using Kept = ls::Sequential<ls::Input<8>, ls::Float32<ls::Dense<64, ls::SiLU>>, ls::Dense<4>>;
  constexpr auto kept = ls::budget<Policy::Network<Kept>>(samples, ls::SGD{});
  CHECK(kept.activations == 2 * 64 * samples * sizeof(float));
}

TEST_CASE("mixed precision: a Dense and an Activation are one layer") {
  using Apart = ls::Sequential<ls::Input<20>, ls::Dense<32>, ls::Activation<ls::ReLU>,
                               ls::Dense<16>, ls::Activation<ls::Tanh>, ls::Dense<4>>;
  CHECK(distance<Apart, ls::MixedBFloat16>(golden::mlp_mixed_bfloat16, 0.1, 4, false) < 1e-2);
  using Mixed = ls::detail::WithHalf<ls::detail::BFloat16Numbers, Apart>::Type;
  static_assert(Mixed::Chain<ls::Shape<20>>::Steps::size == 3);
}

TEST_CASE("mixed precision: threads, workers and repeated runs give equal bits") {
  for_each_bfloat16_instruction_set([] {
    ls::MirroredStrategy threads({.replicas = 2});
    const std::vector<float> of_threads = trained(threads);
    CHECK(of_threads == trained(threads));
    const auto failures = run_workers(2, [&](WorkerStrategy& strategy) {
      if (trained(strategy) != of_threads) throw std::runtime_error("other bits");
    });
    for (const std::string& failure : failures) CHECK(failure == "");
    for (const auto& of_worker : lockstep_test::on_tcp_workers<std::vector<float>>(
             2, 1, "", [](lockstep_test::TcpStrategy& strategy) { return trained(strategy); }))
      CHECK(of_worker == of_threads);
    ls::OneDeviceStrategy alone;
    const std::vector<float> of_one = trained(alone, 16);
    REQUIRE(of_one.size() == of_threads.size());
    double worst = 0;
    for (std::size_t i = 0; i < of_one.size(); ++i)
      worst = std::max<double>(worst, std::abs(of_one[i] - of_threads[i]));
    CHECK(worst < 1e-2);
  });
}

TEST_CASE("mixed precision: the instruction and its emulation have the same bits") {
  using Wide = ls::Sequential<ls::Input<8>, ls::Embedding<13, 16>, ls::Dense<40, ls::GELU>,
                              ls::Dense<70, ls::ReLU>, ls::Float32<ls::Dense<24, ls::GELU>>,
                              ls::Dense<9, ls::Tanh>, ls::Dense<13>>;
  std::vector<float> of_gpt, of_wide;
  lockstep_test::detail::for_each_of(
      {ls::InstructionSet::avx512, ls::InstructionSet::avx512_bf16}, [&] {
        ls::OneDeviceStrategy strategy;
        const std::vector<float> gpt = trained(strategy), wide = trained<Wide>(strategy);
        if (of_gpt.empty()) {
          of_gpt = gpt;
          of_wide = wide;
        }
        CHECK(gpt == of_gpt);
        CHECK(wide == of_wide);
      });
}

TEST_CASE("mixed precision: files are those of float, and fit both") {
  const lockstep_test::TemporaryFolder folder;
  const std::string state = folder.path("model.ckpt"), weights = folder.path("w.npz");
  auto mixed = ls::compile<Gpt, ls::MixedBFloat16>({.seed = 1}, loss, ls::Adam{});
  auto plain = ls::compile<Gpt>({.seed = 2}, loss, ls::Adam{});
  const auto [x, y] = batch_of(8, 13, true);
  mixed.fit(x, y, {.batch_size = 8, .verbose = 0});
  const auto same = [&] {
    const auto a = mixed.get_weights(), b = plain.get_weights();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i].name != b[i].name || a[i].values != b[i].values) return false;
    return true;
  };
  CHECK_FALSE(same());
  bool fine = false;
  const auto of_mixed = mixed.get_weights();
  for (const float value : of_mixed[0].values) fine = fine || !is_bfloat16(value);
  CHECK(fine);  // variables are float
  mixed.save(state);
  plain.load(state);
  CHECK(same());
  plain.fit(x, y, {.batch_size = 8, .verbose = 0});
  plain.save_weights(weights);
  mixed.load_weights(weights);
  CHECK(same());
  CHECK(ls::compile<Gpt, ls::MixedBFloat16>({.seed = 1}).get_weights()[3].name ==
        ls::compile<Gpt>({.seed = 1}).get_weights()[3].name);
}

TEST_CASE("mixed precision: a resumed run has the bits of one that was not interrupted") {
  const lockstep_test::TemporaryFolder folder;
  const auto [x, y] = batch_of(20, 4, false);
  const auto compile = [] {
    return ls::compile<Mlp, ls::MixedBFloat16>({.seed = 1}, loss, ls::Adam{});
  };
  auto whole = compile(), first = compile(), second = compile();
  whole.fit(x, y, {.batch_size = 8, .epochs = 4, .verbose = 0, .shuffle = false});
  first.fit(x, y, {.batch_size = 8, .epochs = 2, .verbose = 0, .shuffle = false});
  first.save(folder.path("half"));
  second.load(folder.path("half"));
  second.fit(x, y, {.batch_size = 8, .epochs = 2, .verbose = 0, .shuffle = false});
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(whole.get_weights()[i].values == second.get_weights()[i].values);
}

TEST_CASE("mixed precision: ranks of two policies refuse each other") {
  const auto failures = run_workers(2, [&](WorkerStrategy& strategy) {
    if (strategy.worker_index() == 0)
      (void)ls::compile<Mlp>(strategy, {.seed = 1});
    else
      (void)ls::compile<Mlp, ls::MixedBFloat16>(strategy, {.seed = 1});
  });
  for (const std::string& failure : failures)
    CHECK(failure.find("mixed_bfloat16") != std::string::npos);
}
