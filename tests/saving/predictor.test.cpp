#include "lockstep/saving/predictor.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/saving/model_files.hpp"
#include "support/instruction_sets.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Net = ls::Sequential<ls::Input<6, 6, 1>, ls::Conv2D<4, 3, ls::ReLU>, ls::MaxPooling2D<2>,
                           ls::BatchNormalization<>, ls::Dropout<0.5>, ls::Flatten, ls::Dense<3>>;
// Of five ids, the outputs of each position.
using Tokens = ls::Sequential<ls::Input<5>, ls::Embedding<7, 4>, ls::Dense<3, ls::Tanh>>;

// A few samples go through these without padding: sums of one block and of several.
using Plain =
    ls::Sequential<ls::Input<6, 6>, ls::Reshape<6, 6, 1>, ls::Conv2D<20, 3, ls::GELU>, ls::Flatten,
                   ls::Sequential<ls::Dense<33>, ls::Activation<ls::ReLU>, ls::Dropout<0.5>>,
                   ls::Dense<3, ls::Sigmoid>>;
using Convolutions = ls::Sequential<
    ls::Input<6, 6>, ls::Reshape<6, 6, 1>,
    ls::Conv2D<36, 5, ls::ReLU, ls::Conv2DOptions{.padding = ls::Padding::same}>,
    ls::Conv2D<70, 5, ls::Linear, ls::Conv2DOptions{.stride = 2, .padding = ls::Padding::same}>,
    ls::Conv2D<12, 5, ls::Linear,
               ls::Conv2DOptions{.padding = ls::Padding::same, .dilation_rate = 2, .groups = 2}>,
    ls::Flatten, ls::Dense<520, ls::ReLU>, ls::Dense<3>>;

const ls::SparseCategoricalCrossentropy loss{.from_logits = true};

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(i * 37 % 101) / 50.0F - 1.0F;
  return values;
}

/// Moving statistics are not those of the beginning afterwards.
void train(auto& model) {
  std::vector<std::int64_t> labels(40);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
  model.fit(ls::Tensor<float>(numbers(40 * 36), {40, 6, 6}), ls::Tensor<std::int64_t>(labels),
            {.epochs = 1, .verbose = 0});
}

template <class Matrix>
std::vector<float> values_of(const Matrix& rows) {
  return {rows.data(), rows.data() + rows.size()};
}

}  // namespace

TEST_CASE("Predictor: the outputs of Model::predict, bit for bit, for each number of rows") {
  auto model = ls::compile<Net>({.seed = 5}, loss, ls::Adam{});
  train(model);
  const ls::Predictor net(model);
  for (const std::size_t rows : {1U, 2U, 15U, 16U, 17U, 63U, 64U, 65U, 200U}) {
    CAPTURE(rows);
    const std::vector<float> x = numbers(rows * 36);
    const ls::Tensor<float> tensor(x, {rows, 6, 6});
    const std::vector<float> expected = values_of(model.predict(tensor));
    CHECK(values_of(net.predict(tensor)) == expected);
    std::vector<float> y(rows * 3);
    net.predict(x, y);
    CHECK(y == expected);
    CHECK(net.predict_row(std::span(x).first(36)) == std::vector<float>(y.begin(), y.begin() + 3));
  }
  const ls::Tensor<float> none = ls::Tensor<float>(numbers(36), {1, 6, 6}).slice(0, 0);
  CHECK(net.predict(none).rows() == 0);
  // Bytes that are divided when they are read, and rows that are flat.
  std::vector<std::uint8_t> bytes(2 * 36, 77);
  const ls::Tensor<std::uint8_t> images(bytes, {2, 6, 6});
  CHECK(values_of(net.predict(images / 255.0F)) == values_of(model.predict(images / 255.0F)));
  const Eigen::MatrixXf flat = Eigen::MatrixXf::Constant(3, 36, 0.25F);
  CHECK(values_of(net.predict(flat)) == values_of(model.predict(flat)));
}

TEST_CASE_TEMPLATE("Predictor: the outputs of Model::predict, bit for bit, of a few samples",
                   Network, Plain, Convolutions) {
  for_each_instruction_set([] {
    auto model = ls::compile<Network>({.seed = 5});
    const ls::Predictor net(model);
    for (const std::size_t rows : {1U, 2U, 4U, 5U, 66U}) {
      CAPTURE(rows);
      const std::vector<float> x = numbers(rows * 36);
      const ls::Tensor<float> tensor(x, {rows, 6, 6});
      const std::vector<float> expected = values_of(model.predict(tensor));
      CHECK(values_of(net.predict(tensor)) == expected);
      std::vector<float> y(rows * 3);
      net.predict(x, y);
      CHECK(y == expected);
    }
  });
}

TEST_CASE(
    "Predictor: of a sequence, the outputs of all positions; an id outside the vocabulary is "
    "named") {
  auto model = ls::compile<Tokens>({.seed = 5});
  const ls::Predictor net(model);
  std::vector<float> ids(70 * 5);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<float>(i * 3 % 7);
  const ls::Tensor<float> tensor(ids, {70, 5});
  CHECK(net.output_size == 15);
  CHECK(values_of(net.predict(tensor)) == values_of(model.predict(tensor)));
  ids[66 * 5 + 2] = 7;
  std::vector<float> y(70 * 15);
  const std::string message = message_of<ls::DataError>([&] { net.predict(ids, y); });
  CHECK(contains(message, "sample 66"));
  CHECK(contains(message, "position 2"));
  // The next call reuses the memory of the one that failed.
  ids[66 * 5 + 2] = 0;
  net.predict(ids, y);
  CHECK(y == values_of(model.predict(ls::Tensor<float>(ids, {70, 5}))));
}

TEST_CASE("Predictor: from each kind of file, and double from what float has saved") {
  auto model = ls::compile<Net>({.seed = 5}, loss, ls::Adam{});
  train(model);
  const TemporaryFolder folder;
  const ls::Tensor<float> x(numbers(4 * 36), {4, 6, 6});
  const std::vector<float> expected = values_of(model.predict(x));
  model.save(folder.path("whole"));
  CHECK(values_of(ls::Predictor<Net>(folder.path("whole")).predict(x)) == expected);
  model.save(folder.path("shards"), {.sharded = true});
  CHECK(values_of(ls::Predictor<Net>(folder.path("shards")).predict(x)) == expected);
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { ls::Predictor<Tokens>(folder.path("shards")); }),
      "embedding/embeddings"));
  for (const char* const name : {"weights", "weights.npz", "weights.safetensors"}) {
    CAPTURE(name);
    model.save_weights(folder.path(name));
    const ls::Predictor<Net> net(folder.path(name));
    CHECK(values_of(net.predict(x)) == expected);
    const ls::Predictor<Net, double> wide(folder.path(name));
    const auto y = wide.predict(x);
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(y.data()[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  }
  const ls::Predictor<Net> renamed(folder.path("weights.npz"),
                                   {.by_name = true, .rename = {{"dense", "elsewhere"}}});
  CHECK(values_of(renamed.predict(x)) != expected);  // its Dense is as it was at first
  CHECK(renamed.loaded().missing == std::vector<std::string>{"dense/kernel", "dense/bias"});

  CHECK(contains(message_of<ls::DataError>([&] { ls::Predictor<Net>(folder.path("absent")); }),
                 "absent"));
  CHECK(contains(message_of<ls::ConfigurationError>(
                     [&] { ls::Predictor<Tokens>(folder.path("weights.npz")); }),
                 "embedding/embeddings"));
}

TEST_CASE("Predictor: masks, recurrence and moving averages are those of Model::predict") {
  using Text =
      ls::Sequential<ls::Input<6>, ls::Embedding<9, 4, ls::EmbeddingOptions{.mask_zero = true}>,
                     ls::LSTM<5>, ls::Dense<2>>;
  auto model = ls::compile<Text>({.seed = 2}, loss, ls::Adam{.use_ema = true});
  std::vector<float> ids(33 * 6);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = i % 6 > i / 6 % 6 ? 0.0F : static_cast<float>(i * 5 % 9);
  const ls::Tensor<float> x(ids, {33, 6});
  model.fit(x, ls::Tensor<std::int64_t>(std::vector<std::int64_t>(33, 1)),
            {.epochs = 1, .verbose = 0});
  CHECK(values_of(ls::Predictor(model).predict(x)) == values_of(model.predict(x)));
}

TEST_CASE("Predictor: made of a model in a callback, and not on another thread while it trains") {
  auto model = ls::compile<Net>({.seed = 5}, loss, ls::Adam{});
  const ls::Tensor<float> x(numbers(4 * 36), {4, 6, 6});
  std::vector<float> in_callback;
  std::string elsewhere;
  model.fit(x, ls::Tensor<std::int64_t>(std::vector<std::int64_t>{0, 1, 2, 0}),
            {.epochs = 1, .verbose = 0}, ls::LambdaCallback{.on_train_end = [&](auto&&...) {
              in_callback = values_of(ls::Predictor(model).predict(x));
              std::jthread(
                  [&] { elsewhere = message_of<ls::Error>([&] { (void)ls::Predictor(model); }); });
            }});
  CHECK(in_callback == values_of(model.predict(x)));
  CHECK(contains(elsewhere, "another thread"));
}

TEST_CASE("Predictor: it keeps what the model had learnt") {
  auto model = ls::compile<Net>({.seed = 5}, loss, ls::Adam{});
  train(model);
  const ls::Tensor<float> x(numbers(4 * 36), {4, 6, 6});
  const ls::Predictor net(model);
  const std::vector<float> before = values_of(net.predict(x));
  model.fit(x, ls::Tensor<std::int64_t>(std::vector<std::int64_t>{0, 1, 2, 0}),
            {.epochs = 2, .verbose = 0});
  CHECK(values_of(model.predict(x)) != before);
  CHECK(values_of(net.predict(x)) == before);
}

TEST_CASE("Predictor: arrays that do not fit are refused, and nothing is written") {
  auto model = ls::compile<Net>({.seed = 5}, loss, ls::Adam{});
  train(model);
  const ls::Predictor net(model);
  std::vector<float> x(36), y(3, 5.0F);
  const auto says = [&](const auto& call, const char* text) {
    CHECK(contains(message_of<ls::ConfigurationError>(call), text));
  };
  says([&] { (void)net.predict_row(std::vector<float>(72)); },
       "predict_row: x has 72 numbers and y room for 3; one sample has 36 numbers and 3 outputs");
  says([&] { net.predict_row(x, std::span(y).first(2)); }, "x has 36 numbers and y room for 2;");
  says([&] { net.predict(std::vector<float>(40), y); }, "; each sample has 36 numbers");
  says([&] { net.predict(std::vector<float>(72), y); }, "x has 72 numbers and y room for 3;");
  net.predict(std::span<const float>(), std::span<float>());  // no sample
  CHECK(y == std::vector<float>(3, 5.0F));
  CHECK(contains(message_of<ls::DataError>([&] { (void)net.predict(std::vector<float>(36)); }),
                 "predict: the model's Input is (6, 6, 1), the dataset's samples are (1)"));
}

TEST_CASE("Predictor: threads call one at once, and get what each gets alone") {
  auto model = ls::compile<Net>({.seed = 5}, loss, ls::Adam{});
  train(model);
  const ls::Predictor net(model);
  constexpr std::size_t count = 24;  // more than the memory that waits for them
  std::array<std::vector<float>, count> x, expected, found;
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = numbers((i + 1) * 36);
    for (float& value : x[i]) value += static_cast<float>(i);
    expected[i].resize((i + 1) * 3);
    found[i].resize((i + 1) * 3);
    net.predict(x[i], expected[i]);
  }
  std::array<int, count> wrong{};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < count; ++i)
      threads.emplace_back([&, i] {
        for (int call = 0; call < 50; ++call) {
          net.predict(x[i], found[i]);
          if (found[i] != expected[i]) ++wrong[i];
        }
      });
  }
  CHECK(wrong == std::array<int, count>{});
}
