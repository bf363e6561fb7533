#include "lockstep/model/model.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/step/workspace.hpp"
#include "lockstep/strategies/one_device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "data/support.hpp"
#include "support/model_testing.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using OneDeviceModel = ls::Model<TinyNet, float, ls::OneDeviceStrategy,
                                 ls::SparseCategoricalCrossentropy, ls::SGD, ls::Accuracy>;
static_assert(!std::is_copy_constructible_v<OneDeviceModel> &&
              !std::is_copy_assignable_v<OneDeviceModel>);

const RowDataset& data() {
  static const RowDataset rows(TinyData(22), 5);
  return rows;
}

}  // namespace

TEST_CASE("compile: with one strategy and another, one seed gives equal bits") {
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<TinyNet>(strategy, {.seed = 7},
                                    ls::SparseCategoricalCrossentropy{.from_logits = true},
                                    ls::SGD{.learning_rate = 0.1}, ls::Accuracy{});
  static_assert(std::is_same_v<decltype(model), OneDeviceModel>);
  TinyTrainer trainer;
  CHECK(model.parameters_crc32c() == trainer.parameters_crc32c());
  const ls::History history = model.fit(ls::AnyDataset(data()), {.epochs = 3, .verbose = 0});
  CHECK(history["loss"] == trainer.fit(data(), {.epochs = 3})["loss"]);
  CHECK(model.parameters_crc32c() == trainer.parameters_crc32c());
  CHECK(model.iterations() == 15);
  CHECK(model.seed() == 7);
  CHECK(model.learning_rate() == 0.1);
}

TEST_CASE("compile: without a seed each model draws its own") {
  ls::OneDeviceStrategy strategy;
  const ls::SparseCategoricalCrossentropy loss{.from_logits = true};
  const auto a = ls::compile<TinyNet>(strategy, loss, ls::SGD{}, ls::Accuracy{});
  const auto b = ls::compile<TinyNet>(strategy, loss, ls::SGD{}, ls::Accuracy{});
  CHECK(a.seed() != b.seed());
  CHECK(a.parameters_crc32c() != b.parameters_crc32c());
}

TEST_CASE("compile: an optimizer's wrong options are refused") {
  CHECK_THROWS_AS(TinyTrainer({.momentum = 1.5}), ls::ConfigurationError);
  CHECK_THROWS_AS(TinyTrainer({.learning_rate = -1}), ls::ConfigurationError);
}

TEST_CASE("SGD with momentum through the model equals a loop by hand") {
  const double rate = 0.15, momentum = 0.9;
  TinyTrainer trainer({.learning_rate = rate, .momentum = momentum});
  const ls::SparseCategoricalCrossentropy loss{.from_logits = true};
  const ls::detail::Compiled<TinyNet, double, ls::SparseCategoricalCrossentropy, ls::SGD> program(
      loss, {}, {});
  ls::detail::Workspace<double> replica(program,
                                        [](std::size_t bytes) { return ls::Buffer(bytes); });
  std::vector<std::vector<double>> weights, moments;
  for (const auto& weight : trainer.get_weights())
    weights.emplace_back(weight.values.begin(), weight.values.end());
  std::vector<std::span<double>> slices;
  for (auto& weight : weights) {
    moments.emplace_back(weight.size());
    slices.emplace_back(weight);
  }
  const TinyData rows(22);
  for (int epoch = 0; epoch < 4; ++epoch)
    for (int first = 0; first < 22; first += 5) {
      const int count = std::min(5, 22 - first);
      replica.resize(static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) {
        const auto row = static_cast<std::size_t>(i);
        for (int f = 0; f < 4; ++f)
          replica.batch().x(row, static_cast<std::size_t>(f)) =
              static_cast<double>(rows.x(first + i, f));
        replica.batch().targets(row, 0) = rows.y[static_cast<std::size_t>(first + i)];
      }
      const ls::StepContext context{.training = true};
      replica.forward(context, slices);
      loss.compute(replica.predictions(), ls::TensorView<const double>(replica.targets()),
                   replica.losses(), replica.prediction_gradient());
      replica.backward(context, slices);
      for (std::size_t v = 0; v < weights.size(); ++v)
        for (std::size_t i = 0; i < weights[v].size(); ++i) {
          moments[v][i] =
              momentum * moments[v][i] - rate * replica.gradients().slices()[v][i] / count;
          weights[v][i] += moments[v][i];
        }
    }

  trainer.fit(data(), {.epochs = 4});
  const auto trained = trainer.get_weights();
  for (std::size_t v = 0; v < weights.size(); ++v)
    for (std::size_t i = 0; i < weights[v].size(); ++i)
      CHECK(std::abs(static_cast<double>(trained[v].values[i]) - weights[v][i]) < 1e-5);
}

TEST_CASE("get_weights: names, shapes and values of every variable") {
  const TinyTrainer trainer;
  const auto weights = trainer.get_weights();
  REQUIRE(weights.size() == 4);
  CHECK(weights[0].name == "user_dense/kernel");
  CHECK(weights[0].shape == std::vector<std::size_t>{4, 6});
  CHECK(weights[0].values.size() == 24);
  CHECK(weights[3].name == "user_dense_1/bias");
  CHECK(weights[3].shape == std::vector<std::size_t>{3});
  CHECK(weights[3].values == std::vector<float>(3));
}

TEST_CASE(
    "set_weights: what get_weights gave makes another model the same, on any number of replicas") {
  TinyTrainer trained({.seed = 1});
  trained.fit(data(), {.epochs = 2});
  for (const int replicas : {1, 3}) {
    TinyTrainer other({.replicas = replicas, .seed = 2});
    other.set_weights(trained.get_weights());
    CHECK(other.parameters_crc32c() == trained.parameters_crc32c());
    CHECK(other.evaluate(data()).at("loss") ==
          doctest::Approx(trained.evaluate(data()).at("loss")));
  }
}

TEST_CASE("set_weights: refuses other numbers and shapes by name, and changes nothing") {
  TinyTrainer trainer;
  const std::uint32_t before = trainer.parameters_crc32c();
  const auto message = [&](auto change) {
    auto weights = trainer.get_weights();
    for (auto& weight : weights)
      for (float& value : weight.values) value = 9;
    change(weights);
    const std::string text =
        message_of<ls::ConfigurationError>([&] { trainer.set_weights(weights); });
    CHECK(trainer.parameters_crc32c() == before);
    return text;
  };
  CHECK(contains(message([](auto& w) { w.pop_back(); }), "expected 4 arrays, got 3"));
  CHECK(contains(message([](auto& w) { w.clear(); }), "expected 4 arrays, got 0"));
  CHECK(contains(message([](auto& w) {
                   w[2].shape = {3, 6};
                 }),
                 "expected user_dense_1/kernel (6, 3)"));
  CHECK(contains(message([](auto& w) { w[3].shape = {3, 1}; }), "expected user_dense_1/bias (3)"));
  CHECK(contains(message([](auto& w) { w[1].values.pop_back(); }), "with 5 values"));
}

TEST_CASE("set_weights: by name, in any order; all others stay") {
  for (const int replicas : {1, 2}) {
    TinyTrainer trainer({.replicas = replicas, .seed = 1});
    trainer.fit(data(), {.epochs = 1});
    auto expected = trainer.get_weights();
    expected[3].values = {1, 2, 3};
    expected[0].values.assign(24, 0.25F);
    trainer.set_weights({expected[3], expected[0]}, {.by_name = true});
    const auto found = trainer.get_weights();
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i].values == expected[i].values);
    trainer.fit(data(), {.epochs = 1});
    TinyTrainer other({.replicas = replicas, .seed = 1});
    other.fit(data(), {.epochs = 1});
    other.set_weights(expected);
    other.fit(data(), {.epochs = 1});
    CHECK(trainer.parameters_crc32c() == other.parameters_crc32c());  // on all replicas
  }
  TinyTrainer trainer;
  const std::uint32_t before = trainer.parameters_crc32c();
  const auto message = [&](std::vector<ls::Weight<float>> weights) {
    const std::string text = message_of<ls::ConfigurationError>(
        [&] { trainer.set_weights(weights, {.by_name = true}); });
    CHECK(trainer.parameters_crc32c() == before);
    return text;
  };
  const ls::Weight<float> bias{"user_dense_1/bias", {3}, {1, 2, 3}};
  CHECK(contains(message({bias, {"dense/bias", {3}, {1, 2, 3}}}),
                 "the model has no variable 'dense/bias'; it has user_dense/kernel, "));
  CHECK(contains(message({bias, bias}), "'user_dense_1/bias' is given twice"));
  CHECK(contains(message({{bias.name, {1}, {1}}}), "expected user_dense_1/bias (3), got "));
}

TEST_CASE("fit: a second one goes on with weights, moments and updates of the first") {
  TinyTrainer once({.momentum = 0.9}), twice({.momentum = 0.9});
  once.fit(data(), {.epochs = 4});
  twice.fit(data(), {.epochs = 2});
  twice.fit(data(), {.epochs = 4, .initial_epoch = 2});
  CHECK(twice.iterations() == 20);
  CHECK(twice.parameters_crc32c() == once.parameters_crc32c());
}

TEST_CASE("fit: data of another size than the model's are refused") {
  TinyTrainer trainer;
  const ls::AnyDataset wide(
      ls::from_tensor_slices(std::vector<float>(10), std::vector<int>(10)).batch(5));
  const std::string expected =
      "the model's Input is (4), the dataset's samples are (1): give samples of that shape";
  CHECK(contains(message_of<ls::DataError>([&] { trainer.fit(wide); }), expected));
  CHECK(contains(message_of<ls::DataError>([&] { trainer.evaluate(wide); }), expected));
  CHECK(contains(message_of<ls::DataError>([&] { trainer.predict(wide); }), expected));
}

TEST_CASE("fit: one-hot targets with the sparse loss are refused by the name of the other one") {
  TinyTrainer trainer;
  const ls::Tensor<float> x(std::vector<float>(40), {10, 4}),
      one_hot(std::vector<float>(30), {10, 3});
  const ls::AnyDataset data(ls::from_tensor_slices(x, one_hot).batch(5));
  for (const std::string& message : {message_of<ls::DataError>([&] { trainer.fit(data); }),
                                     message_of<ls::DataError>([&] { trainer.evaluate(data); })})
    CHECK(contains(message,
                   "the loss sparse_categorical_crossentropy expects targets of (1), the dataset's "
                   "are of (3): one-hot "
                   "targets are for CategoricalCrossentropy"));
}

TEST_CASE("fit: a loss that is not finite is reported as it is") {
  TinyTrainer trainer;
  TinyData bad(10);
  bad.x(4, 1) = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(trainer.fit(bad)["loss"][0]));
}

namespace {

std::vector<int> count_to(int n) {
  std::vector<int> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

const std::vector<int> ten = count_to(10);

ls::AnyDataset training(ls::FitOptions& options) {
  return ls::detail::training_data(ten, ten, options);
}

}  // namespace

TEST_CASE(
    "array_data: the rows in order, 32 in a batch unless told otherwise, with targets or without") {
  const auto all = ls::detail::array_data("evaluate", std::nullopt, ten, ten);
  CHECK(batches_of(all) == Batches{range(0, 10)});
  CHECK(all.target_size() == 1);
  const auto without = ls::detail::array_data("predict", 4, ten);
  CHECK(batches_of(without) == Batches{range(0, 4), range(4, 8), range(8, 10)});
  CHECK(without.target_size() == 0);
  CHECK(message_of<ls::ConfigurationError>([] {
          (void)ls::detail::array_data("predict", 0, ten);
        }) == "predict: batch_size must be at least 1, got 0");
  CHECK_THROWS_AS((void)ls::detail::array_data("evaluate", 4, ten, count_to(9)), ls::DataError);
}

TEST_CASE("training_data: shuffled anew each epoch, or in order") {
  ls::FitOptions options{.batch_size = 4};
  const auto shuffled = training(options);
  const auto epoch = [&](std::int64_t number) {
    return flat(batches_of(shuffled, {.seed = 3, .number = number}));
  };
  CHECK(sorted(epoch(0)) == range(0, 10));
  CHECK(epoch(0) != range(0, 10));
  CHECK(epoch(0) != epoch(1));
  options.shuffle = false;
  CHECK(batches_of(training(options)) == Batches{range(0, 4), range(4, 8), range(8, 10)});
  CHECK_FALSE(options.validation_data);
}

TEST_CASE(
    "training_data: the last share of the samples is for validation, in order, before anything is "
    "shuffled") {
  ls::FitOptions options{.batch_size = 2, .validation_split = 0.3};
  const auto train = training(options);
  CHECK(sorted(flat(batches_of(train, {.seed = 3}))) == range(0, 7));
  REQUIRE(options.validation_data);
  CHECK(batches_of(options.validation_data, {.seed = 3}) == Batches{range(7, 9), range(9, 10)});
}

TEST_CASE("training_data: validation data of one's own leave all samples for training") {
  ls::FitOptions options{.validation_split = 0.3,
                         .validation_data = ls::detail::array_data("fit", 1, ten, ten)};
  CHECK(flat(batches_of(training(options))).size() == 10);
  CHECK(options.validation_data.cardinality() == 10);
}

namespace {

constexpr std::array trained_variables{ls::Variable{"kernel", {2, 3}, nullptr},
                                       ls::Variable{"bias", {3}, nullptr},
                                       ls::Variable{"kernel", {3}, nullptr}};
constexpr std::array untrained_variables{ls::Variable{"mean", {3}, nullptr}};

/// Three trained variables, and one of another kind before the last.
struct Arenas {
  ls::Arena<float> trained{trained_variables};
  ls::Arena<float> untrained{untrained_variables};

  [[nodiscard]] std::vector<ls::detail::NamedArray<float>> arrays() const {
    return {{"a/kernel", &trained_variables[0], trained.slices()[0]},
            {"a/bias", &trained_variables[1], trained.slices()[1]},
            {"b/mean", &untrained_variables[0], untrained.slices()[0]},
            {"c/kernel", &trained_variables[2], trained.slices()[2]}};
  }
};

}  // namespace

TEST_CASE("weights: what is copied out of one model can be put into another") {
  const Arenas from, to;
  float next = 1;
  for (const auto& array : from.arrays())
    for (float& value : array.values) value = next++;
  const auto weights = ls::detail::copy_weights(from.arrays());
  CHECK(weights[0].shape == std::vector<std::size_t>{2, 3});
  CHECK(weights[2].name == "b/mean");
  CHECK(weights[2].values == std::vector<float>{10, 11, 12});
  ls::detail::check_weights(weights, to.arrays());
  ls::detail::put_weights(weights, to.arrays());
  CHECK(std::ranges::equal(to.trained.values(), from.trained.values()));
  CHECK(std::ranges::equal(to.untrained.values(), from.untrained.values()));
}

TEST_CASE("weights: other numbers and shapes are refused by name") {
  const Arenas arenas;
  const auto message = [&](auto change) {
    auto weights = ls::detail::copy_weights(arenas.arrays());
    change(weights);
    return message_of<ls::ConfigurationError>(
        [&] { ls::detail::check_weights(weights, arenas.arrays()); });
  };
  CHECK(contains(message([](auto& w) { w.pop_back(); }), "expected 4 arrays, got 3"));
  CHECK(contains(message([](auto& w) {
                   w[0].shape = {3, 2};
                 }),
                 "expected a/kernel (2, 3), got 'a/kernel' (3, 2)"));
  CHECK(contains(message([](auto& w) { w[2].shape = {}; }), "expected b/mean (3)"));
  CHECK(contains(message([](auto& w) { w[3].values.push_back(0); }), "with 4 values"));
}
