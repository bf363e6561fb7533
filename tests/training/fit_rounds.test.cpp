// fit with ranks that communicate after rounds of steps, and with error feedback.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "golden/rounds.hpp"
#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/extra/elastic.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep;
using namespace lockstep_test;

namespace {

/// Ring<Tcp>, which counts the operations of each thread.
class CountedRing : public Ring<Tcp> {
 public:
  static inline thread_local int operations = 0;

  static CountedRing connect(const Rendezvous& rendezvous, const CommunicationOptions& options) {
    return CountedRing(Ring<Tcp>::connect(rendezvous, options));
  }
  void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum) override {
    ++operations;
    Ring::all_reduce(values, op);
  }
  void all_reduce(std::span<double> status, NumberSpan values) override {
    ++operations;
    Ring::all_reduce(status, values);
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    ++operations;
    Ring::broadcast(bytes, root);
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    ++operations;
    Ring::all_gather(mine, all);
  }
  void barrier() override {
    ++operations;
    Ring::barrier();
  }

 private:
  explicit CountedRing(Ring<Tcp> ring) : Ring(std::move(ring)) {}
};

using Strategy = MultiWorkerMirroredStrategy<CountedRing>;
using Net = Sequential<Input<4>, Dense<6, ReLU>, BatchNormalization<>, Dense<3>>;
using NetModel = Model<Net, float, Strategy, SparseCategoricalCrossentropy, Adam, Accuracy>;

/// 22 samples in batches of 5, so that ranks have parts of several sizes, and of none.
AnyDataset batches(std::int64_t samples = 22, std::int64_t batch = 5) {
  const TinyData data(static_cast<int>(samples));
  return AnyDataset(from_tensor_slices(data.x, data.y).shuffle(samples).batch(batch));
}

struct Job {
  int workers = 1;
  int replicas = 1;
  Synchronization synchronization = {};
  FitOptions options{.epochs = 3, .verbose = 0};
  AnyDataset data = batches();
  CommunicationOptions communication = patient_options();
  bool use_ema = false;
  std::string backup_dir = {};  ///< "": no backups
  std::int64_t save_freq = SaveFrequency::epoch;
  std::optional<ElasticOptions> elastic = std::nullopt;
  std::int64_t accumulation_steps = 1;
  /// On each worker, with its index.
  std::function<void(Training&, int worker, std::int64_t batch)> at_batch_begin = {};
  std::function<void(Training&, int worker, std::int64_t batch, Logs&)> at_batch_end = {};
  std::function<void(NetModel&)> after = {};
};

struct Result {
  std::uint32_t crc = 0;
  std::int64_t iterations = 0;
  std::vector<double> losses, accuracies;  // of the epochs
  friend bool operator==(const Result&, const Result&) = default;
};

/// On one worker.
Result train(const Job& job, Strategy& strategy) {
  NetModel model(strategy, {.seed = 5, .synchronization = job.synchronization},
                 SparseCategoricalCrossentropy{.from_logits = true},
                 Adam{.learning_rate = 0.02,
                      .use_ema = job.use_ema,
                      .ema_momentum = 0.9,
                      .gradient_accumulation_steps = job.accumulation_steps},
                 {});
  Recorder recorder;
  const int worker = strategy.worker_index();
  if (job.at_batch_begin)
    recorder.at_batch_begin = [&](Training& training, std::int64_t batch) {
      job.at_batch_begin(training, worker, batch);
    };
  if (job.at_batch_end)
    recorder.at_batch_end = [&](Training& training, std::int64_t batch, Logs& logs) {
      job.at_batch_end(training, worker, batch, logs);
    };
  std::optional<BackupAndRestore> backup;
  if (!job.backup_dir.empty())
    backup = BackupAndRestore{.backup_dir = job.backup_dir + "/" + std::to_string(worker),
                              .save_freq = job.save_freq,
                              .asynchronous = false};
  const History history = model.fit(job.data, job.options, recorder, backup);
  if (job.after) job.after(model);
  return {.crc = model.parameters_crc32c(),
          .iterations = model.iterations(),
          .losses = history["loss"],
          .accuracies = history["accuracy"]};
}

/// On workers that are threads here. All come to the same.
Result train(const Job& job) {
  std::vector<Result> results(static_cast<std::size_t>(job.workers));
  const MultiWorkerMirroredOptions options{
      .replicas = job.replicas, .communication_options = job.communication, .elastic = job.elastic};
  const auto addresses = free_addresses(job.workers);
  rethrow_first(run_threads(job.workers, [&](int rank) {
    Cluster own;
    if (job.workers > 1) own.spec.worker = addresses;
    own.task.index = rank;
    Strategy strategy(own, options);
    results[static_cast<std::size_t>(rank)] = train(job, strategy);
  }));
  for (const Result& result : results) CHECK(result == results[0]);
  return results[0];
}

std::string refusal(const Job& job) {
  return lockstep_test::message_of<ConfigurationError>([&] { (void)train(job); });
}

/// Interrupts the job before each of the given updates, and compares with one that went through.
void check_resume(Job job, std::initializer_list<std::int64_t> interruptions) {
  const TemporaryFolder folder;
  job.backup_dir = folder.path("whole");
  const Result whole = train(job);
  for (const std::int64_t at : interruptions) {
    CAPTURE(at);
    job.backup_dir = folder.path(std::to_string(at));
    Job cut = job;
    cut.at_batch_begin = [at](Training& training, int worker, std::int64_t) {
      if (training.iterations() == at && worker == 0) throw std::runtime_error("power failure");
    };
    CHECK_THROWS_WITH((void)train(cut), doctest::Contains("power failure"));
    const Result resumed = train(job);
    CHECK(resumed.crc == whole.crc);
    CHECK(resumed.iterations == whole.iterations);
    CHECK(resumed.losses.back() == whole.losses.back());
  }
}

namespace golden = lockstep_test::golden::rounds;

template <class Optimizer>
void check_golden(int replicas, const Synchronization& synchronization, const Optimizer& optimizer,
                  std::span<const double> losses, std::span<const double> weights) {
  MirroredStrategy strategy({.replicas = replicas});
  auto model = compile<Sequential<Input<3>, Dense<1>>, double>(
      strategy, {.seed = 1, .synchronization = synchronization}, MeanSquaredError{}, optimizer);
  auto start = model.get_weights();
  start[0].values.assign(std::begin(golden::start), std::begin(golden::start) + 3);
  start[1].values.assign(1, golden::start[3]);
  model.set_weights(start);
  const Tensor<double> x({std::begin(golden::x), std::end(golden::x)}, {40, 3});
  const Tensor<double> y({std::begin(golden::y), std::end(golden::y)}, {40, 1});
  // In two calls of fit: optimizers, also the outer one, go on.
  const auto data = from_tensor_slices(x, y).batch(8);
  auto found = model.fit(data, {.epochs = 2, .verbose = 0})["loss"];
  found.push_back(model.fit(data, {.epochs = 1, .verbose = 0})["loss"].at(0));
  REQUIRE(found.size() == losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    CHECK(found[i] == doctest::Approx(losses[i]).epsilon(1e-12));
  const auto end = model.get_weights();
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(end[0].values[i] == doctest::Approx(weights[i]).epsilon(1e-11));
  CHECK(end[1].values[0] == doctest::Approx(weights[3]).epsilon(1e-11));
}

}  // namespace

TEST_CASE("fit in rounds: LocalSGD and DiLoCo are those of the papers") {
  using namespace lockstep_test::golden::rounds;
  check_golden(2, LocalSGD{.steps = 2}, SGD{.learning_rate = 0.05, .momentum = 0.9},
               local_sgd::losses, local_sgd::weights);
  const Adam adam{.learning_rate = 0.05};
  check_golden(3, DiLoCo{.steps = 2}, adam, diloco::losses, diloco::weights);
  check_golden(2, DiLoCo{.steps = 3, .learning_rate = 0.8, .momentum = 0.5, .nesterov = false},
               adam, without_nesterov::losses, without_nesterov::weights);
}

TEST_CASE("fit in rounds: threads and workers come to the same bits") {
  for (const bool is_diloco : {false, true}) {
    Job job{.synchronization = is_diloco ? Synchronization(DiLoCo{.steps = 2})
                                         : Synchronization(LocalSGD{.steps = 3}),
            .use_ema = true,
            .at_batch_begin = [](Training& training, int, std::int64_t batch) {
              training.set_learning_rate(0.03 / (1 + static_cast<double>(batch)));
            }};
    job.options.validation_data = batches(9, 4);
    Job threads = job;
    threads.replicas = 3;
    job.workers = 3;
    const Result workers = train(job);
    CHECK(workers == train(threads));
    CHECK(workers.iterations == 15);
    Job in_step = job;
    in_step.synchronization = {};
    CHECK(train(in_step).crc != workers.crc);
  }
}

TEST_CASE("fit in rounds: nothing is sent between two meetings") {
  std::array<std::vector<int>, 2> before, after;  // each step, on each worker
  std::array<std::vector<bool>, 2> has_loss;
  Job job{.workers = 2, .synchronization = DiLoCo{.steps = 4}, .data = batches(30, 3)};
  job.options.epochs = 1;
  job.at_batch_begin = [&](Training&, int worker, std::int64_t) {
    before.at(static_cast<std::size_t>(worker)).push_back(CountedRing::operations);
  };
  job.at_batch_end = [&](Training&, int worker, std::int64_t, Logs& logs) {
    after.at(static_cast<std::size_t>(worker)).push_back(CountedRing::operations);
    has_loss.at(static_cast<std::size_t>(worker)).push_back(logs.find("loss") != nullptr);
  };
  (void)train(job);
  for (std::size_t worker = 0; worker < 2; ++worker) {
    REQUIRE(after.at(worker).size() == 10);
    bool has_met = false;
    for (std::size_t step = 0; step < 10; ++step) {
      const int begin = before.at(worker)[step];
      if (step > 0 && !has_met) CHECK(begin == after.at(worker)[step - 1]);
      has_met = (step + 1) % 4 == 0 || step == 9;
      CHECK(after.at(worker)[step] - begin == (has_met ? 2 : 0));
    }
  }
  for (const auto& found : has_loss)
    for (std::size_t step = 0; step < found.size(); ++step) CHECK(found[step] == (step >= 3));
}

TEST_CASE("fit in rounds: a run that was interrupted at any step is resumed to the same bits") {
  Job job{.workers = 2, .synchronization = DiLoCo{.steps = 3}, .use_ema = true, .save_freq = 2};
  check_resume(job, {4, 5, 7, 11, 13});
  job.replicas = 2;
  job.synchronization = LocalSGD{.steps = 2};
  check_resume(job, {3, 9});
}

TEST_CASE("fit in rounds: a state that is loaded and saved again is the same") {
  const TemporaryFolder folder;
  const std::string once = folder.path("once"), again = folder.path("again");
  Job job{.workers = 2, .replicas = 2, .synchronization = DiLoCo{.steps = 2}};
  job.options.epochs = 1;
  job.after = [&](NetModel& model) {
    model.save(once);
    model.load(once);
    model.save(again);
  };
  (void)train(job);
  CHECK(read_file(once) == read_file(again));
  // Two slots and the outer momentum, and the slots of three other ranks.
  CHECK(read_snapshot(once)->snapshot.slots.size() ==
        (3 + 3 * 2) * read_snapshot(once)->snapshot.parameters.size());
}

TEST_CASE("fit in rounds: another number of ranks can go on") {
  const TemporaryFolder folder;
  Job job{.workers = 2,
          .synchronization = DiLoCo{.steps = 2},
          .backup_dir = folder.path("backup"),
          .at_batch_begin = [](Training& training, int worker, std::int64_t) {
            if (training.iterations() == 8 && worker == 0) throw std::runtime_error("enough");
          }};
  CHECK_THROWS_WITH((void)train(job), doctest::Contains("enough"));
  job.at_batch_begin = {};
  job.workers = 1;
  job.replicas = 3;
  CHECK(train(job).iterations == 15);
}

TEST_CASE("fit in rounds: requests take effect when the ranks meet") {
  Job job{.workers = 2, .synchronization = LocalSGD{.steps = 4}, .data = batches(48, 4)};
  const TemporaryFolder folder;
  job.backup_dir = folder.path("whole");
  const Result whole = train(job);
  CHECK(whole.iterations == 36);

  Job stopped = job;
  stopped.at_batch_end = [](Training& training, int worker, std::int64_t batch, Logs&) {
    if (worker == 1 && batch == 1) training.stop_training();
  };
  CHECK(train(stopped).iterations == 4);

  job.backup_dir = folder.path("preempted");
  Job preempted = job;
  preempted.at_batch_end = [](Training& training, int worker, std::int64_t batch, Logs&) {
    if (worker == 1 && batch == 5) training.request_preemption(ExitCode::terminated);
  };
  CHECK_THROWS_WITH_AS((void)train(preempted), doctest::Contains("at epoch 1, step 8"), Preempted);
  CHECK(train(job).crc == whole.crc);
}

TEST_CASE("fit in rounds: a worker whose data end before those of the others waits for them") {
  /// Two files with few and with many samples; a worker reads its own.
  struct TwoFiles : RowDataset {
    TwoFiles() : RowDataset(TinyData(24), 4) {}
    [[nodiscard]] AutoShardPolicy auto_shard_policy() const { return AutoShardPolicy::file; }
    [[nodiscard]] std::int64_t num_files() const { return 2; }
    void shard_files(int, int index) {
      static_cast<RowDataset&>(*this) =
          index == 0 ? RowDataset(TinyData(4, 1), 2) : RowDataset(TinyData(18, 2), 2);
    }
  };
  for (const std::int64_t steps : {1, 4, 5, 100}) {
    CAPTURE(steps);
    const Result result = train({.workers = 2,
                                 .synchronization = DiLoCo{.steps = steps},
                                 .options = {.epochs = 2, .verbose = 0},
                                 .data = AnyDataset(TwoFiles{})});
    CHECK(result.iterations == 18);
    for (const double loss : result.losses) CHECK(std::isfinite(loss));
  }
}

TEST_CASE("fit in rounds: a worker alone trains, with LocalSGD as without") {
  const Result plain = train(Job{});
  CHECK(train({.synchronization = LocalSGD{.steps = 3}}).crc == plain.crc);
  const Result outer = train({.synchronization = DiLoCo{.steps = 3}});
  CHECK(outer.crc != plain.crc);
  CHECK(outer.iterations == plain.iterations);
  CHECK(train({.synchronization = DiLoCo{.steps = 1, .learning_rate = 1, .momentum = 0}}) == plain);
}

TEST_CASE("fit in rounds: batches that follow a world in which all are: the same bits") {
  Job job{.workers = 2, .synchronization = LocalSGD{.steps = 3}};
  const Result expected = train(job);
  job.elastic = ElasticOptions{.global_batch = GlobalBatch::follows_world};
  CHECK(train(job) == expected);
}

TEST_CASE("fit in rounds: what makes no sense is refused") {
  CHECK(contains(refusal({.synchronization = DiLoCo{.steps = 0}}), "DiLoCo: steps is 0"));
  CHECK(contains(refusal({.synchronization = DiLoCo{.momentum = 1}}), "DiLoCo: momentum is 1"));
  CHECK(contains(refusal({.synchronization = LocalSGD{.steps = 3}, .accumulation_steps = 2}),
                 "LocalSGD(steps=3) with gradient_accumulation_steps=2"));
  CHECK(contains(refusal({.synchronization = LocalSGD{},
                          .after =
                              [](NetModel& model) {
                                const TinyData data(4);
                                (void)model.train_on_batch(data.x, data.y);
                              }}),
                 "train_on_batch: this model is compiled with LocalSGD(steps=16)"));
  CHECK(contains(refusal({.communication = {.error_feedback = true}}), "set wire to"));
}

TEST_CASE("fit with error feedback: residuals are part of the state") {
  Job job{.workers = 2, .save_freq = 2};
  job.communication.implementation = CommunicationImplementation::ring;
  job.communication.wire = Wire::bfloat16;
  const Result without = train(job);
  job.communication.error_feedback = true;
  CHECK(train(job).crc != without.crc);
  check_resume(job, {5, 9});
  job.replicas = 2;
  job.communication.overlap = Overlap::on;
  check_resume(job, {7});
  job.synchronization = DiLoCo{.steps = 2};
  check_resume(job, {7});
}
