// fit on workers that each update a share of the parameters: the bits and files of workers that
// update all.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/budget.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/checkpoint.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "support/any_optimizer.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Two workers share it out by blocks, three by ranges.
using BigNet =
    ls::Sequential<ls::Input<4>, ls::Dense<1030, ls::ReLU>, ls::Dense<1030>, ls::Dense<3>>;

struct Program {
  int workers = 2;
  int replicas = 1;
  bool sharded = true;
  bool gradients = false;  ///< sharded, too
  ls::Overlap overlap = ls::Overlap::off;
  AnyOptimizer optimizer = ls::Adam{.learning_rate = 0.001};
  int epochs = 1;
  int verbose = 0;
  std::string load{};    ///< before fit, if any
  std::string save{};    ///< after it
  std::string backup{};  ///< a folder
  ls::SaveFrequency save_freq = ls::SaveFrequency::epoch;
  std::function<void(ls::Training&, std::int64_t)> at_batch_end{};
  std::function<bool(int)> shards{};  ///< by worker, in place of `sharded`
};

struct Outcome {
  std::vector<std::uint32_t> crcs{};  ///< of each worker
  std::vector<std::string> failures{};
  std::size_t slot_elements = 0;  ///< of the chief

  bool operator==(const Outcome& other) const { return crcs == other.crcs; }
};

/// 18 samples in batches of 5 leave a worker with fewer samples now and then.
template <class Policy = ls::Ring<ls::Tcp>>
Outcome run(const Program& program) {
  const auto addresses = lockstep_test::free_addresses(program.workers);
  Outcome outcome;
  outcome.crcs.resize(addresses.size());
  const auto thrown = lockstep_test::run_threads(program.workers, [&](int rank) {
    ls::Cluster cluster;
    cluster.spec.worker = addresses;
    cluster.task.index = rank;
    auto communication = lockstep_test::patient_options();
    communication.overlap = program.overlap;
    ls::MultiWorkerMirroredStrategy<Policy> strategy(
        cluster, {.replicas = program.replicas,
                  .communication_options = communication,
                  .sharded_updates = program.shards ? program.shards(rank) : program.sharded,
                  .sharded_gradients = program.gradients});
    const TinyData data(18);
    auto model = ls::compile<BigNet, double>(strategy, {.seed = 5},
                                             ls::SparseCategoricalCrossentropy{.from_logits = true},
                                             program.optimizer);
    if (!program.load.empty()) model.load(program.load);
    ls::LambdaCallback callback{
        .on_train_batch_end = [&](ls::Training& training, std::int64_t batch, ls::Logs&) {
          if (program.at_batch_end) program.at_batch_end(training, batch);
        }};
    std::optional<ls::BackupAndRestore> backup;
    if (!program.backup.empty())
      backup.emplace(ls::BackupAndRestore{.backup_dir = program.backup,
                                          .save_freq = program.save_freq,
                                          .delete_checkpoint = false,
                                          .asynchronous = false});
    model.fit(ls::from_tensor_slices(data.x, data.y).shuffle(18).batch(5),
              {.epochs = program.epochs, .verbose = program.verbose}, callback, backup);
    if (!program.save.empty()) model.save(program.save);
    outcome.crcs[static_cast<std::size_t>(rank)] = model.parameters_crc32c();
  });
  for (const auto& exception : thrown)
    outcome.failures.push_back(lockstep_test::message_of(exception));
  return outcome;
}

ls::TrainingState read(const std::string& path) {
  const auto bytes = ls::read_file(path);
  REQUIRE(bytes);
  return ls::decode_checkpoint(*bytes);
}

/// A program's outcome and file, with sharded updates and without.
template <class Policy = ls::Ring<ls::Tcp>>
void check_like_unsharded(Program program) {
  const TemporaryFolder folder;
  program.save = folder.path("sharded");
  const Outcome sharded = run<Policy>(program);
  program.sharded = false;
  program.gradients = true;
  program.save = folder.path("gradients");
  const Outcome gradients = run<Policy>(program);
  program.overlap = ls::Overlap::on;
  program.save = folder.path("overlapped");
  const Outcome overlapped = run<Policy>(program);
  program.overlap = ls::Overlap::off;
  program.gradients = false;
  program.save = folder.path("whole");
  const Outcome whole = run<Policy>(program);
  for (const auto* outcome : {&sharded, &gradients, &overlapped, &whole})
    for (const std::string& failure : outcome->failures) CHECK(failure == "");
  CHECK(sharded == whole);
  CHECK(gradients == whole);
  CHECK(overlapped == whole);
  CHECK(read(folder.path("gradients")) == read(folder.path("whole")));
  CHECK(read(folder.path("overlapped")) == read(folder.path("whole")));
  for (const std::uint32_t crc : sharded.crcs) CHECK(crc == sharded.crcs[0]);
  CHECK(read(folder.path("sharded")) == read(folder.path("whole")));
}

}  // namespace

TEST_CASE("sharded workers: the bits and the files of workers that update all") {
  check_like_unsharded({.optimizer = ls::AdamW{.learning_rate = 0.01}});
  check_like_unsharded(
      {.workers = 3, .optimizer = ls::Adam{.use_ema = true, .gradient_accumulation_steps = 3}});
  check_like_unsharded({.workers = 3, .optimizer = ls::Lamb{}});
  // Every update needs the norms of all gradients.
  check_like_unsharded({.workers = 3, .optimizer = ls::Adam{.clipnorm = 0.01}});
  check_like_unsharded({.replicas = 2, .optimizer = ls::Lamb{.global_clipnorm = 0.01}});
  // Where ranks share memory, one without slots could update for all.
  check_like_unsharded<ls::SharedMemory>({.optimizer = ls::SGD{.learning_rate = 0.1}});
  check_like_unsharded<ls::Auto>(
      {.replicas = 2, .optimizer = ls::SGD{.learning_rate = 0.1, .momentum = 0.9}});
  check_like_unsharded({.workers = 1});
}

TEST_CASE("sharded workers: any number of them goes on from a file, sharded or not") {
  const TemporaryFolder folder;
  CHECK(run({.workers = 3, .epochs = 1, .save = folder.path("three")}).failures ==
        std::vector<std::string>(3));
  std::vector<Outcome> outcomes;
  for (const bool sharded : {true, false})
    outcomes.push_back(run({.workers = 2, .sharded = sharded, .load = folder.path("three")}));
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.failures == std::vector<std::string>(2));
    CHECK(outcome == outcomes[0]);
  }
}

TEST_CASE(
    "sharded workers: a run that is killed and resumed ends with the bits of one that is not") {
  const TemporaryFolder folder;
  const Outcome undisturbed = run({.workers = 2, .epochs = 2});
  Program program{.workers = 2, .epochs = 2, .backup = folder.path("backup"), .save_freq = 2};
  program.at_batch_end = [](ls::Training& training, std::int64_t) {
    if (training.iterations() == 5) throw std::runtime_error("power failure");
  };
  for (const std::string& failure : run(program).failures)
    CHECK(contains(failure, "power failure"));
  CHECK(read(folder.path("backup/training_state")).iterations == 4);
  program.at_batch_end = {};
  const Outcome resumed = run(program);
  CHECK(resumed.failures == std::vector<std::string>(2));
  CHECK(resumed == undisturbed);
  program.gradients = true;
  CHECK(run(program) == undisturbed);
}

TEST_CASE("sharded workers: what is refused, and what verbose 2 tells") {
  for (const std::string& failure : run({.shards = [](int rank) { return rank == 0; }}).failures)
    CHECK(contains(failure,
                   "compile: the workers differ: worker 1 has nothing there, the chief has "
                   "'sharded updates: yes'"));
  Program program;
  program.at_batch_end = [](ls::Training& training, std::int64_t) { (void)training.state(); };
  for (const std::string& failure : run(program).failures)
    CHECK(contains(failure, "with sharded_updates, the chief alone gets them"));
  const CapturedStderr captured;
  run({.verbose = 2});
  CHECK(contains(captured.text(),
                 "updates: reduce-scatter, then each worker updates a share; optimizer slots: "));
  // The chief has counted what it sent, and the other one in the same process.
  const auto number_behind = [](const std::string& all, const std::string& words) {
    const std::size_t at = all.find(words);
    return at == std::string::npos ? -1.0 : std::stod(all.substr(at + words.size()));
  };
  constexpr ls::Budget budget =
      ls::budget<BigNet, ls::SparseCategoricalCrossentropy, double>(8, ls::Adam{}, 2);
  const double mflop = number_behind(captured.text(), "a step: matrix products of ");
  CHECK(mflop == doctest::Approx(static_cast<double>(budget.flop) * 1e-6 * (18.0 / 4 / 8))
                     .epsilon(0.01));  // 18 samples in 4 steps, in place of 8 in one
  const double kilobytes = number_behind(captured.text(), "; sent to other workers: ");
  CHECK(kilobytes >= static_cast<double>(budget.sent) / 1e3 - 0.1);
  CHECK(kilobytes <= 2.1 * static_cast<double>(budget.sent) / 1e3);
  run({.gradients = true, .verbose = 2});
  const std::string text = captured.text();
  CHECK(contains(text, "updates: reduce-scatter, in ranges during backward, then each worker"));
  CHECK(contains(text, " kB and what is not reduced yet, state "));
}
