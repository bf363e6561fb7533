#include "lockstep/training/evaluate.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/discretization.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

ls::AnyDataset batches(int samples, std::int64_t batch) {
  const TinyData data(samples);
  return ls::AnyDataset(ls::from_tensor_slices(data.x, data.y).batch(batch));
}

}  // namespace

TEST_CASE("evaluate: any number of replicas gives the same figures, weighted by samples") {
  for (const std::int64_t batch : {1, 3, 7, 40}) {
    TinyTrainer one;
    const ls::Logs expected = one.evaluate(batches(23, 23));
    for (int replicas = 1; replicas <= 4; ++replicas) {
      CAPTURE(replicas);
      TinyTrainer trainer({.replicas = replicas});
      const ls::Logs logs = trainer.evaluate(batches(23, batch));
      CHECK(logs.begin()->first == "loss");
      CHECK(logs.at("loss") == doctest::Approx(expected.at("loss")).epsilon(1e-6));
      CHECK(logs.at("accuracy") == expected.at("accuracy"));
      CHECK(trainer.iterations() == 0);
    }
  }
}

TEST_CASE("evaluate: the order of hooks") {
  TinyTrainer trainer;
  Recorder recorder;
  trainer.evaluate(batches(10, 4), {}, &recorder);
  CHECK(recorder.calls == std::vector<std::string>{"test_begin", "test_batch_begin 0",
                                                   "test_batch_end 0", "test_batch_begin 1",
                                                   "test_batch_end 1", "test_batch_begin 2",
                                                   "test_batch_end 2", "test_end"});
}

TEST_CASE("evaluate: plain arrays, and some steps of data without end") {
  TinyTrainer trainer;
  const TinyData data(20);
  const ls::Logs all = trainer.evaluate(batches(20, 20));
  CHECK(trainer.evaluate(data).at("loss") == doctest::Approx(all.at("loss")).epsilon(1e-6));
  CHECK(trainer.evaluate(data, {.batch_size = 7}).at("accuracy") == all.at("accuracy"));
  RowDataset endless(data, 5);
  endless.reported_cardinality = ls::infinite_cardinality;
  CHECK(trainer.evaluate(endless, {.steps = 4}).at("loss") ==
        doctest::Approx(all.at("loss")).epsilon(1e-6));
  CHECK(trainer.evaluate(endless, {.steps = 8}).at("accuracy") ==
        all.at("accuracy"));  // twice the same
}

TEST_CASE("evaluate: wrong options and empty data are errors") {
  for (const int replicas : {1, 2}) {
    TinyTrainer trainer({.replicas = replicas});
    RowDataset data(TinyData(10), 5);
    CHECK_THROWS_AS((void)trainer.evaluate(data, {.steps = 0}), ls::ConfigurationError);
    CHECK_THROWS_AS((void)trainer.evaluate(data, {.batch_size = 5}), ls::ConfigurationError);
    CHECK_THROWS_AS((void)trainer.evaluate(TinyData(10), {.batch_size = 0}),
                    ls::ConfigurationError);
    CHECK_THROWS_AS((void)trainer.evaluate(ls::AnyDataset()), ls::ConfigurationError);
    data.reported_cardinality = ls::infinite_cardinality;
    CHECK_THROWS_AS((void)trainer.evaluate(data), ls::ConfigurationError);
    CHECK(contains(message_of<ls::DataError>([&] { trainer.evaluate(RowDataset(TinyData(0), 5)); }),
                   "the data is empty"));
  }
}

TEST_CASE("evaluate, predict: steps beyond the data are said") {
  for (const int replicas : {1, 2}) {
    TinyTrainer trainer({.replicas = replicas});
    const CapturedStderr output;
    trainer.evaluate(batches(20, 5), {.steps = 4});
    trainer.predict(batches(20, 5), {.steps = 4});
    CHECK(output.text().empty());
    trainer.evaluate(batches(20, 5), {.steps = 5});
    CHECK(contains(
        output.text(),
        "warning: evaluate: the data ran out after 4 of 5 batches; use repeat() for more data"));
    trainer.predict(batches(20, 5), {.steps = 7});
    CHECK(contains(output.text(), "warning: predict: the data ran out after 4 of 7 batches"));
  }
}

TEST_CASE("predict: all rows, in the order of the dataset, whatever batch and number of replicas") {
  const TinyData data(23);
  TinyTrainer one;
  const TinyTrainer::Matrix expected = one.predict(data, {.batch_size = 23});
  REQUIRE(expected.rows() == 23);
  REQUIRE(expected.cols() == 3);
  for (int replicas = 1; replicas <= 4; ++replicas) {
    TinyTrainer trainer({.replicas = replicas});
    for (const std::int64_t batch : {1, 2, 3, 4, 5, 16, 23, 100}) {
      CAPTURE(replicas);
      CAPTURE(batch);
      const TinyTrainer::Matrix rows = trainer.predict(data, {.batch_size = batch});
      REQUIRE(rows.rows() == 23);
      CHECK(rows.isApprox(expected, 1e-6F));
    }
    CHECK(trainer.predict(RowDataset(data, 5), {.steps = 2}).isApprox(expected.topRows(10), 1e-6F));
  }
}

TEST_CASE("predict: data with and without targets, and hooks") {
  TinyTrainer trainer;
  Recorder recorder;
  const TinyData data(7);
  const TinyTrainer::Matrix rows = trainer.predict(data);
  CHECK(trainer.predict(ls::AnyDataset(ls::from_tensor_slices(data.x, data.y).batch(7)), {},
                        &recorder) == rows);
  CHECK(recorder.calls == std::vector<std::string>{"predict_begin", "predict_batch_begin 0",
                                                   "predict_batch_end 0", "predict_end"});
}

TEST_CASE("predict: no data are no rows; wrong options are errors") {
  TinyTrainer trainer({.replicas = 2});
  const TinyTrainer::Matrix none = trainer.predict(TinyData(0));
  CHECK(none.rows() == 0);
  CHECK(none.cols() == 3);
  RowDataset data(TinyData(10), 5);
  CHECK_THROWS_AS((void)trainer.predict(data, {.steps = 0}), ls::ConfigurationError);
  CHECK_THROWS_AS((void)trainer.predict(data, {.batch_size = 5}), ls::ConfigurationError);
  CHECK_THROWS_AS((void)trainer.predict(TinyData(10), {.batch_size = -1}), ls::ConfigurationError);
  data.reported_cardinality = ls::infinite_cardinality;
  CHECK_THROWS_AS((void)trainer.predict(data), ls::ConfigurationError);
}

TEST_CASE("predict: changes nothing") {
  TinyTrainer trainer({.momentum = 0.9}), other({.momentum = 0.9});
  const RowDataset data(TinyData(20), 5);
  trainer.fit(data);
  other.fit(data);
  trainer.predict(data);
  trainer.evaluate(data);
  trainer.fit(data);
  other.fit(data);
  CHECK(trainer.parameters_crc32c() == other.parameters_crc32c());
}

namespace {

using Net = ls::Sequential<ls::Input<2, 3>, ls::Normalization<>, ls::Flatten, ls::Normalization<>,
                           ls::Dense<1>>;
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Far from zero, and another deviation for each channel.
Rows rows(int samples) {
  Rows x(samples, 6);
  for (Eigen::Index i = 0; i < x.size(); ++i)
    x.data()[i] = 1000 + static_cast<float>((i * 37 % 101) * (i % 3 + 1));
  return x;
}

template <class F>
void with_model(int replicas, const F& f) {
  ls::MirroredStrategy strategy({.replicas = replicas});
  auto model = ls::compile<Net>(strategy, {.seed = 3}, ls::MeanSquaredError{}, ls::SGD{});
  f(model);
}

}  // namespace

TEST_CASE("adapt: mean and variance of the whole dataset, on any number of replicas") {
  const Rows x = rows(19);
  double mean[3] = {}, variance[3] = {};
  for (Eigen::Index i = 0; i < x.size(); ++i) mean[i % 3] += static_cast<double>(x.data()[i]) / 38;
  for (Eigen::Index i = 0; i < x.size(); ++i)
    variance[i % 3] += std::pow(static_cast<double>(x.data()[i]) - mean[i % 3], 2) / 38;
  for (const int replicas : {1, 2, 3}) {
    CAPTURE(replicas);
    with_model(replicas, [&](auto& model) {
      model.adapt(ls::from_tensor_slices(x).batch(5));
      const auto weights = model.get_weights();
      REQUIRE(weights[0].name == "normalization/mean");
      for (std::size_t c = 0; c < 3; ++c) {
        CHECK(std::abs(static_cast<double>(weights[0].values[c]) - mean[c]) < 1e-3);
        CHECK(std::abs(static_cast<double>(weights[1].values[c]) / variance[c] - 1) < 1e-6);
      }
      // The second layer sees what the first one has normalised.
      REQUIRE(weights[2].name == "normalization_1/mean");
      for (Eigen::Index f = 0; f < 6; ++f) {
        const auto c = static_cast<std::size_t>(f % 3);
        const double expected = (x.col(f).cast<double>().mean() - mean[c]) / std::sqrt(variance[c]);
        CHECK(std::abs(static_cast<double>(weights[2].values[static_cast<std::size_t>(f)]) -
                       expected) < 1e-4);
      }
    });
  }
}

TEST_CASE("adapt: boundaries of a Discretization, the same bits on any number of replicas") {
  using Bins = ls::Sequential<ls::Input<6>, ls::Normalization<>, ls::Discretization<5>,
                              ls::Embedding<5, 2>, ls::Flatten, ls::Dense<1>>;
  std::vector<float> first;
  for (const int replicas : {1, 2, 3}) {
    CAPTURE(replicas);
    ls::MirroredStrategy strategy({.replicas = replicas});
    auto model = ls::compile<Bins>(strategy, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
    const auto data = ls::from_tensor_slices(rows(19), std::vector<float>(19)).batch(5);
    {
      model.set_weights([&] {  // as if the first layer were adapted
        auto weights = model.get_weights();
        weights[1].values[0] = 2;
        return weights;
      }());
      const CapturedStderr output;
      model.fit(data, {.verbose = 0});
      CHECK(output.text() ==
            "lockstep: warning: fit: the layer 'discretization' has no boundaries but 0: call "
            "model.adapt(data) before fit, or load_weights\n");
    }
    model.adapt(data);
    const auto weights = model.get_weights();
    REQUIRE(weights[2].name == "discretization/bin_boundaries");
    if (first.empty()) first = weights[2].values;
    CHECK(weights[2].values == first);
    CHECK(std::ranges::is_sorted(first));
    CHECK(first[0] < first[3]);
    auto loaded = ls::compile<Bins>(strategy, {.seed = 2}, ls::MeanSquaredError{}, ls::SGD{});
    loaded.set_weights(weights);
    CHECK(loaded.get_weights()[2].values == first);
    CHECK(loaded.predict(rows(7)) == model.predict(rows(7)));
  }
}

TEST_CASE("adapt: plain arrays, and some of the batches") {
  with_model(1, [&](auto& model) {
    model.adapt(rows(7), {.batch_size = 3});
    const auto all = model.get_weights();
    model.adapt(ls::from_tensor_slices(rows(19)).batch(7), {.steps = 1});
    CHECK(std::abs(model.get_weights()[0].values[1] - all[0].values[1]) < 1e-3F);
  });
}

TEST_CASE("adapt: fit says once where it was forgotten, and nothing where it was not") {
  for (const int replicas : {1, 2})
    with_model(replicas, [&](auto& model) {
      const auto data = ls::from_tensor_slices(rows(12), std::vector<float>(12)).batch(6);
      const CapturedStderr output;
      model.fit(data, {.verbose = 0});
      CHECK(output.text() ==
            "lockstep: warning: fit: the layer 'normalization' has mean 0 and variance 1, and "
            "changes nothing: call model.adapt(data) before fit, or load_weights\n");
      model.adapt(data);
      const std::string before = output.text();
      model.fit(data, {.verbose = 0});
      CHECK(output.text() == before);
    });
}

TEST_CASE("adapt: what cannot be is an error and changes nothing") {
  with_model(2, [&](auto& model) {
    CHECK_THROWS_AS(model.adapt(rows(0)), ls::DataError);
    CHECK(model.get_weights()[1].values[0] == 1);
    CHECK_THROWS_AS(model.adapt(ls::from_tensor_slices(rows(3)).batch(2), {.steps = 0}),
                    ls::ConfigurationError);
  });
  ls::OneDeviceStrategy strategy;
  auto bare = ls::compile<ls::Sequential<ls::Input<6>, ls::Dense<1>>>(
      strategy, ls::MeanSquaredError{}, ls::SGD{});
  CHECK_THROWS_WITH_AS(
      bare.adapt(rows(3)),
      "adapt: the model has no layer that is adapted to data, such as Normalization",
      ls::ConfigurationError);
}
