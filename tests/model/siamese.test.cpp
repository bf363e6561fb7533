// Two inputs through one tower: the same figures on one device, on threads and on workers over TCP,
// also where a run is cut off and resumed; the tower's weights are in a file once.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/inputs_outputs.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/shared.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/tcp_workers.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using In = ls::Inputs<ls::NamedInput<"left", 4>, ls::NamedInput<"right", 4>>;
using Tower = ls::Sequential<ls::Dense<16, ls::Tanh>, ls::BatchNormalization<>, ls::Dropout<0.1>,
                             ls::Dense<8>>;
using Net = ls::Sequential<In, ls::Shared<ls::Multiply, Tower, In::Get<"left">, In::Get<"right">>,
                           ls::Dense<1>, ls::Activation<ls::Sigmoid>>;

/// Pairs of points, and whether they are on one side.
auto pairs() {
  constexpr std::size_t rows = 240;
  ls::RandomStream random{ls::RandomKey(5)};
  std::vector<double> left(4 * rows), right(4 * rows), same(rows);
  for (std::vector<double>* values : {&left, &right})
    for (double& value : *values) value = random.uniform(-1, 1);
  for (std::size_t i = 0; i < rows; ++i)
    same[i] = (left[4 * i] + left[4 * i + 1] > 0) == (right[4 * i] + right[4 * i + 1] > 0);
  return ls::zip(ls::inputs(ls::from_tensor_slices(ls::Tensor<double>(left, {rows, 4})),
                            ls::from_tensor_slices(ls::Tensor<double>(right, {rows, 4}))),
                 ls::from_tensor_slices(same));
}

struct Result {
  std::vector<double> weights, losses, accuracies;
};

struct PowerFailure {
  std::optional<std::int64_t> before_update;
  void on_train_batch_begin(ls::Training& training, std::int64_t) const {
    if (before_update && training.iterations() == *before_update)
      throw std::runtime_error("power failure");
  }
};

template <class Strategy>
auto compile(Strategy& strategy) {
  return ls::compile<Net, double>(strategy, {.seed = 3}, ls::BinaryCrossentropy{},
                                  ls::Adam{.learning_rate = 0.02}, ls::BinaryAccuracy{});
}

std::vector<Result> run(int workers, int replicas, const std::string& folder,
                        std::optional<std::int64_t> fail_before = {}) {
  return on_tcp_workers<Result>(
      workers, replicas, fail_before ? "power failure" : "", [&](TcpStrategy& strategy) {
        auto model = compile(strategy);
        ls::BackupAndRestore backup{
            .backup_dir = folder + "-" + std::to_string(strategy.worker_index()),
            .save_freq = 1,
            .asynchronous = false};
        const PowerFailure failure{fail_before};
        const auto history = model.fit(pairs().shuffle(240).batch(24), {.epochs = 12, .verbose = 0},
                                       failure, backup);
        Result result{{}, history["loss"], history["binary_accuracy"]};
        for (const auto& weight : model.get_weights())
          result.weights.insert(result.weights.end(), weight.values.begin(), weight.values.end());
        return result;
      });
}

}  // namespace

TEST_CASE("siamese network: one device, threads and workers, resumed") {
  const TemporaryFolder folder;
  const Result one = run(1, 1, folder.path("one")).front();
  CHECK(one.accuracies.back() > 0.85);
  for (const auto& [workers, replicas] : {std::pair{1, 2}, {2, 1}}) {
    const std::string name = std::to_string(workers) + "x" + std::to_string(replicas);
    CAPTURE(name);
    const std::vector<Result> all = run(workers, replicas, folder.path(name));
    CHECK(all.front().weights == all.back().weights);
    // (The averages of each replica's BatchNormalization see its samples alone.)
    CHECK(all.front().accuracies.back() > 0.75);
    const std::string cut = folder.path(name + "-cut");
    run(workers, replicas, cut, 47);
    const std::vector<Result> resumed = run(workers, replicas, cut);
    CHECK(resumed.front().weights == all.front().weights);
    CHECK(resumed.front().losses.back() == all.front().losses.back());
  }
}

TEST_CASE("siamese network: without batch statistics, the figures of one device on two") {
  const auto check = []<class Plain>(Plain) {
    std::vector<std::vector<double>> losses;
    for (const int replicas : {1, 2}) {
      ls::MirroredStrategy strategy({.replicas = replicas});
      auto model = ls::compile<Plain, double>(strategy, {.seed = 3}, ls::BinaryCrossentropy{},
                                              ls::Adam{.learning_rate = 0.02});
      losses.push_back(
          model.fit(pairs().shuffle(240).batch(24), {.epochs = 3, .verbose = 0})["loss"]);
    }
    CHECK(losses[0].back() < losses[0].front());
    for (std::size_t i = 0; i < losses[0].size(); ++i)
      CHECK(losses[0][i] == doctest::Approx(losses[1][i]).epsilon(1e-10));
  };
  using Half = ls::Dense<6, ls::Tanh>;
  using Left = In::Get<"left">;
  using Right = In::Get<"right">;
  using Cosine = ls::Dot<ls::DotOptions{.normalize = true}>;
  check(ls::Sequential<In, ls::Shared<ls::Concatenate, Half, Left, Right>, ls::Dense<4, ls::Tanh>,
                       ls::Dense<1>, ls::Activation<ls::Sigmoid>>{});
  check(ls::Sequential<In, ls::Shared<Cosine, Half, Left, Right>, ls::Dense<1>,
                       ls::Activation<ls::Sigmoid>>{});
}

TEST_CASE("siamese network: its weights are in a file once") {
  const TemporaryFolder folder;
  ls::MirroredStrategy strategy({.replicas = 1});
  auto model = compile(strategy);
  model.fit(pairs().batch(24), {.epochs = 1, .verbose = 0});
  std::vector<std::string> names;
  for (const auto& weight : model.get_weights()) names.push_back(weight.name);
  CHECK(names ==
        std::vector<std::string>{"shared/sequential/dense/kernel", "shared/sequential/dense/bias",
                                 "shared/sequential/batch_normalization/gamma",
                                 "shared/sequential/batch_normalization/beta",
                                 "shared/sequential/batch_normalization/moving_mean",
                                 "shared/sequential/batch_normalization/moving_variance",
                                 "shared/sequential/dense_1/kernel",
                                 "shared/sequential/dense_1/bias", "dense/kernel", "dense/bias"});
  const std::string path = folder.path("siamese.safetensors");
  model.save_weights(path);
  auto other =
      ls::compile<Net, double>(strategy, {.seed = 4}, ls::BinaryCrossentropy{}, ls::Adam{});
  other.load_weights(path);
  for (std::size_t i = 0; i < names.size(); ++i)
    CHECK(other.get_weights()[i].values == model.get_weights()[i].values);
}

TEST_CASE("siamese network: a Normalization is adapted to all inputs that it has") {
  using Normal = ls::Sequential<
      In, ls::Shared<ls::Concatenate, ls::Normalization<>, In::Get<"left">, In::Get<"right">>,
      ls::Normalization<>, ls::Dense<1>>;
  ls::MirroredStrategy strategy({.replicas = 2});
  auto model = ls::compile<Normal, double>(strategy, {.seed = 1});
  std::vector<double> left(4 * 10, 1.0), right(4 * 10, 3.0);
  model.adapt(ls::inputs(ls::from_tensor_slices(ls::Tensor<double>(left, {10, 4})),
                         ls::from_tensor_slices(ls::Tensor<double>(right, {10, 4})))
                  .batch(5));
  const auto weights = model.get_weights();
  REQUIRE(weights[0].name == "shared/normalization/mean");
  REQUIRE(weights[2].name == "normalization/mean");
  for (const double mean : weights[0].values) CHECK(mean == doctest::Approx(2));
  for (const double variance : weights[1].values) CHECK(variance == doctest::Approx(1));
  for (std::size_t f = 0; f < 8; ++f)
    CHECK(weights[2].values[f] == doctest::Approx(f < 4 ? -1 : 1));
}
