#include "lockstep/model/inputs_outputs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/generator.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/metrics/mean_losses.hpp"
#include "lockstep/model/budget.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/signature.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"

namespace ls = lockstep;

namespace {

using In = ls::Inputs<ls::NamedInput<"numbers", 3>, ls::NamedInput<"image", 2, 2, 1>,
                      ls::NamedInput<"category", 1>>;
using Out = ls::Outputs<ls::NamedOutput<"class", ls::Dense<4, ls::ReLU>, ls::Dense<2>>,
                        ls::NamedOutput<"price", ls::Dense<1>>>;
using Branches =
    ls::Parallel<ls::Concatenate, In::Get<"numbers">,
                 ls::Sequential<In::Get<"image">, ls::Conv2D<2, 2>, ls::Flatten>,
                 ls::Sequential<In::Get<"category">, ls::Embedding<5, 3>, ls::Flatten>>;
using Net = ls::Sequential<In, Branches, Out>;
// The same with numbers of places.
using Plain = ls::Sequential<
    ls::Input<8>,
    ls::Parallel<
        ls::Concatenate, ls::Slice<0, 3>,
        ls::Sequential<ls::Slice<3, 4>, ls::Reshape<2, 2, 1>, ls::Conv2D<2, 2>, ls::Flatten>,
        ls::Sequential<ls::Slice<7, 1>, ls::Embedding<5, 3>, ls::Flatten>>,
    ls::Parallel<ls::Concatenate, ls::Sequential<ls::Dense<4, ls::ReLU>, ls::Dense<2>>,
                 ls::Dense<1>>>;

static_assert(In::range<"image">.begin == 3 && In::range<"image">.end == 7);
static_assert(ls::output_range<Net, "class">.begin == 0 && ls::output_range<Net, "class">.end == 2);
static_assert(ls::output_range<Net, "price">.begin == 2 && ls::output_range<Net, "price">.end == 3);

// Names, shapes and layers are in its signature.
template <class... Parts>
constexpr bool differ() {
  std::array all{ls::signature<Parts>...};
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}
static_assert(differ<ls::Outputs<ls::NamedOutput<"a", ls::Dense<2, ls::ReLU>>>,
                     ls::Outputs<ls::NamedOutput<"a", ls::Dense<2, ls::Tanh>>>,
                     ls::Outputs<ls::NamedOutput<"b", ls::Dense<2, ls::ReLU>>>,
                     ls::Inputs<ls::NamedInput<"a", 2, 3>>, ls::Inputs<ls::NamedInput<"a", 3, 2>>,
                     ls::Inputs<ls::NamedInput<"b", 3, 2>>, ls::Input<6>>());
static_assert(
    ls::budget<Net, decltype(ls::Losses{
                        ls::output_loss<Net, "class">(ls::SparseCategoricalCrossentropy{}),
                        ls::output_loss<Net, "price">(ls::MeanSquaredError{})})>(20, ls::SGD{})
        .parameters == ls::budget<Plain>(20, ls::SGD{}).parameters);

struct Data {
  std::vector<float> numbers, images, categories, classes, prices;
  explicit Data(std::size_t size) {
    ls::RandomStream random{ls::RandomKey(3)};
    for (std::size_t i = 0; i < size; ++i) {
      for (int k = 0; k < 3; ++k) numbers.push_back(static_cast<float>(random.uniform(-1, 1)));
      for (int k = 0; k < 4; ++k) images.push_back(static_cast<float>(random.uniform(-1, 1)));
      categories.push_back(static_cast<float>(random.below(5)));
      const float* last = &numbers[3 * i];
      classes.push_back(last[0] + images[4 * i] > 0 ? 1.0f : 0.0f);
      prices.push_back(last[1] + 0.1f * categories.back());
    }
  }
  [[nodiscard]] auto pairs() const {
    const std::size_t n = classes.size();
    const auto slices = [n](const std::vector<float>& values) {
      return ls::from_tensor_slices(ls::Tensor<float>(values, {n, values.size() / n}));
    };
    return ls::zip(ls::inputs(slices(numbers), slices(images), slices(categories)),
                   ls::targets(slices(classes), slices(prices)));
  }
};

auto losses() {
  return ls::Losses{
      ls::output_loss<Net, "class">(ls::SparseCategoricalCrossentropy{.from_logits = true}),
      ls::output_loss<Net, "price">(ls::MeanSquaredError{}, 0.5)};
}

template <class Model>
std::vector<float> weights_of(Model& model) {
  std::vector<float> all;
  for (const auto& weight : model.get_weights())
    all.insert(all.end(), weight.values.begin(), weight.values.end());
  return all;
}

}  // namespace

TEST_CASE("inputs and outputs with names: the same model as with numbers of places") {
  const Data data(150);
  const auto batches = data.pairs().shuffle(100).batch(20);
  for (const int replicas : {1, 2}) {
    ls::MirroredStrategy strategy({.replicas = replicas});
    auto named = ls::compile<Net>(
        strategy, {.seed = 1}, losses(), ls::Adam{.learning_rate = 0.01},
        ls::output_metric<Net, "class">(losses(), ls::Accuracy{}),
        ls::output_metric<Net, "price">(losses(), ls::MeanLoss<ls::MeanSquaredError>{}),
        ls::output_metric<Net, "price">(losses(), ls::metrics::MeanAbsoluteError{}, "error"));
    auto plain = ls::compile<Plain>(
        strategy, {.seed = 1},
        ls::Losses{ls::output_loss<0, 2>(ls::SparseCategoricalCrossentropy{.from_logits = true}),
                   ls::output_loss<2, 3>(ls::MeanSquaredError{}, 0.5)},
        ls::Adam{.learning_rate = 0.01},
        ls::OutputMetric{ls::Accuracy{}, {.outputs = {0, 2}, .targets = {0, 1}, .name = "a"}});
    const auto history = named.fit(batches, {.epochs = 20, .verbose = 0});
    const auto expected = plain.fit(batches, {.epochs = 20, .verbose = 0});
    CHECK(history["loss"] == expected["loss"]);
    CHECK(history["class_accuracy"] == expected["a"]);
    CHECK(history["class_accuracy"].back() > 0.8);
    CHECK(history["price_mean_squared_error"].back() < history["price_mean_squared_error"][0]);
    CHECK(history["error"].back() < history["error"][0]);
    CHECK(weights_of(named) == weights_of(plain));
  }
}

TEST_CASE("inputs and outputs with names: their names are those of the variables") {
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Net>(strategy, {.seed = 1}, losses(), ls::SGD{});
  std::vector<std::string> names;
  for (const auto& weight : model.get_weights()) names.push_back(weight.name);
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  INFO(names.front(), " ", names.back());
  CHECK(has("outputs/class/dense/kernel"));
  CHECK(has("outputs/price/dense/bias"));
}

TEST_CASE("inputs and targets: side by side, resumable, as long as the shortest") {
  const auto samples = ls::zip(ls::inputs(ls::range(10), ls::range(20, 27), ls::range(30, 50)),
                               ls::targets(ls::range(60, 90), ls::range(100, 130)));
  CHECK(samples.cardinality() == 7);
  auto dataset = samples.shuffle(4).batch(3);
  dataset.begin({.seed = 1, .number = 0});
  std::vector<float> all;
  const auto read = [&] {
    const std::size_t n = dataset.sample_indices().size();
    constexpr std::size_t stride = ls::padded_batch(3);
    std::vector<float> x(3 * stride), y(2 * stride);
    std::vector<std::size_t> positions(n);
    for (std::size_t i = 0; i < n; ++i) positions[i] = i;
    dataset.read(std::span<const std::size_t>(positions),
                 ls::TensorView<float>(x.data(), n, 3, stride),
                 ls::TensorView<float>(y.data(), n, 2, stride));
    std::vector<float> rows;
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(x[stride + i] == x[i] + 20);
      CHECK(x[2 * stride + i] == x[i] + 30);
      CHECK(y[i] == x[i] + 60);
      CHECK(y[stride + i] == x[i] + 100);
      rows.push_back(x[i]);
    }
    return rows;
  };
  std::vector<std::vector<float>> batches;
  while (dataset.next() > 0) batches.push_back(read());
  CHECK(batches.size() == 3);
  dataset.seek(2);
  REQUIRE(dataset.next() > 0);
  CHECK(read() == batches[2]);

  auto bad = ls::inputs(ls::range(3), ls::zip(ls::range(3), ls::range(3))).batch(2);
  CHECK_THROWS_WITH_AS(bad.begin({}),
                       doctest::Contains("the samples of dataset 2 of 2 have targets"),
                       ls::DataError);
}
