// What users of Keras expect of MultiWorkerMirroredStrategy and of AutoShardPolicy, on two workers
// over TCP: a test for each behaviour, which bears its name.
#include <doctest/doctest.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/callbacks/csv_logger.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/mean_losses.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using TcpStrategy = ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>>;
using Line =
    ls::Sequential<ls::Input<1>, ls::Dense<1, ls::Linear, ls::DenseOptions{.use_bias = false}>>;

void on_two_workers(const std::function<void(TcpStrategy&)>& f) {
  const std::vector<std::string> addresses = lockstep_test::free_addresses(2);
  const auto thrown = lockstep_test::run_threads(2, [&](int rank) {
    ls::Cluster cluster;
    cluster.spec.worker = addresses;
    cluster.task.index = rank;
    TcpStrategy strategy(
        cluster, {.replicas = 1, .communication_options = lockstep_test::patient_options()});
    f(strategy);
  });
  for (const std::exception_ptr& exception : thrown)
    CHECK(lockstep_test::message_of(exception) == "");
}

/// y = w x with w = 1 misses these targets by 3, -3 and 0.3; the first worker has the first and the
/// last one.
ls::AnyDataset three_samples() {
  return ls::AnyDataset(ls::from_tensor_slices(ls::Tensor<double>({1, 1, 1}, {3, 1}),
                                               ls::Tensor<double>({-2, 4, 0.7}, {3, 1}))
                            .batch(3));
}

constexpr ls::MeanSquaredError loss;
constexpr ls::metrics::MeanAbsoluteError metric;

/// Sets w.
template <class M>
void begin_with_one(M& model) {
  auto weights = model.get_weights();
  weights[0].values = {1};
  model.set_weights(weights);
}

}  // namespace

TEST_SUITE_BEGIN("Keras: MultiWorkerMirroredStrategy");

TEST_CASE(
    "start-up: waits for every task, logs that the cluster is ready, and the chief's variables "
    "count") {
  const CapturedStderr output;
  std::vector<std::uint32_t> sums(2);
  on_two_workers([&](TcpStrategy& strategy) {
    const auto rank = static_cast<std::size_t>(strategy.worker_index());
    auto model = ls::compile<TinyNet>(strategy, {.seed = 10 + rank}, ls::MeanSquaredError{},
                                      ls::SGD{.learning_rate = 0.0});
    sums[rank] = model.parameters_crc32c();
  });
  CHECK(sums[0] == sums[1]);
  CHECK(contains(output.text(), "Cluster is ready: 2 workers."));
}

TEST_CASE(
    "gradients are summed over replicas and weighted by the number of samples, then clipped, then "
    "applied; weight decay is decoupled") {
  on_two_workers([](TcpStrategy& strategy) {
    // The mean of 6, -6 and 0.6 is 0.2; the mean of the workers' means would be -1.35, and that of
    // their clipped means 0.
    auto model = ls::compile<Line, double>(strategy, {.seed = 1}, loss,
                                           ls::SGD{.learning_rate = 1.0}, metric);
    begin_with_one(model);
    model.fit(three_samples(), {.epochs = 1, .verbose = 0});
    CHECK(model.get_weights()[0].values[0] == doctest::Approx(0.8).epsilon(1e-12));
    auto clipped = ls::compile<Line, double>(
        strategy, {.seed = 1}, loss,
        ls::SGD{.learning_rate = 1.0, .weight_decay = 0.25, .clipvalue = 0.1}, metric);
    begin_with_one(clipped);
    clipped.fit(three_samples(), {.epochs = 1, .verbose = 0});
    CHECK(clipped.get_weights()[0].values[0] == doctest::Approx(0.75 - 0.1).epsilon(1e-12));
  });
}

TEST_CASE(
    "loss and metrics are sums and counts over all workers: each logs the same exact figures") {
  std::vector<std::vector<double>> figures(2);
  on_two_workers([&](TcpStrategy& strategy) {
    auto model = ls::compile<Line, double>(strategy, {.seed = 1}, loss,
                                           ls::SGD{.learning_rate = 0.0}, metric);
    begin_with_one(model);
    const ls::History history = model.fit(three_samples(), {.epochs = 1, .verbose = 0});
    const ls::Logs logs = model.evaluate(three_samples(), {.verbose = 0});
    figures[static_cast<std::size_t>(strategy.worker_index())] = {
        history["loss"][0], history["mean_absolute_error"][0], logs.at("loss"),
        logs.at("mean_absolute_error")};
  });
  CHECK(figures[0] == figures[1]);
  REQUIRE(figures[0].size() == 4);
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    CHECK(figures[0][i] == doctest::Approx((9 + 9 + 0.09) / 3).epsilon(1e-12));
    CHECK(figures[0][i + 1] == doctest::Approx((3 + 3 + 0.3) / 3).epsilon(1e-12));
  }
}

TEST_CASE(
    "moving statistics of BatchNormalization are means across replicas; an empty batch leaves them "
    "unchanged") {
  using Net = ls::Sequential<ls::Input<1>, ls::BatchNormalization<>, ls::Dense<1>>;
  on_two_workers([](TcpStrategy& strategy) {
    auto model = ls::compile<Net, double>(strategy, {.seed = 1}, ls::MeanSquaredError{},
                                          ls::SGD{.learning_rate = 0.0});
    const auto moving_mean = [&] {
      for (const auto& weight : model.get_weights())
        if (weight.name.ends_with("moving_mean")) return weight.values[0];
      return -1.0;
    };
    // Momentum 0.99: a hundredth of the batch's mean. Worker 0 has 1 and 3, worker 1 has 7.
    const auto fit = [&](const std::vector<double>& x) {
      const std::size_t n = x.size();
      model.fit(ls::from_tensor_slices(ls::Tensor<double>(x, {n, 1}),
                                       ls::Tensor<double>(std::vector<double>(n), {n, 1}))
                    .batch(static_cast<std::int64_t>(n)),
                {.epochs = 1, .verbose = 0});
    };
    fit({1, 7, 3});
    CHECK(moving_mean() == doctest::Approx((2 * 0.02 + 0.07) / 3).epsilon(1e-9));
    const double before = moving_mean();
    fit({5});  // worker 1 has none
    CHECK(moving_mean() == doctest::Approx(0.99 * before + 0.05).epsilon(1e-9));
  });
}

TEST_CASE(
    "every worker runs every callback; only the chief writes summaries and the kept checkpoint") {
  const TemporaryFolder folder;
  on_two_workers([&](TcpStrategy& strategy) {
    const std::string own = folder.path(std::to_string(strategy.worker_index()));
    std::filesystem::create_directories(own);
    auto model = ls::compile<Line, double>(strategy, {.seed = 1}, loss,
                                           ls::SGD{.learning_rate = 0.0}, metric);
    begin_with_one(model);
    Recorder recorder;
    ls::CSVLogger csv({.filename = own + "/log.csv"});
    ls::ModelCheckpoint checkpoint({.filepath = own + "/model-{epoch}"});
    model.fit(three_samples(), {.epochs = 2, .verbose = 0}, recorder, csv, checkpoint);
    CHECK(recorder.count("epoch_end") == 2);
    CHECK(recorder.count("batch_end") == 2);
    CHECK(std::filesystem::exists(own + "/log.csv") == strategy.is_chief());
    CHECK(std::filesystem::exists(own + "/model-2") == strategy.is_chief());
  });
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("Keras: AutoShardPolicy");

namespace {

/// A file holds as many samples as its name says.
std::pair<ls::Tensor<double>, ls::Tensor<double>> read_line(const std::string& name) {
  const std::size_t n = std::stoul(name);
  return {ls::Tensor<double>(std::vector<double>(n, 1.0), {n, 1}),
          ls::Tensor<double>(std::vector<double>(n, 3.0), {n, 1})};
}

ls::AnyDataset samples(int count, ls::AutoShardPolicy policy) {
  const auto [x, y] = read_line(std::to_string(count));
  return ls::AnyDataset(
      ls::from_tensor_slices(x, y).with_options({.auto_shard_policy = policy}).batch(4));
}
ls::AnyDataset files(const std::vector<std::string>& names, ls::AutoShardPolicy policy) {
  return ls::AnyDataset(
      ls::from_files(names, read_line).with_options({.auto_shard_policy = policy}).batch(4));
}

}  // namespace

TEST_CASE("a last partial batch, an uneven shard or an empty shard never hangs, under any policy") {
  struct Case {
    ls::AnyDataset data;
    std::int64_t steps;  ///< of an epoch, on each worker
  };
  using enum ls::AutoShardPolicy;
  std::vector<Case> cases{
      {samples(1, data), 1},         // an empty shard
      {samples(5, data), 2},         // partial batches of 1, and of 2 and 1
      {samples(7, data), 2},         //
      {samples(8, data), 2},         //
      {samples(5, off), 3},          // 2, 2 and 1 on both workers
      {files({"4", "4"}, file), 2},  // 2 of the global 4 a step
      {files({"1", "6"}, file), 3},  // the first worker has no more after its first step
      {files({"0", "3"}, file), 2},  // the first worker never has one
      {files({"3", "0"}, file), 2},  // the chief alone has some
  };
  on_two_workers([&](TcpStrategy& strategy) {
    auto model = ls::compile<Line, double>(strategy, {.seed = 1}, loss,
                                           ls::SGD{.learning_rate = 0.0}, metric);
    begin_with_one(model);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(i);
      const ls::AnyDataset own = cases[i].data;
      Recorder recorder;
      const ls::History history =
          model.fit(own, {.epochs = 2, .verbose = 0, .validation_data = own}, recorder);
      CHECK(recorder.count("batch_end") == 2 * cases[i].steps);
      // All samples miss by 2, and empty parts count nothing.
      CHECK(history["loss"] == std::vector<double>{4, 4});
      CHECK(history["val_mean_absolute_error"] == std::vector<double>{2, 2});
    }
  });
}

TEST_CASE("a part that is empty on all workers, before more data, is no step and no end") {
  on_two_workers([&](TcpStrategy& strategy) {
    auto model = ls::compile<Line, double>(strategy, {.seed = 1}, loss,
                                           ls::SGD{.learning_rate = 0.0}, metric);
    begin_with_one(model);
    const auto [x, y] = read_line("5");
    const ls::AnyDataset endless(ls::from_tensor_slices(x, y)  // parts of 2, 2, 1 and none
                                     .with_options({.auto_shard_policy = ls::AutoShardPolicy::off})
                                     .batch(4)
                                     .repeat());
    Recorder recorder;
    const CapturedStderr captured;
    const ls::History history =
        model.fit(endless, {.epochs = 3, .verbose = 0, .steps_per_epoch = 5}, recorder);
    CHECK(recorder.count("batch_end") == 3 * 5);
    CHECK(history["loss"] == std::vector<double>{4, 4, 4});
    CHECK(model.iterations() == 3 * 5);
  });
}

TEST_CASE("automatic: what it has chosen, and why, is said in the log, by the chief") {
  using enum ls::AutoShardPolicy;
  const auto said = [](const ls::AnyDataset& dataset) {
    const CapturedStderr captured;
    on_two_workers([&](TcpStrategy& strategy) {
      auto model = ls::compile<Line, double>(strategy, {.seed = 1}, loss, ls::SGD{}, metric);
      const ls::AnyDataset own = dataset;
      model.fit(own, {.epochs = 1, .verbose = 2});
    });
    const std::string text = captured.text();
    const std::size_t at = text.find("data: ");
    if (at == std::string::npos || text.find("data: ", at + 1) != std::string::npos)
      return "not once: " + text;
    return text.substr(at, text.find(';', at) - at);
  };
  CHECK(said(samples(4, automatic)) ==
        "data: each worker takes its part of each batch (AutoShardPolicy::data, automatic: the "
        "dataset has no files)");
  CHECK(said(files({"2", "2"}, automatic)) ==
        "data: each worker reads its share of the files (AutoShardPolicy::file, automatic: 2 files "
        "for 2 workers)");
  CHECK(said(files({"4"}, automatic)) ==
        "data: each worker takes its part of each batch (AutoShardPolicy::data, automatic: 1 file "
        "is fewer than 2 workers)");
}

TEST_SUITE_END();
