// Loops of the program's own: strategy.run, distribute and reduce, and the single steps of
// Model::on.
#include "lockstep/model/own_loop.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/extra/elastic.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/checkpoint.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/model_testing.hpp"
#include "support/mortal_workers.hpp"
#include "support/temporary_folder.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// With what must not depend on who calls the steps: random masks, moving statistics, slots.
using Net = ls::Sequential<ls::Input<4>, ls::Dense<8, ls::ReLU>, ls::Dropout<0.25>,
                           ls::BatchNormalization<>, ls::Dense<3>>;
constexpr ls::SparseCategoricalCrossentropy crossentropy{.from_logits = true};

ls::AnyDataset batches_of(int samples, ls::DatasetOptions options = {}) {
  const TinyData data(samples);
  return ls::AnyDataset(
      ls::from_tensor_slices(data.x, data.y).with_options(options).shuffle(samples).batch(5));
}

auto compiled(ls::MirroredStrategy& strategy, double global_clipnorm = 0) {
  return ls::compile<Net>(strategy, {.seed = 5}, crossentropy,
                          ls::Adam{.learning_rate = 0.01, .global_clipnorm = global_clipnorm},
                          ls::Accuracy{});
}
using MirroredModel = decltype(compiled(std::declval<ls::MirroredStrategy&>()));

/// The loop of one pass; `step(here, batch)` makes an update. Returns the logs.
template <class S, class M, class Step>
ls::Logs train(S& strategy, M& model, ls::DistributedBatches<float>& batches, std::int64_t pass,
               const Step& step, std::int64_t done = 0) {
  ls::Logs logs;
  strategy.run([&](auto& replica) {
    auto& here = model.on(replica);
    here.reset_logs();
    for (const auto& batch : batches.on(replica, {.seed = model.seed(), .number = pass}, done))
      step(here, batch);
    if (replica.local_rank() == 0) logs = here.logs();
  });
  return logs;
}

using Here = ls::ReplicaModel<float>;
using Batch = ls::ReplicaBatch<float>;
void minimize(Here& here, const Batch& batch) { here.minimize(batch); }
void gradients_and_apply(Here& here, const Batch& batch) { here.apply(here.gradients(batch)); }
void with_own_loss(Here& here, const Batch& batch) {
  here.minimize(batch,
                [](ls::TensorView<const float> predictions, ls::TensorView<const float> targets,
                   std::span<double> losses, ls::TensorView<float> gradient) {
                  crossentropy.compute(predictions, targets, losses, gradient);
                });
}

}  // namespace

TEST_CASE(
    "own loop: the bits and the figures of fit, however the step is made, and fit goes on with "
    "it") {
  const ls::AnyDataset data = batches_of(22);
  for (const int replicas : {1, 3})
    for (const double clipnorm : {0.0, 0.5}) {
      ls::MirroredStrategy strategy({.replicas = replicas});
      auto fitted = compiled(strategy, clipnorm);
      const ls::History history = fitted.fit(data, {.epochs = 2, .verbose = 0});
      const std::uint32_t after_two = fitted.parameters_crc32c();
      fitted.fit(data, {.epochs = 3, .verbose = 0, .initial_epoch = 2});
      auto batches = strategy.distribute(data);
      CHECK(batches.cardinality() == 5);
      for (const auto step : {&minimize, &gradients_and_apply, &with_own_loss}) {
        auto model = compiled(strategy, clipnorm);
        for (std::int64_t pass = 0; pass < 2; ++pass) {
          const ls::Logs logs = train(strategy, model, batches, pass, step);
          CHECK(logs.at("loss") == history["loss"][static_cast<std::size_t>(pass)]);
          CHECK(logs.at("accuracy") == history["accuracy"][static_cast<std::size_t>(pass)]);
        }
        CHECK(model.parameters_crc32c() == after_two);
        CHECK(model.iterations() == 10);
        model.fit(data, {.epochs = 3, .verbose = 0, .initial_epoch = 2});
        CHECK(model.parameters_crc32c() == fitted.parameters_crc32c());
        CHECK(model.get_weights().back().values == fitted.get_weights().back().values);
        train(strategy, model, batches, 3, step);  // knows the updates of fit
        CHECK(model.iterations() == 20);
      }
    }
}

TEST_CASE("own loop: a run for each step; what run gives is reduced") {
  ls::MirroredStrategy strategy({.replicas = 2});
  const ls::AnyDataset data = batches_of(22);
  auto whole = compiled(strategy);
  auto batches = strategy.distribute(data);
  train(strategy, whole, batches, 0, minimize);

  auto model = compiled(strategy);
  double rows = 0, loss = 0;
  for (std::int64_t step = 0; step < batches.cardinality(); ++step) {
    const auto sums = strategy.run([&](auto& replica) {
      auto& here = model.on(replica);
      auto& part = batches.on(replica, {.seed = model.seed(), .number = 0}, step);
      const auto gradients = here.gradients(*part.begin());
      here.apply(gradients);
      return std::array{gradients.rows, gradients.loss_sum};
    });
    const std::array<double, 2> reduced = strategy.reduce(ls::Reduction::sum, sums);
    rows += reduced[0];
    loss += reduced[1];
  }
  CHECK(model.parameters_crc32c() == whole.parameters_crc32c());
  CHECK(rows == 22);
  CHECK(loss > 0);

  const auto ranks = strategy.run([](auto& replica) { return replica.local_rank() + 1; });
  CHECK(ranks.size() == 2);
  CHECK(ranks[1] == 2);
  CHECK(strategy.reduce(ls::Reduction::sum, ranks) == 3);
  CHECK(strategy.reduce(ls::Reduction::mean, ranks) == 1.5);
  CHECK(strategy.reduce(ls::Reduction::max, ranks) == 2);
  ls::OneDeviceStrategy alone;
  CHECK(alone.reduce(ls::Reduction::mean, alone.run([](auto&) { return true; })) == 1);
}

TEST_CASE("own loop: a Checkpoint in the middle of a pass is resumed to the same bits") {
  const ls::AnyDataset data = batches_of(22);
  const TemporaryFolder folder;
  ls::MirroredStrategy strategy({.replicas = 2});
  auto batches = strategy.distribute(data);
  auto whole = compiled(strategy), broken = compiled(strategy);
  train(strategy, whole, batches, 0, minimize);

  ls::State progress;
  ls::Checkpoint checkpoint(broken, progress);
  strategy.run([&](auto& replica) {
    auto& here = broken.on(replica);
    std::int64_t done = 0;
    for (const auto& batch : batches.on(replica, {.seed = broken.seed(), .number = 0})) {
      here.minimize(batch);
      if (++done == 3)
        replica.team_lead([&] {
          progress.put("done", done);
          checkpoint.save(folder.path("step"));
        });
    }
  });
  progress = {};
  checkpoint.restore(folder.path("step"));
  CHECK(broken.iterations() == 3);
  train(strategy, broken, batches, 0, minimize, progress.get<std::int64_t>("done"));
  CHECK(broken.iterations() == 5);
  CHECK(broken.parameters_crc32c() == whole.parameters_crc32c());
  CHECK(broken.get_weights().back().values == whole.get_weights().back().values);
}

namespace {

using Linear = ls::Sequential<ls::Input<4>, ls::Dense<3>>;

auto linear(ls::OneDeviceStrategy& strategy) {
  return ls::compile<Linear>(strategy, {.seed = 2}, ls::MeanSquaredError{},
                             ls::SGD{.learning_rate = 0.1});
}

}  // namespace

TEST_CASE(
    "own loop: several outputs with weighted losses of their own, and gradients that are changed") {
  ls::OneDeviceStrategy strategy;
  const TinyData data(20);
  auto batches = strategy.distribute(ls::from_tensor_slices(data.x, data.x.leftCols(3)).batch(20));
  auto whole = linear(strategy), parted = linear(strategy), halved = linear(strategy);
  std::vector<double> others(20);
  // The mean over three outputs, as that of one and of two.
  const auto weighted = [&](ls::TensorView<const float> predictions,
                            ls::TensorView<const float> targets, std::span<double> losses,
                            ls::TensorView<float> gradient) {
    const ls::MeanSquaredError mse;
    mse.compute(predictions.part(0, 1), targets.part(0, 1), losses, gradient.part(0, 1));
    mse.compute(predictions.part(1, 2), targets.part(1, 2), std::span(others), gradient.part(1, 2));
    for (std::size_t row = 0; row < losses.size(); ++row)
      losses[row] = losses[row] / 3 + others[row] * 2 / 3;
    gradient.part(0, 1).matrix() /= 3.0F;
    gradient.part(1, 2).matrix() *= 2.0F / 3;
  };
  strategy.run([&](auto& replica) {
    for (int step = 0; step < 10; ++step)
      for (const Batch& batch : batches.on(replica)) {
        whole.on(replica).minimize(batch);
        parted.on(replica).minimize(batch, weighted);
        const ls::Gradients<float> gradients =
            halved.on(replica).gradients(batch, ls::MeanSquaredError{});
        for (const std::span<float> values : gradients.variables)
          for (float& value : values) value = step < 5 ? 2 * value : 0;
        halved.on(replica).apply(gradients);
      }
  });
  const auto kernel = [](const auto& model) { return model.get_weights()[0].values; };
  const std::vector<float> expected = kernel(whole), parts = kernel(parted);
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(parts[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  CHECK(kernel(halved) != expected);
}

TEST_CASE(
    "own loop: forward predicts; the gradient of the input is that of the loss, and changes "
    "nothing") {
  ls::MirroredStrategy strategy({.replicas = 1});
  auto model = compiled(strategy);
  const TinyData data(6);
  auto batches = strategy.distribute(ls::from_tensor_slices(data.x, data.y).batch(6));
  const MirroredModel::Predictions expected = model.predict(data.x);
  const auto before = model.get_weights();
  strategy.run([&](auto& replica) {
    auto& here = model.on(replica);
    const Batch batch = *batches.on(replica).begin();
    const auto y = here.forward(batch);
    for (Eigen::Index row = 0; row < 6; ++row)
      for (Eigen::Index f = 0; f < 3; ++f)
        CHECK(y(static_cast<std::size_t>(row), static_cast<std::size_t>(f)) == expected(row, f));

    ls::Buffer memory(2 * 4 * 16 * sizeof(float));
    auto* const floats = reinterpret_cast<float*>(memory.data());
    const ls::TensorView<float> x(floats, 6, 4, 16), gradient(floats + 64, 6, 4, 16);
    std::array<double, 6> losses{};
    const auto total = [&] {
      here.input_gradient({.x = x, .targets = batch.targets}, crossentropy, losses, gradient);
      return losses[0] + losses[1] + losses[2] + losses[3] + losses[4] + losses[5];
    };
    std::copy_n(batch.x.data(), 64, x.data());
    total();
    const std::vector<float> slopes(gradient.data(), gradient.data() + 64);
    for (std::size_t f = 0; f < 4; ++f) {
      for (std::size_t row = 0; row < 6; ++row) {
        constexpr float h = 1.0F / 256;
        x(row, f) += h;
        const double above = total();
        x(row, f) -= 2 * h;
        const double below = total();
        x(row, f) += h;
        CHECK(std::abs((above - below) / (2 * h) - static_cast<double>(slopes[f * 16 + row])) <
              0.02);
      }
      for (std::size_t row = 6; row < 16; ++row) CHECK(slopes[f * 16 + row] == 0);
    }
  });
  const auto after = model.get_weights();
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i].values == before[i].values);
  CHECK(model.iterations() == 0);
}

TEST_CASE("own loop: a batch that the program writes itself, and one that does not fit") {
  ls::OneDeviceStrategy strategy;
  auto model = linear(strategy);
  strategy.run([&](auto& replica) {
    auto& here = model.on(replica);
    const ls::BatchViews<float> room = here.room(5);
    for (std::size_t f = 0; f < 4; ++f) std::fill_n(room.x.feature(f), room.x.stride(), 0.5F);
    for (std::size_t f = 0; f < 3; ++f)
      std::fill_n(room.targets.feature(f), room.targets.stride(), 1.0F);
    for (int step = 0; step < 3; ++step) here.minimize({.x = room.x, .targets = room.targets});
    const ls::Gradients<float> gradients = here.gradients({.x = room.x, .targets = room.targets});
    CHECK(gradients.rows == 5);
    here.forward({.x = room.x});
    CHECK(contains(message_of<ls::Error>([&] { here.apply(gradients); }),
                   "call gradients(), and apply"));
    CHECK(contains(message_of<ls::DataError>([&] { here.forward({.x = room.x.part(0, 3)}); }),
                   "the batch has 3 numbers a sample, the model takes 4"));
    CHECK(contains(message_of<ls::DataError>(
                       [&] { here.minimize({.x = room.x, .targets = room.targets.part(0, 2)}); }),
                   "2 target values a sample, the loss takes 3"));
    const std::array<std::int64_t, 1> one{};
    CHECK(contains(
        message_of<ls::DataError>([&] { here.forward({.x = room.x, .sample_indices = one}); }),
        "5 samples and 1 sample_indices"));
    std::array<double, 4> losses{};
    CHECK(contains(message_of<ls::DataError>([&] {
                     here.input_gradient({.x = room.x, .targets = room.targets},
                                         ls::MeanSquaredError{}, losses, {});
                   }),
                   "losses has 4 elements, expected 5"));
  });
  CHECK(model.iterations() == 3);
}

TEST_CASE("own loop: what a replica throws ends it on all, with the sample's number") {
  ls::MirroredStrategy strategy({.replicas = 2});
  auto model = compiled(strategy);
  TinyData data(8);
  data.y[3] = 9;
  auto batches = strategy.distribute(ls::from_tensor_slices(data.x, data.y).batch(8));
  const std::string message =
      message_of<ls::DataError>([&] { train(strategy, model, batches, 0, minimize); });
  CHECK(contains(message, "sample 3"));
  data.y[3] = 0;
  auto mended = strategy.distribute(ls::from_tensor_slices(data.x, data.y).batch(8));
  auto fresh = compiled(strategy);
  train(strategy, model, mended, 0, minimize);
  train(strategy, fresh, mended, 0, minimize);
  CHECK(model.parameters_crc32c() == fresh.parameters_crc32c());
  Recorder recorder;
  recorder.at_epoch_end = [&](ls::Training&, int, ls::Logs&) {
    CHECK(contains(message_of<ls::Error>([&] { train(strategy, model, mended, 0, minimize); }),
                   "this model is in fit"));
    train(strategy, fresh, mended, 0, minimize);
  };
  model.fit(data.x, data.y, {.batch_size = 8, .verbose = 0}, recorder);
  CHECK(fresh.iterations() == 2);
}

namespace {

/// Two files with few and with many samples; a worker reads its own.
struct TwoFiles : RowDataset {
  TwoFiles() : RowDataset(TinyData(24), 4) {}
  [[nodiscard]] ls::AutoShardPolicy auto_shard_policy() const { return ls::AutoShardPolicy::file; }
  [[nodiscard]] std::int64_t num_files() const { return 2; }
  void shard_files(int, int index) {
    static_cast<RowDataset&>(*this) =
        index == 0 ? RowDataset(TinyData(4, 1), 2) : RowDataset(TinyData(20, 2), 2);
  }
};

/// A worker whose strategy distributes and reduces.
class LoopStrategy : public WorkerStrategy, public ls::OwnLoops<LoopStrategy> {
 public:
  explicit LoopStrategy(WorkerStrategy& strategy) : WorkerStrategy(strategy) {}
};

}  // namespace

TEST_CASE(
    "own loop: workers train as in fit, also where the data of one end before; other data are "
    "refused") {
  std::vector<std::uint32_t> sums(2);
  const auto failures = run_workers(2, [&](WorkerStrategy& strategy) {
    LoopStrategy own(strategy);
    const auto make = [&] {
      return ls::compile<Net>(own, {.seed = 5}, crossentropy, ls::Adam{.learning_rate = 0.01},
                              ls::Accuracy{});
    };
    auto fitted = make(), model = make();
    for (const ls::AnyDataset& data : {batches_of(22), ls::AnyDataset(TwoFiles())}) {
      fitted.fit(data, {.verbose = 0});
      auto batches = own.distribute(data);
      train(own, model, batches, model.iterations() > 0 ? 1 : 0, minimize);
      CHECK(model.iterations() == fitted.iterations());
      CHECK(model.parameters_crc32c() == fitted.parameters_crc32c());
    }
    CHECK(model.iterations() == 15);
    sums[static_cast<std::size_t>(own.worker_index())] = model.parameters_crc32c();
    ls::PerReplica<int> number(1);
    number[0] = own.worker_index();
    CHECK(own.reduce(ls::Reduction::mean, number) == 0.5);
    CHECK(contains(message_of<ls::ConfigurationError>(
                       [&] { (void)own.distribute(batches_of(22 + own.worker_index())); }),
                   "distribute"));
  });
  CHECK(failures == std::vector<std::string>(2));
  CHECK(sums[0] == sums[1]);
}

TEST_CASE(
    "own loop: the loss of the step decides how wide targets are, whatever compile was given") {
  using Autoencoder = ls::Sequential<ls::Input<4>, ls::Dense<2>, ls::Dense<4>>;
  const TinyData data(20);
  std::vector<float> x(20 * 4);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const ls::Tensor<float> samples(x, {20, 4});
  const auto distance = [](auto predictions, auto targets, auto losses, auto gradient) {
    ls::MeanSquaredError{}.compute(predictions, targets, losses, gradient);
  };
  ls::OneDeviceStrategy alone;
  const auto trained = [&](auto& model, const auto& loss) {
    auto batches = alone.distribute(ls::from_tensor_slices(samples, samples).batch(5));
    alone.run([&](auto& replica) {
      auto& here = model.on(replica);
      for (const auto& batch : batches.on(replica)) here.minimize(batch, loss);
    });
    return model.parameters_crc32c();
  };
  auto same = ls::compile<Autoencoder>(alone, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
  const std::uint32_t expected = trained(same, ls::MeanSquaredError{});
  auto labels =
      ls::compile<Autoencoder>(alone, {.seed = 1}, crossentropy, ls::SGD{}, ls::Accuracy{});
  CHECK(trained(labels, distance) == expected);
  auto labelled = ls::compile<Autoencoder>(alone, {.seed = 1}, crossentropy, ls::SGD{});
  CHECK(trained(labelled, ls::MeanSquaredError{}) == expected);
  auto none = ls::compile<Autoencoder>(alone, {.seed = 1}, ls::SGD{});
  CHECK(trained(none, distance) == expected);
  // Without another loss, compile's wants its own; a loss of the library checks its own too.
  auto batches = alone.distribute(ls::from_tensor_slices(samples, samples).batch(5));
  alone.run([&](auto& replica) {
    for (const auto& batch : batches.on(replica)) {
      CHECK(contains(message_of<ls::DataError>([&] { labels.on(replica).minimize(batch); }),
                     "has 4 target values a sample, the loss takes 1"));
      CHECK(contains(
          message_of<ls::DataError>([&] { same.on(replica).minimize(batch, crossentropy); }),
          "has 4 target values a sample, the loss takes 1"));
      CHECK(contains(message_of<ls::ConfigurationError>([&] { none.on(replica).minimize(batch); }),
                     "compiled without a loss: give it to the step, as in minimize(batch, loss)"));
      break;
    }
  });
}

TEST_CASE("own loop: evaluate adds to figures that evaluation gives of all ranks") {
  const TinyData data(22);
  const auto all = ls::from_tensor_slices(data.x, data.y).batch(5);
  for (const int replicas : {1, 3}) {
    ls::MirroredStrategy strategy({.replicas = replicas});
    auto model = compiled(strategy);
    const std::uint32_t before = model.parameters_crc32c();
    const ls::Logs expected = model.evaluate(all, {.verbose = 0});
    auto batches = strategy.distribute(ls::AnyDataset(all));
    for (int pass = 0; pass < 2; ++pass)
      strategy.run([&](auto& replica) {
        auto& here = model.on(replica);
        for (const auto& batch : batches.on(replica)) here.evaluate(batch);
        const ls::Logs logs = here.evaluation();
        if (replica.local_rank() != 0) return;
        CHECK(logs.at("loss") == doctest::Approx(expected.at("loss")).epsilon(1e-6));
        CHECK(logs.at("accuracy") == expected.at("accuracy"));
      });
    CHECK(model.parameters_crc32c() == before);
    CHECK(model.iterations() == 0);
  }
}

TEST_CASE("own loop: input_gradient in arrays of the model's own") {
  const TinyData data(5);
  ls::OneDeviceStrategy alone;
  auto model = ls::compile<ls::Sequential<ls::Input<4>, ls::Dense<3>>>(alone, {.seed = 1},
                                                                       crossentropy, ls::SGD{});
  auto batches = alone.distribute(ls::from_tensor_slices(data.x, data.y).batch(5));
  alone.run([&](auto& replica) {
    auto& here = model.on(replica);
    for (const auto& batch : batches.on(replica)) {
      ls::Buffer memory(4 * batch.x.stride() * sizeof(float));
      const ls::TensorView<float> expected(reinterpret_cast<float*>(memory.data()), 5, 4,
                                           batch.x.stride());
      std::vector<double> losses(5);
      here.input_gradient(batch, crossentropy, losses, expected);
      const auto own = here.input_gradient(batch, crossentropy);
      CHECK(std::vector(own.losses.begin(), own.losses.end()) == losses);
      REQUIRE(own.gradient.features() == 4);
      for (std::size_t f = 0; f < 4; ++f)
        for (std::size_t row = 0; row < 5; ++row) CHECK(own.gradient(row, f) == expected(row, f));
    }
  });
}

TEST_CASE("compile: without a strategy on one device; without loss and optimizer for prediction") {
  using Line = ls::Sequential<ls::Input<4>, ls::Dense<3>>;
  const TinyData data(22);
  const auto all = ls::from_tensor_slices(data.x, data.y).batch(5);
  ls::OneDeviceStrategy alone;
  auto model = ls::compile<Line>(alone, {.seed = 1}, crossentropy, ls::SGD{}, ls::Accuracy{});
  auto own = ls::compile<Line>({.seed = 1}, crossentropy, ls::SGD{}, ls::Accuracy{});
  model.fit(all, {.epochs = 2, .verbose = 0});
  own.fit(all, {.epochs = 2, .verbose = 0});
  CHECK(own.parameters_crc32c() == model.parameters_crc32c());
  const auto expected = model.predict(all);
  const auto check = [&](auto&& other) {
    other.set_weights(model.get_weights());
    CHECK(other.predict(all) == expected);
  };
  check(ls::compile<Line>(alone));
  check(ls::compile<Line>());
  check(ls::compile<Line>({.seed = 3}));
  check(ls::compile<Line>(alone, {.seed = 3}, ls::Adam{}));
  auto evaluated = ls::compile<Line>(alone, crossentropy);
  check(evaluated);
  CHECK(evaluated.evaluate(all, {.verbose = 0}).at("loss") ==
        model.evaluate(all, {.verbose = 0}).at("loss"));
  auto untrained = ls::compile<Line>(alone);
  auto batches = alone.distribute(ls::AnyDataset(all));
  alone.run([&](auto& replica) {
    for (const auto& batch : batches.on(replica))
      CHECK(contains(message_of<ls::ConfigurationError>(
                         [&] { untrained.on(replica).minimize(batch, crossentropy); }),
                     "minimize: the model was compiled without an optimizer"));
  });
}

namespace {

auto compiled(MortalStrategy& strategy) {
  return ls::compile<Net>(strategy, {.seed = 5}, crossentropy, ls::Adam{.learning_rate = 0.01});
}
using MortalModel = decltype(compiled(std::declval<MortalStrategy&>()));

/// Calls step(here, batch) with five samples of the worker's own, for which it asks no other one.
template <class Step>
void with_own_batch(MortalStrategy& strategy, MortalModel& model, const Step& step) {
  strategy.run([&](auto& replica) {
    auto& here = model.on(replica);
    const ls::BatchViews<float> room = here.room(5);
    for (std::size_t i = 0; i < 5; ++i) {
      for (std::size_t f = 0; f < 4; ++f)
        room.x(i, f) = static_cast<float>(i * f) / 7 + static_cast<float>(strategy.worker_index());
      room.targets(i, 0) = static_cast<float>(i % 3);
    }
    step(here, Batch{.x = room.x, .targets = room.targets});
  });
}

void die_after(std::int64_t updates, Recorder& recorder) {
  recorder.at_batch_end = [updates](ls::Training& training, std::int64_t, ls::Logs&) {
    if (training.iterations() == updates) MortalRing::die();
  };
}

}  // namespace

TEST_CASE("own loop: steps go on after a fit that has lost a worker and has connected anew") {
  std::vector<std::vector<float>> weights;  // trained ones and moving statistics
  for (const bool is_killed : {false, true}) {
    const TemporaryFolder folder;
    std::array<std::vector<float>, 2> ends;
    run_mortal_workers(2, [&](const ls::Cluster& cluster, int start) {
      MortalStrategy strategy(cluster, {.communication_options = patient_options()});
      auto model = compiled(strategy);
      with_own_batch(strategy, model, [](Here& here, const Batch& batch) { here.forward(batch); });
      Recorder recorder;
      if (is_killed && cluster.task.index == 1 && start == 1) die_after(3, recorder);
      ls::BackupAndRestore backup{.backup_dir = folder.path(std::to_string(cluster.task.index)),
                                  .on_peer_loss = ls::OnPeerLoss::rejoin};
      model.fit(batches_of(22), {.epochs = 2, .verbose = 0}, recorder, backup);
      for (int step = 0; step < 3; ++step) with_own_batch(strategy, model, minimize);
      CHECK(model.iterations() == 13);
      std::vector<float>& end = ends.at(static_cast<std::size_t>(cluster.task.index));
      for (const auto& each : model.get_weights())
        end.insert(end.end(), each.values.begin(), each.values.end());
    });
    weights.insert(weights.end(), ends.begin(), ends.end());
  }
  for (const auto& each : weights) CHECK(each == weights[0]);
}

TEST_CASE(
    "own loop: after the program's own reconnect, a model from before is refused, and one that is "
    "compiled anew trains to the same bits") {
  std::vector<std::uint32_t> sums;
  for (const bool is_killed : {false, true}) {
    std::array<std::uint32_t, 2> ends{};
    run_mortal_workers(2, [&](const ls::Cluster& cluster, int start) {
      const int worker = cluster.task.index;
      const bool dies = is_killed && worker == 1 && start == 1;
      MortalStrategy strategy(cluster, {.communication_options = patient_options()});
      const auto make_pass = [&](MortalModel& model) {
        auto batches = strategy.distribute(batches_of(22));
        train(strategy, model, batches, 0, [&](Here& here, const Batch& batch) {
          here.minimize(batch);
          if (dies && model.iterations() == 3) MortalRing::die();
        });
        ends.at(static_cast<std::size_t>(worker)) = model.parameters_crc32c();
      };
      auto model = compiled(strategy);
      try {
        make_pass(model);
      } catch (const ls::CollectiveError& error) {
        CHECK(error.exit_code() == ls::ExitCode::lost_peer);
        strategy.reconnect();
        strategy.run([&](auto& replica) {
          CHECK(contains(message_of<ls::Error>([&] { (void)model.on(replica); }),
                         "on: the strategy has reconnected since this model was compiled"));
        });
        auto anew = compiled(strategy);
        make_pass(anew);
      }
    });
    sums.insert(sums.end(), ends.begin(), ends.end());
  }
  for (const std::uint32_t each : sums) CHECK(each == sums[0]);
}

TEST_CASE("own loop: where workers are fewer after a fit, batches from before are refused") {
  std::array<std::uint32_t, 2> ends{};
  run_mortal_workers(3, [&](const ls::Cluster& cluster, int start) {
    if (start > 1) return;  // the third one does not come back
    MortalStrategy strategy(
        cluster, {.communication_options = patient_options(),
                  .elastic = ls::ElasticOptions{.wait = std::chrono::milliseconds(300)}});
    auto model = compiled(strategy);
    auto batches = strategy.distribute(batches_of(22));
    train(strategy, model, batches, 0, minimize);
    Recorder recorder;
    if (cluster.task.index == 2) die_after(8, recorder);
    model.fit(batches_of(22), {.verbose = 0}, recorder);
    CHECK(strategy.num_workers() == 2);
    strategy.run([&](auto& replica) {
      CHECK(contains(message_of<ls::Error>([&] { (void)batches.on(replica); }),
                     "call distribute() again"));
    });
    batches = strategy.distribute(batches_of(22));
    train(strategy, model, batches, 2, minimize);
    CHECK(model.iterations() == 15);
    ends.at(static_cast<std::size_t>(cluster.task.index)) = model.parameters_crc32c();
  });
  CHECK(ends[0] == ends[1]);
}
