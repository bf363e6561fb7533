// fit on several replicas.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/data/tensor_slices.hpp"
#include "support/model_testing.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

std::vector<float> weights_of(const TinyTrainer& trainer) {
  std::vector<float> all;
  for (const auto& weight : trainer.get_weights())
    all.insert(all.end(), weight.values.begin(), weight.values.end());
  return all;
}

template <class Values>
void check_close(const Values& a, const Values& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <= tolerance);
  }
}

/// The loss of every step of a run, and the parameters afterwards.
struct Trajectory {
  std::vector<double> losses;
  std::vector<float> parameters;
  std::vector<double> val_losses;

  Trajectory(int replicas, const ls::AnyDataset& data, ls::FitOptions options) {
    TinyTrainer trainer({.replicas = replicas, .learning_rate = 0.2, .momentum = 0.5});
    Recorder recorder;
    const ls::History history = trainer.fit(data, std::move(options), &recorder);
    for (const ls::Logs& logs : recorder.batch_logs) losses.push_back(logs.at("loss"));
    if (history.contains("val_loss")) val_losses = history["val_loss"];
    parameters = weights_of(trainer);
  }
};

/// The same run on 1 to 4 replicas.
void check_replicas(const ls::AnyDataset& data, const ls::FitOptions& options) {
  const Trajectory one(1, data, options);
  for (int replicas = 2; replicas <= 4; ++replicas) {
    CAPTURE(replicas);
    const Trajectory several(replicas, data, options);
    check_close(several.losses, one.losses, 1e-5);
    check_close(several.val_losses, one.val_losses, 1e-5);
    check_close(several.parameters, one.parameters, 1e-5);
  }
}

ls::AnyDataset batches(int samples, std::int64_t batch, bool drop_remainder = false) {
  const TinyData data(samples);
  return ls::AnyDataset(
      ls::from_tensor_slices(data.x, data.y).shuffle(samples).batch(batch, drop_remainder));
}

}  // namespace

TEST_CASE("replicas: 10 samples in batches of 12, several epochs") {
  check_replicas(batches(10, 12), {.epochs = 6, .validation_data = batches(7, 12)});
}

TEST_CASE("replicas: uneven parts, and a last partial batch") {
  check_replicas(batches(10, 4), {.epochs = 4});
  check_replicas(batches(33, 7), {.epochs = 3, .validation_data = batches(5, 3)});
}

TEST_CASE("replicas: batches with fewer samples than replicas") {
  check_replicas(batches(7, 2), {.epochs = 3, .validation_data = batches(1, 1)});
  check_replicas(batches(5, 1), {.epochs = 3});
}

TEST_CASE("replicas: data of unknown length, and data without end") {
  RowDataset data(TinyData(11), 4);
  data.reported_cardinality = ls::unknown_cardinality;
  check_replicas(data, {.epochs = 3});
  data.reported_cardinality = ls::infinite_cardinality;
  check_replicas(data, {.epochs = 3, .steps_per_epoch = 5});
}

TEST_CASE("replicas: 50 steps") {
  const TinyData data(400);
  check_replicas(
      ls::AnyDataset(ls::from_tensor_slices(data.x, data.y).shuffle(400).repeat().batch(64)),
      {.steps_per_epoch = 50});
}

TEST_CASE("replicas: two runs with one seed have equal bits, other seeds other ones") {
  for (int replicas = 1; replicas <= 3; ++replicas) {
    CAPTURE(replicas);
    const auto crc = [&](std::uint64_t seed) {
      TinyTrainer trainer({.replicas = replicas, .seed = seed});
      trainer.fit(batches(50, 8), {.epochs = 2});
      CHECK(trainer.seed() == seed);
      return trainer.parameters_crc32c();
    };
    CHECK(crc(1) == crc(1));
    CHECK(crc(1) != crc(2));
  }
}

TEST_CASE("replicas: reading ahead changes no bit") {
  const TinyData data(53);
  const auto pipeline = ls::from_tensor_slices(data.x, data.y).shuffle(30).batch(8);
  for (const int replicas : {1, 3}) {
    TinyTrainer plain({.replicas = replicas}), ahead({.replicas = replicas});
    plain.fit(ls::AnyDataset(pipeline), {.epochs = 3, .validation_data = pipeline});
    ahead.fit(ls::AnyDataset(pipeline.prefetch()),
              {.epochs = 3, .validation_data = pipeline.prefetch(3)});
    CHECK(ahead.parameters_crc32c() == plain.parameters_crc32c());
    CHECK(ahead.predict(ls::AnyDataset(pipeline.prefetch(1))) ==
          plain.predict(ls::AnyDataset(pipeline)));
  }
}

TEST_CASE("replicas: with and without callbacks the bits are the same") {
  for (const int replicas : {1, 3}) {
    TinyTrainer with({.replicas = replicas}), without({.replicas = replicas});
    const ls::FitOptions options{.epochs = 3, .validation_data = batches(9, 4)};
    with.fit(batches(50, 8), options);
    const ls::History history = without.fit_alone(batches(50, 8), options);
    CHECK(with.parameters_crc32c() == without.parameters_crc32c());
    CHECK(history["val_loss"].size() == 3);
  }
}

TEST_CASE("replicas: a callback's changes reach all of them at once") {
  const auto run = [](int replicas) {
    TinyTrainer trainer({.replicas = replicas, .learning_rate = 0.3});
    Recorder recorder;
    std::vector<std::byte> kept;
    recorder.at_batch_end = [](ls::Training& training, std::int64_t, ls::Logs&) {
      training.set_learning_rate(training.learning_rate() * 0.97);
    };
    recorder.at_epoch_begin = [](ls::Training& training, int) { training.set_learning_rate(0.3); };
    recorder.at_test_begin =
        [&](ls::Training& training) {  // validates with weights of its own, as averaging does
          kept = training.parameters();
          training.set_parameters(std::vector<std::byte>(kept.size()));
        };
    std::vector<double> val_losses;
    recorder.at_epoch_end = [&](ls::Training& training, int epoch, ls::Logs& logs) {
      val_losses.push_back(logs.at("val_loss"));
      if (epoch < 3) training.set_parameters(kept);
    };
    trainer.fit(batches(40, 10), {.epochs = 5, .validation_data = batches(64, 8)}, &recorder);
    for (const double loss : val_losses) CHECK(loss == doctest::Approx(std::log(3)).epsilon(1e-6));
    return weights_of(trainer);
  };
  const auto one = run(1);
  for (const int replicas : {2, 4}) check_close(run(replicas), one, 1e-5);
}

TEST_CASE("replicas: set_parameters refuses another size") {
  TinyTrainer trainer;
  Recorder recorder;
  std::string message;
  recorder.at_train_begin = [&](ls::Training& training) {
    message = message_of<ls::Error>([&] { training.set_parameters(std::vector<std::byte>(3)); });
  };
  trainer.fit(batches(10, 5), {}, &recorder);
  CHECK(contains(message, "bytes, got 3"));
}

TEST_CASE(
    "replicas: an exception in a callback ends fit with it, and the strategy can be used again") {
  for (int replicas = 1; replicas <= 4; ++replicas) {
    CAPTURE(replicas);
    TinyTrainer trainer({.replicas = replicas});
    for (int round = 0; round < 3; ++round) {
      Recorder recorder;
      recorder.at_batch_end = [](ls::Training&, std::int64_t batch, ls::Logs&) {
        if (batch == 2) throw std::runtime_error("mine");
      };
      CHECK(message_of<ls::Error>([&] { trainer.fit(batches(50, 8), {.epochs = 2}, &recorder); }) ==
            "fit, epoch 1, step 3, on_train_batch_end of Recorder: mine");
      CHECK(recorder.count("train_end") == 0);
    }
    CHECK(trainer.fit(batches(50, 8), {.epochs = 2})["loss"].size() == 2);
  }
}

TEST_CASE(
    "replicas: an exception in a dataset on one of them ends fit, evaluate and predict with it") {
  for (int replicas = 1; replicas <= 4; ++replicas)
    for (const std::int64_t bad : {8, 9, 10, 11}) {  // each replica's turn
      CAPTURE(replicas);
      CAPTURE(bad);
      TinyTrainer trainer({.replicas = replicas});
      RowDataset data(TinyData(20), 4);
      data.bad_sample = bad;
      const std::string expected = "sample " + std::to_string(bad) + " is damaged";
      CHECK(message_of<ls::DataError>([&] { trainer.fit(data, {.epochs = 2}); }) == expected);
      CHECK(message_of<ls::DataError>(
                [&] { trainer.fit(batches(8, 4), {.validation_data = data}); }) == expected);
      CHECK(message_of<ls::DataError>([&] { trainer.evaluate(data); }) == expected);
      CHECK(message_of<ls::DataError>([&] { trainer.predict(data); }) == expected);
      CHECK(trainer.fit(batches(20, 4))["loss"].size() == 1);
    }
}

TEST_CASE("replicas: a label that is no class is an error that says so, on any replica") {
  TinyTrainer trainer({.replicas = 3});
  TinyData data(20);
  data.y[7] = 3;
  CHECK(
      contains(message_of<ls::DataError>([&] { trainer.fit(data, {.batch_size = 6}); }), "label"));
}

TEST_CASE(
    "replicas: stop_on_non_finite ends fit before the step, on whatever replica the loss is not "
    "finite") {
  for (int replicas = 1; replicas <= 3; ++replicas)
    for (const int bad : {8, 11}) {
      CAPTURE(replicas);
      CAPTURE(bad);
      TinyData good(8), data(20);
      data.x.topRows(8) = good.x;
      std::copy(good.y.begin(), good.y.end(), data.y.begin());
      data.x(bad, 2) = std::numeric_limits<float>::infinity();
      const ls::FitOptions options{.batch_size = 4, .shuffle = false, .stop_on_non_finite = true};
      TinyTrainer expected({.replicas = replicas}), trainer({.replicas = replicas});
      expected.fit(good, options);
      CHECK(contains(
          message_of<ls::Error>([&] { trainer.fit(data, options); }),
          "fit: the loss is not finite in step 3 of epoch 1, on 1 of " + std::to_string(replicas)));
      CHECK(trainer.parameters_crc32c() == expected.parameters_crc32c());  // after two steps
      CHECK(trainer.iterations() == 2);
    }
}

TEST_CASE("replicas: where memory ends, the message says what was being done") {
  const TinyData data(20);
  const auto train = ls::from_tensor_slices(data.x, data.y)
                         .map([](auto& sample) {
                           if (sample.index == 9) throw std::bad_alloc();
                         })
                         .batch(4);
  for (int replicas = 1; replicas <= 3; ++replicas) {
    CAPTURE(replicas);
    TinyTrainer trainer({.replicas = replicas});
    const std::string message =
        message_of<ls::Error>([&] { trainer.fit(ls::AnyDataset(train), {}); });
    CHECK(contains(message, ": out of memory"));
    CHECK(message.starts_with("fit"));
    if (replicas == 1) CHECK(contains(message, "fit, epoch 1, step 3: out of memory"));
    CHECK(trainer.iterations() == 2);
  }
}
