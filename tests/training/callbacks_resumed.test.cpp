// The callbacks of the library with a real model: on one thread, on two, and on two workers over
// TCP, without a break and resumed.
#include <doctest/doctest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/early_stopping.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/callbacks/learning_rate.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using TcpStrategy = ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>>;
using Net =
    ls::Sequential<ls::Input<4>, UserDense<6>, ls::BatchNormalization<>, UserReLU, UserDense<3>>;
using Values = std::vector<std::vector<float>>;

struct Place {
  int workers = 1;
  int replicas = 1;
};
constexpr Place places[] = {{}, {.replicas = 2}, {.workers = 2}};

/// What one worker's program is to do, and what came of it.
struct Worker {
  std::string folder = {};
  std::optional<std::int64_t> fail_before = {};  ///< this update
  std::optional<std::int64_t> stop_after = {};   ///< this update, in a hook that only then exists
  int epochs = 10;
  bool reduces = true;     ///< the learning rate, by the figure
  bool has_figure = true;  ///< else the logs of this worker lack val_loss

  std::vector<int> history = {};
  std::vector<double> rates = {};  ///< of the epochs
  std::int64_t updates = 0;
  int epochs_seen = 0;
  int stopped_epoch = 0;
  int best_epoch = 0;
  double learning_rate = 0;
  Values weights = {}, best_weights = {};
};

Values values_of(const auto& model) {
  Values values;
  for (const auto& weight : model.get_weights()) values.push_back(weight.values);
  return values;
}

/// The figure that stands in for a validation's: the best epoch is the third.
double figure(int epoch) { return epoch < 3 ? 5 - epoch : 3; }

/// 5 updates an epoch, saved every `save_freq` updates; another seed in each run, as the saved one
/// must win.
void train(TcpStrategy& strategy, Worker& worker, std::int64_t save_freq, std::uint64_t seed) {
  const TinyData rows(22);
  const auto data = ls::from_tensor_slices(rows.x, rows.y).shuffle(22).batch(5);
  auto model = ls::compile<Net>(strategy, {.seed = seed},
                                ls::SparseCategoricalCrossentropy{.from_logits = true},
                                ls::SGD{.learning_rate = 0.2, .momentum = 0.9});
  ls::LearningRateScheduler scheduler([](int, double rate) { return rate * 0.875; });
  ls::ReduceLROnPlateau reduce({.factor = 0.5, .patience = worker.reduces ? 2 : 99});
  ls::EarlyStopping stopper({.patience = 4, .restore_best_weights = true});
  ls::LambdaCallback script{
      .on_epoch_end =
          [&](int epoch, ls::Logs& logs) {
            if (worker.has_figure) logs.set("val_loss", figure(epoch));
            ++worker.epochs_seen;
            if (epoch == 2) worker.best_weights = values_of(model);
          },
      .on_train_batch_begin =
          [&](ls::Training& training, std::int64_t) {
            if (training.iterations() == worker.fail_before)
              throw std::runtime_error("power failure");
          },
      .save = [&](ls::State& state) { state.put("epochs_seen", worker.epochs_seen); },
      .restore =
          [&](const ls::State& state) { worker.epochs_seen = state.get<int>("epochs_seen"); }};
  if (worker.stop_after)
    script.on_train_batch_end = [&](ls::Training& training, std::int64_t, ls::Logs&) {
      if (training.iterations() == worker.stop_after) training.stop_training();
    };
  ls::BackupAndRestore backup{
      .backup_dir = worker.folder, .save_freq = save_freq, .asynchronous = false};
  const ls::History history = model.fit(data, {.epochs = worker.epochs, .verbose = 0}, script,
                                        scheduler, reduce, stopper, backup);
  worker.history = history.epoch;
  if (!history.epoch.empty()) worker.rates = history["learning_rate"];
  worker.updates = model.iterations();
  worker.stopped_epoch = stopper.stopped_epoch();
  worker.best_epoch = stopper.best_epoch();
  worker.learning_rate = model.learning_rate();
  worker.weights = values_of(model);
}

/// Trains on all workers of a place. Returns the message of the chief's exception.
std::string run(const Place& place, std::vector<Worker>& workers, std::int64_t save_freq,
                std::uint64_t seed = 5) {
  const auto addresses =
      place.workers > 1 ? free_addresses(place.workers) : std::vector<std::string>{};
  const auto thrown = run_threads(place.workers, [&](int rank) {
    ls::Cluster cluster;
    cluster.spec.worker = addresses;
    cluster.task.index = rank;
    TcpStrategy strategy(cluster,
                         {.replicas = place.replicas, .communication_options = patient_options()});
    train(strategy, workers[static_cast<std::size_t>(rank)], save_freq, seed);
  });
  return lockstep_test::message_of(thrown[0]);
}

/// Workers with folders of their own: the chief's alone counts.
std::vector<Worker> workers_of(const Place& place, const TemporaryFolder& folder,
                               const std::string& name) {
  std::vector<Worker> workers(static_cast<std::size_t>(place.workers));
  for (std::size_t i = 0; i < workers.size(); ++i)
    workers[i].folder = folder.path(name + std::to_string(i));
  return workers;
}

}  // namespace

TEST_CASE(
    "callbacks with a model: on threads and on workers they decide alike, and a resumed run has "
    "the same bits") {
  const TemporaryFolder folder;
  std::vector<Values> of_places;
  for (const Place& place : places) {
    CAPTURE(place.workers);
    CAPTURE(place.replicas);
    const std::string name = std::to_string(place.workers) + std::to_string(place.replicas);
    std::vector<Worker> whole = workers_of(place, folder, name + "whole");
    REQUIRE(run(place, whole, 0) == "");
    for (const Worker& worker : whole) {
      CHECK(worker.history == std::vector<int>{0, 1, 2, 3, 4, 5, 6});  // 2 is the best
      CHECK(worker.updates == 35);
      CHECK(worker.stopped_epoch == 6);
      CHECK(worker.best_epoch == 2);
      CHECK(worker.rates[0] == doctest::Approx(0.2 * 0.875));
      CHECK(worker.rates[4] == doctest::Approx(0.2 * 0.51290908));           // 0.875 ** 5
      CHECK(worker.rates[5] == doctest::Approx(0.2 * 0.51290908 * 0.4375));  // and reduced
      REQUIRE(!worker.best_weights.empty());
      CHECK(worker.weights == worker.best_weights);
      CHECK(worker.weights == whole[0].weights);
    }
    of_places.push_back(whole[0].weights);

    struct Cut {
      std::int64_t before, save_freq;
    };
    for (const Cut& cut : {Cut{17, 5}, Cut{26, 0}, Cut{34, 7}}) {
      CAPTURE(cut.before);
      std::vector<Worker> workers = workers_of(place, folder, name + std::to_string(cut.before));
      for (Worker& worker : workers) worker.fail_before = cut.before;
      CHECK(contains(run(place, workers, cut.save_freq), "power failure"));
      for (Worker& worker : workers) {
        worker.fail_before = {};
        worker.epochs_seen = 0;
      }
      REQUIRE(run(place, workers, cut.save_freq, 99) == "");
      for (std::size_t i = 0; i < workers.size(); ++i) {
        CHECK(workers[i].weights == whole[i].weights);
        CHECK(workers[i].updates == 35);
        CHECK(workers[i].stopped_epoch == 6);
        CHECK(workers[i].best_epoch == 2);
        CHECK(workers[i].learning_rate == whole[i].learning_rate);
        CHECK(workers[i].rates.back() == whole[i].rates.back());
        CHECK(workers[i].epochs_seen == 7);
      }
    }
  }
  CHECK(of_places[1] == of_places[2]);  // two ranks, as threads and as processes
}

TEST_CASE(
    "callbacks with a model: the best weights come back where another callback or the last epoch "
    "ends training") {
  for (const Place& place : places) {
    CAPTURE(place.workers);
    CAPTURE(place.replicas);
    const TemporaryFolder folder;
    std::vector<Worker> short_run = workers_of(place, folder, "short"),
                        stopped = workers_of(place, folder, "stopped");
    for (Worker& worker : short_run) worker.epochs = 4;
    REQUIRE(run(place, short_run, 0) == "");
    stopped.back().stop_after = 18;  // one worker alone has a hook that is called after a batch
    REQUIRE(run(place, stopped, 0) == "");
    for (const std::vector<Worker>* workers : {&short_run, &stopped})
      for (const Worker& worker : *workers) {
        CHECK(worker.history == std::vector<int>{0, 1, 2, 3});
        CHECK(worker.stopped_epoch == 0);
        CHECK(worker.weights == worker.best_weights);
      }
    for (const Worker& worker : stopped) CHECK(worker.updates == 18);  // that very batch
  }
}

TEST_CASE(
    "callbacks with a model: what the chief's decide at the end holds for all, whatever others "
    "have seen") {
  const Place two{.workers = 2};
  for (const bool by_chief : {true, false}) {
    CAPTURE(by_chief);
    const TemporaryFolder folder;
    const CapturedStderr output;
    std::vector<Worker> workers = workers_of(two, folder, "");
    workers[by_chief ? 1 : 0].has_figure = false;
    workers[0].reduces = workers[1].reduces = false;
    REQUIRE(run(two, workers, 0) == "");
    for (const Worker& worker : workers) CHECK(worker.history.size() == 7);  // one has stopped all
    CHECK(workers[0].weights == workers[1].weights);
    CHECK((workers[0].weights == workers[0].best_weights) == by_chief);
  }
}
