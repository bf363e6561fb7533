// Training on a stream of unknown length: the same figures on one device, on threads and on workers
// over TCP, also where a run is cut off and resumed; a worker whose stream ends earlier than those
// of the others waits for nobody, and nobody for it.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/data/stream.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "support/tcp_workers.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Net = ls::Sequential<ls::Input<3>, ls::Dense<6, ls::Tanh>, ls::Dropout<0.2>, ls::Dense<1>>;

/// `samples` rows; none: without an end.
auto rows(std::optional<int> samples) {
  return ls::from_stream(
      [samples] {
        return [samples, n = 0](ls::Sample<float>& sample) mutable {
          if (samples && n == *samples) return false;
          for (std::size_t f = 0; f < 3; ++f)
            sample.x[f] =
                static_cast<float>(std::sin(static_cast<double>(n * n) * (1.0 + double(f))));
          sample.y[0] = sample.x[0] - 2 * sample.x[1];
          ++n;
          return true;
        };
      },
      {.sample_size = 3, .target_size = 1, .keep = 4});
}
/// The same rows in an array.
auto array_of_rows(std::size_t samples) {
  std::vector<float> x(3 * samples), y(samples);
  for (std::size_t n = 0; n < samples; ++n) {
    for (std::size_t f = 0; f < 3; ++f)
      x[3 * n + f] = static_cast<float>(std::sin(static_cast<double>(n * n) * (1.0 + double(f))));
    y[n] = x[3 * n] - 2 * x[3 * n + 1];
  }
  return ls::from_tensor_slices(ls::Tensor<float>(x, {samples, 3}), y);
}

struct Result {
  std::vector<double> losses, validation_losses, weights;
  std::int64_t iterations = 0;
};

struct PowerFailure {
  std::optional<std::int64_t> before_update;
  void on_train_batch_begin(ls::Training& training, std::int64_t) const {
    if (before_update && training.iterations() == *before_update)
      throw std::runtime_error("power failure");
  }
};

template <class Samples>
Result train(TcpStrategy& strategy, const Samples& samples, const std::string& folder,
             std::optional<std::int64_t> fail_before) {
  auto model = ls::compile<Net, double>(strategy, {.seed = 4}, ls::MeanSquaredError{},
                                        ls::Adam{.learning_rate = 0.02});
  ls::BackupAndRestore backup{.backup_dir = folder + "-" + std::to_string(strategy.worker_index()),
                              .save_freq = 1,
                              .asynchronous = false};
  const PowerFailure failure{fail_before};
  const auto history = model.fit(
      samples.shuffle(10).batch(8).prefetch(1),
      {.epochs = 3, .verbose = 0, .validation_data = samples.take(20).batch(8)}, failure, backup);
  Result result{history["loss"], history["val_loss"], {}, model.iterations()};
  for (const auto& weight : model.get_weights())
    result.weights.insert(result.weights.end(), weight.values.begin(), weight.values.end());
  return result;
}

template <class Samples>
std::vector<Result> run(int workers, int replicas, const Samples& samples,
                        const std::string& folder, std::optional<std::int64_t> fail_before = {}) {
  return on_tcp_workers<Result>(
      workers, replicas, fail_before ? "power failure" : "",
      [&](TcpStrategy& strategy) { return train(strategy, samples, folder, fail_before); });
}

}  // namespace

TEST_CASE("a stream: equal figures on one device, on threads and on workers, resumed") {
  const TemporaryFolder folder;
  const Result array = run(1, 1, array_of_rows(101), folder.path("array")).front();
  CHECK(array.iterations == 3 * 13);
  const Result one = run(1, 1, rows(101), folder.path("one")).front();
  CHECK(one.weights == array.weights);
  CHECK(one.losses == array.losses);
  CHECK(one.validation_losses == array.validation_losses);
  for (const auto& [workers, replicas] : {std::pair{1, 2}, {2, 1}, {2, 2}}) {
    const std::string name = std::to_string(workers) + "x" + std::to_string(replicas);
    CAPTURE(name);
    const std::vector<Result> all = run(workers, replicas, rows(101), folder.path(name));
    CHECK(all.front().weights == all.back().weights);
    CHECK(all.front().iterations == one.iterations);
    for (std::size_t i = 0; i < one.weights.size(); ++i)
      CHECK(all.front().weights[i] == doctest::Approx(one.weights[i]).epsilon(1e-7));
    const std::string cut = folder.path(name + "-cut");
    run(workers, replicas, rows(101), cut, 20);
    const std::vector<Result> resumed = run(workers, replicas, rows(101), cut);
    CHECK(resumed.front().weights == all.front().weights);
    CHECK(resumed.front().losses.back() == all.front().losses.back());
  }
}

TEST_CASE("a stream without an end: an epoch has steps_per_epoch") {
  const std::vector<Result> all = on_tcp_workers<Result>(2, 1, "", [&](TcpStrategy& strategy) {
    auto model =
        ls::compile<Net, double>(strategy, {.seed = 4}, ls::MeanSquaredError{}, ls::Adam{});
    const auto history =
        model.fit(rows({}).batch(8), {.epochs = 3, .verbose = 0, .steps_per_epoch = 5});
    return Result{history["loss"], {}, {}, model.iterations()};
  });
  for (const Result& result : all) {
    CHECK(result.iterations == 15);
    CHECK(result.losses == all.front().losses);
  }
}

TEST_CASE("streams of the workers' own: one that ends earlier goes on without samples") {
  for (const auto& samples : {std::pair{40, 12}, {0, 25}, {16, 16}}) {
    const auto first = samples.first, second = samples.second;
    CAPTURE(first);
    CAPTURE(second);
    const std::vector<Result> all =
        on_tcp_workers<Result>(2, 1, "", [first, second](TcpStrategy& strategy) {
          auto model =
              ls::compile<Net, double>(strategy, {.seed = 4}, ls::MeanSquaredError{}, ls::Adam{});
          const auto own = rows(strategy.worker_index() == 0 ? first : second)
                               .batch(8)
                               .with_options({.auto_shard_policy = ls::AutoShardPolicy::off});
          const auto history = model.fit(own, {.epochs = 2, .verbose = 0});
          Result result{history["loss"], {}, {}, model.iterations()};
          for (const auto& weight : model.get_weights())
            result.weights.insert(result.weights.end(), weight.values.begin(), weight.values.end());
          return result;
        });
    CHECK(all.front().losses.size() == 2);
    CHECK(all.front().losses == all.back().losses);
    CHECK(all.front().weights == all.back().weights);
    CHECK(all.front().iterations == all.back().iterations);
    CHECK(all.front().iterations > 0);
  }
}

TEST_CASE("a stream that fails on one worker ends the training of all") {
  on_tcp_workers<Result>(2, 1, "the line is dead", [&](TcpStrategy& strategy) {
    auto model =
        ls::compile<Net, double>(strategy, {.seed = 4}, ls::MeanSquaredError{}, ls::Adam{});
    const int fails = strategy.worker_index() == 1 ? 20 : -1;
    const auto samples = ls::from_stream(
        [fails] {
          return [fails, n = 0](ls::Sample<float>& sample) mutable {
            if (n == fails) throw std::runtime_error("the line is dead");
            sample.x[0] = 1;
            return n++ < 64;
          };
        },
        {.sample_size = 3, .target_size = 1});
    model.fit(samples.batch(8), {.epochs = 1, .verbose = 0});
    return Result{};
  });
}
