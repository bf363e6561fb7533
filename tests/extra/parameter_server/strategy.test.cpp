// Workers and parameter servers, as threads of this process.
#include "lockstep/extra/parameter_server.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/checkpoint.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/training/fit_requests.hpp"
#include "support/any_optimizer.hpp"
#include "support/captured_stderr.hpp"
#include "support/certificates.hpp"
#include "support/free_addresses.hpp"
#include "support/messages.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

template <ls::Strategy S>
using TinyModel =
    ls::Model<TinyNet, double, S, ls::SparseCategoricalCrossentropy, AnyOptimizer, ls::Accuracy>;

ls::SparseCategoricalCrossentropy loss() { return {.from_logits = true}; }

/// A cluster whose processes are threads.
struct Job {
  Job(int workers, int servers, AnyOptimizer with)
      : failures(static_cast<std::size_t>(workers)),
        ends(static_cast<std::size_t>(servers)),
        optimizer(std::move(with)) {
    for (int i = 0; i < workers; ++i) spec.worker.push_back("worker:" + std::to_string(i + 1));
    spec.ps = lockstep_test::free_addresses(servers);
  }

  using Program = std::function<void(TinyModel<ls::ParameterServerStrategy>&)>;

  [[nodiscard]] ls::Cluster place(ls::TaskType type, int index) const {
    return {.spec = spec, .task = {type, index}, .source = "test"};
  }

  /// One process, in this thread. Returns what has ended it.
  std::string process(ls::TaskType type, int index, const Program& program) const {
    try {
      ls::ParameterServerStrategy strategy(place(type, index), options);
      TinyModel<ls::ParameterServerStrategy> model(
          strategy, {.seed = 10 + static_cast<std::uint64_t>(index)}, loss(), optimizer, {});
      program(model);
    } catch (const ls::Served&) {
      return "served";
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  /// All processes; program(model, rank) is that of workers, and a server's ends with its fit.
  void run(const std::function<void(TinyModel<ls::ParameterServerStrategy>&, int)>& program) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ends.size(); ++i)
      threads.emplace_back([&, i] {
        ends[i] = process(ls::TaskType::ps, static_cast<int>(i), [](auto& model) {
          model.fit(ls::from_tensor_slices(TinyData(4).x, TinyData(4).y).batch(4));
        });
      });
    for (std::size_t i = 0; i < failures.size(); ++i)
      threads.emplace_back([&, i] {
        failures[i] = process(ls::TaskType::worker, static_cast<int>(i),
                              [&](auto& model) { program(model, static_cast<int>(i)); });
      });
    for (std::thread& thread : threads) thread.join();
  }

  ls::ClusterSpec spec;
  ls::ParameterServerOptions options{.timeout = 20s, .startup_timeout = 60s};
  std::vector<std::string> failures;  ///< of workers
  std::vector<std::string> ends;      ///< of servers
  AnyOptimizer optimizer;
};

void all_went_well(const Job& job) {
  for (const std::string& failure : job.failures) CHECK(failure == "");
  for (const std::string& end : job.ends) CHECK(end == "served");
}

ls::AnyDataset data(int samples = 52, std::int64_t batch = 12) {
  const TinyData all(samples);
  return ls::from_tensor_slices(all.x, all.y).shuffle(64).batch(batch);
}

}  // namespace

static_assert(ls::Strategy<ls::ParameterServerStrategy>);

TEST_CASE("parameter servers: rounds have the bits of the threads of one process") {
  struct Case {
    AnyOptimizer optimizer;
    int servers;
  };
  const Case cases[] = {
      {ls::SGD{.learning_rate = 0.2, .momentum = 0.5}, 1},
      {ls::Adam{.learning_rate =
                    ls::ExponentialDecay{
                        .initial_learning_rate = 0.05, .decay_steps = 5, .decay_rate = 0.5}},
       2},
      {ls::Lamb{.learning_rate = 0.05}, 2}};
  for (const Case& each : cases) {
    CAPTURE(each.optimizer.description());
    ls::MirroredStrategy threads({.replicas = 3});
    TinyModel<ls::MirroredStrategy> expected(threads, {.seed = 10}, loss(), each.optimizer, {});
    const ls::FitOptions options{.epochs = 3, .verbose = 0, .validation_data = data(20)};
    const ls::History history = expected.fit(data(), options);

    Job job(3, each.servers, each.optimizer);
    job.options.max_staleness = 0;
    job.run([&](auto& model, int) {
      const ls::History mine = model.fit(data(), options);
      CHECK(mine["loss"] == history["loss"]);
      CHECK(mine["accuracy"] == history["accuracy"]);
      CHECK(mine["val_loss"].back() == doctest::Approx(history["val_loss"].back()).epsilon(1e-9));
      CHECK(model.parameters_crc32c() == expected.parameters_crc32c());
      CHECK(model.iterations() == expected.iterations());
      CHECK(model.seed() == 10);  // the chief's
    });
    all_went_well(job);
  }
}

TEST_CASE("parameter servers: weights are set before a fit, in on_train_end or after it") {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/weights.npz";
  {
    ls::MirroredStrategy thread({.replicas = 1});
    TinyModel<ls::MirroredStrategy> model(thread, {.seed = 3}, loss(), ls::SGD{}, {});
    model.save_weights(file);
  }
  Job job(2, 1, ls::SGD{.learning_rate = 0.2});
  job.options.max_staleness = 0;
  job.run([&](auto& model, int) {
    const ls::FitOptions options{.epochs = 2, .verbose = 0};
    model.load_weights(file);  // each process reads it
    const auto loaded = model.get_weights();
    int refused = 0;
    const auto refuses = [&](const auto& set) {
      const std::string message = message_of<ls::Error>(set);
      if (message.find("while fit trains with parameter servers") != std::string::npos) ++refused;
    };
    model.fit(data(), options,
              ls::LambdaCallback{.on_epoch_end =
                                     [&](int, ls::Logs&) {
                                       refuses([&] { model.set_weights(loaded); });
                                       refuses([&] { model.load_weights(file); });
                                     },
                                 .on_train_end = [&](ls::Logs&) { model.load_weights(file); }});
    CHECK(refused == 4);
    const auto set = model.get_weights();
    for (std::size_t i = 0; i < loaded.size(); ++i) CHECK(set[i].values == loaded[i].values);
    CHECK(message_of<ls::DataError>([&] {
            model.load_weights(file + ".npz");
          }).find("this process has no such file") != std::string::npos);
    ls::Checkpoint checkpoint(model);
    ls::CheckpointManager manager(checkpoint, {.directory = folder.path() + "/kept"});
    CHECK(message_of<ls::ConfigurationError>([&] {
            manager.restore_or_initialize();
          }).find("give ParameterServerOptions a backup_dir") != std::string::npos);
    model.fit(data(), options);  // the chief's
  });
  all_went_well(job);
}

TEST_CASE(
    "parameter servers: a second fit has the bits of threads, with a learning rate set in the last "
    "epoch") {
  const auto set = [](auto& model) {
    return ls::LambdaCallback{.on_epoch_end = [&](int epoch, ls::Logs&) {
      if (epoch == 1) model.set_learning_rate(0.125);
    }};
  };
  const ls::FitOptions options{.epochs = 2, .verbose = 0};
  ls::MirroredStrategy threads({.replicas = 2});
  TinyModel<ls::MirroredStrategy> expected(threads, {.seed = 10}, loss(), ls::SGD{}, {});
  expected.fit(data(), options, set(expected));
  expected.fit(data(), options);
  Job job(2, 2, ls::SGD{});
  job.options.max_staleness = 0;
  job.run([&](auto& model, int) {
    model.fit(data(), options, set(model));
    CHECK(model.learning_rate() == 0.125);
    model.fit(data(), options);
    CHECK(model.parameters_crc32c() == expected.parameters_crc32c());
  });
  all_went_well(job);
}

TEST_CASE("parameter servers: verbose 2 tells the route of updates, as with other strategies") {
  for (const std::int64_t staleness : {0, 2}) {
    const CapturedStderr captured;
    Job job(2, 1, ls::SGD{.learning_rate = 0.1});
    job.options.max_staleness = staleness;
    job.run([&](auto& model, int) { model.fit(data(), {.epochs = 1, .verbose = 2}); });
    all_went_well(job);
    CHECK(captured.text().find(staleness == 0 ? "; updates: parameter servers, in rounds\n"
                                              : "; updates: parameter servers, asynchronous\n") !=
          std::string::npos);
  }
}

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
TEST_CASE("parameter servers: with TLS by certificates, rounds have the same bits") {
  const TemporaryFolder folder;
  const Authority authority(folder.path());
  for (const char* task : {"rank-0", "rank-1", "ps-0", "ps-1"})
    (void)authority.issue(std::string(task) + ".lockstep", task);
  std::vector<std::uint32_t> ends;
  for (const ls::Tls tls : {ls::Tls::off, ls::Tls::certificates}) {
    Job job(2, 2, ls::Adam{.learning_rate = 0.02});
    job.options.max_staleness = 0;
    job.options.tls = tls;
    if (tls == ls::Tls::certificates)
      job.options.tls_files = {.authority = authority.file(),
                               .certificate = folder.path() + "/{task}.pem",
                               .key = folder.path() + "/{task}.key"};
    std::vector<std::uint32_t> sums(2);
    job.run([&](auto& model, int rank) {
      model.fit(data(), {.epochs = 2, .verbose = 0});
      sums[static_cast<std::size_t>(rank)] = model.parameters_crc32c();
    });
    all_went_well(job);
    ends.insert(ends.end(), sums.begin(), sums.end());
  }
  CHECK(ends == std::vector<std::uint32_t>(4, ends.front()));
}
#endif

TEST_CASE("parameter servers: what the chief's callbacks set at the end, all have") {
  for (const bool chief_sets : {true, false}) {
    CAPTURE(chief_sets);
    Job job(3, 2, ls::Adam{.learning_rate = 0.05});
    std::vector<std::uint32_t> in_the_end(3);
    job.run([&](auto& model, int rank) {
      std::vector<std::byte> first;
      const ls::LambdaCallback keeps_first{.on_epoch_end =
                                               [&](ls::Training& training, int epoch, ls::Logs&) {
                                                 if (epoch == 0) first = training.parameters();
                                               },
                                           .on_train_end =
                                               [&](ls::Training& training, ls::Logs&) {
                                                 if (rank == (chief_sets ? 0 : 2))
                                                   training.set_parameters(first);
                                               }};
      for (int fit = 0; fit < 2; ++fit) model.fit(data(), {.epochs = 3, .verbose = 0}, keeps_first);
      in_the_end[static_cast<std::size_t>(rank)] = model.parameters_crc32c();
    });
    all_went_well(job);
    CHECK(in_the_end[0] == in_the_end[1]);
    CHECK(in_the_end[0] == in_the_end[2]);
  }
}

TEST_CASE("parameter servers: asynchronous workers learn, and end with the same model") {
  Job job(2, 2, ls::Adam{.learning_rate = 0.02});
  std::vector<std::uint32_t> ends(2);
  std::vector<double> losses(2);
  job.run([&](auto& model, int rank) {
    const double before = model.evaluate(data(60)).at("loss");
    const ls::History first = model.fit(data(), {.epochs = 6, .verbose = 0});
    const ls::History second = model.fit(data(), {.epochs = 6, .verbose = 0});
    CHECK(first.epoch.size() == 6);
    CHECK(second["loss"].back() < first["loss"].front());
    const auto i = static_cast<std::size_t>(rank);
    ends[i] = model.parameters_crc32c();
    losses[i] = model.evaluate(data(60)).at("loss");
    CHECK(losses[i] < 0.8 * before);
    CHECK(model.iterations() == 2 * 6 * 5 * 2);  // of all workers
  });
  all_went_well(job);
  CHECK(ends[0] == ends[1]);
  CHECK(losses[0] == losses[1]);
}

TEST_CASE("parameter servers: a slow worker does not keep the others waiting, beyond the limit") {
  for (const auto limit : {std::optional<std::int64_t>(), std::optional<std::int64_t>(2)}) {
    Job job(2, 1, ls::SGD{.learning_rate = 0.1});
    job.options.max_staleness = limit;
    std::atomic<int> steps[2] = {0, 0};
    std::atomic<bool> has_begun = false;
    int lead = 0;
    job.run([&](auto& model, int rank) {
      Recorder recorder;
      recorder.at_batch_begin = [&](ls::Training&, std::int64_t) {
        if (rank == 1) has_begun = true;
        const auto deadline = std::chrono::steady_clock::now() + 60s;
        while (!has_begun && std::chrono::steady_clock::now() < deadline)
          std::this_thread::sleep_for(1ms);
        if (rank == 1) {  // until the other has made all its steps, or cannot make more
          const int wanted = limit ? steps[1] + static_cast<int>(*limit) : 30;
          const auto end = std::chrono::steady_clock::now() + 60s;
          while (steps[0] < std::min(wanted, 30) && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(1ms);
          return;
        }
        lead = std::max(lead, steps[0] - steps[1]);
      };
      recorder.at_batch_end = [&](ls::Training&, std::int64_t, ls::Logs&) { ++steps[rank]; };
      model.fit(data(), {.epochs = 6, .verbose = 0}, recorder);
    });
    all_went_well(job);
    CHECK(steps[0] == 30);
    CHECK(steps[1] == 30);
    // (The other counts a step later than the server does.)
    if (limit)
      CHECK(lead <= *limit + 1);
    else
      CHECK(lead == 29);
  }
}

TEST_CASE("parameter servers: a worker dies and comes back while the others go on") {
  for (const bool in_rounds : {false, true}) {
    CAPTURE(in_rounds);
    Job job(2, 1, ls::SGD{.learning_rate = 0.1});
    if (in_rounds) job.options.max_staleness = 0;
    std::atomic<bool> is_back{false};
    std::int64_t steps_after = 0;
    const ls::FitOptions options{.epochs = 8, .verbose = 0};
    std::uint32_t ends[2] = {0, 1};
    std::thread server([&] {
      job.ends[0] = job.process(ls::TaskType::ps, 0, [](auto& model) {
        model.fit(ls::from_tensor_slices(TinyData(4).x, TinyData(4).y).batch(4));
      });
    });
    std::thread chief([&] {
      job.failures[0] = job.process(ls::TaskType::worker, 0, [&](auto& model) {
        Recorder recorder;
        recorder.at_batch_end = [&](ls::Training&, std::int64_t, ls::Logs&) {
          const auto end = std::chrono::steady_clock::now() + 60s;
          while (recorder.count("batch_end") == 10 && !is_back &&
                 std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(1ms);
        };
        model.fit(data(), options, recorder);
        ends[0] = model.parameters_crc32c();
      });
    });
    const std::string death = job.process(ls::TaskType::worker, 1, [&](auto& model) {
      Recorder recorder;
      recorder.at_batch_end = [&](ls::Training&, std::int64_t, ls::Logs&) {
        if (recorder.count("batch_end") == 7) throw std::runtime_error("dies");
      };
      model.fit(data(), options, recorder);
    });
    job.failures[1] = job.process(ls::TaskType::worker, 1, [&](auto& model) {
      Recorder recorder;
      recorder.at_batch_begin = [&](ls::Training&, std::int64_t) { is_back = true; };
      model.fit(data(), options, recorder);
      steps_after = recorder.count("batch_end");
      ends[1] = model.parameters_crc32c();
    });
    chief.join();
    server.join();
    CHECK(contains(death, "dies"));
    all_went_well(job);
    // In rounds where the other is, which has made 7 to 10 of 40 steps; else where it was itself.
    CHECK(steps_after >= (in_rounds ? 30 : 33));
    CHECK(steps_after <= 33);
    CHECK(ends[0] == ends[1]);
  }
}

TEST_CASE("parameter servers: one that is told to stop keeps all updates for its successor") {
  const TemporaryFolder folder;
  Job job(1, 1, ls::SGD{.learning_rate = 0.1});
  job.options.backup_dir = folder.path();
  job.options.backup_freq = 1000;
  // While it lives, a signal does not end this program.
  std::optional<ls::detail::PreemptionSignals> signals(std::in_place);
  std::atomic<bool> has_successor{false};
  const auto serve = [&] {
    return job.process(ls::TaskType::ps, 0, [](auto& model) {
      model.fit(ls::from_tensor_slices(TinyData(4).x, TinyData(4).y).batch(4));
    });
  };
  std::int64_t updates = 0;
  std::thread worker([&] {
    job.failures[0] = job.process(ls::TaskType::worker, 0, [&](auto& model) {
      Recorder recorder;
      recorder.at_batch_end = [&](ls::Training&, std::int64_t, ls::Logs&) {
        if (recorder.count("batch_end") != 7) return;
        ::raise(SIGTERM);
        for (int i = 0; !has_successor && i < 6000; ++i) std::this_thread::sleep_for(10ms);
      };
      model.fit(data(), {.epochs = 4, .verbose = 0}, recorder);
      updates = model.iterations();
    });
  });
  const std::string end = serve();
  CHECK(end == "parameter server 0 was told to stop; started again, it goes on from its backup");
  signals.reset();  // forgets the signal, which the server has answered
  has_successor = true;
  job.ends[0] = serve();
  worker.join();
  all_went_well(job);
  CHECK(updates == 20);
}

TEST_CASE("parameter servers: no worker waits for one whose fit an exception has ended") {
  Job job(2, 1, ls::SGD{.learning_rate = 0.1});
  job.options.max_staleness = 0;
  std::atomic<bool> is_over{false};
  job.run([&](auto& model, int rank) {
    Recorder recorder;
    recorder.at_batch_end = [&](ls::Training&, std::int64_t, ls::Logs&) {
      if (rank == 1 && recorder.count("batch_end") == 3) throw std::runtime_error("fails");
    };
    const std::string end = message_of<std::runtime_error>(
        [&] { model.fit(data(), {.epochs = 2, .verbose = 0}, recorder); });
    if (rank == 0) {
      is_over = true;
      CHECK(end == "NO EXCEPTION");
      return;
    }
    CHECK(contains(end, "fails"));
    for (int i = 0; !is_over && i < 6000; ++i) std::this_thread::sleep_for(10ms);
    CHECK(is_over);
  });
  all_went_well(job);
}

TEST_CASE("parameter servers: a worker whose fit has other options or data is refused by name") {
  for (const bool other_data : {false, true}) {
    Job job(2, 1, ls::SGD{});
    job.options.timeout = 1s;
    job.options.startup_timeout = 3s;
    job.run([&](auto& model, int rank) {
      const bool differs = rank == 1;
      model.fit(data(differs && other_data ? 40 : 52),
                {.epochs = differs && !other_data ? 3 : 2, .verbose = 0});
    });
    CHECK(job.failures[1].find(other_data ? "has 'training data, samples in the source: 40', "
                                            "another one has 'training data, samples in the "
                                            "source: 52'"
                                          : "has 'epochs: 3', another one has 'epochs: 2'") !=
          std::string::npos);
  }
}

TEST_CASE("parameter servers: what they cannot do is refused by name") {
  const auto refusal = [](const AnyOptimizer& optimizer) {
    const Job job(1, 1, optimizer);
    return job.process(ls::TaskType::worker, 0, [](auto&) {});
  };
  CHECK(contains(refusal(ls::SGD{.global_clipnorm = 1}), "clipnorm and global_clipnorm need"));
  CHECK(contains(refusal(ls::SGD{.use_ema = true}), "use_ema keeps averages"));
  CHECK(contains(refusal(ls::SGD{.gradient_accumulation_steps = 2}),
                 "gradient_accumulation_steps adds"));

  ls::Cluster cluster;
  cluster.spec.worker = {"a:1", "b:1"};
  CHECK(
      contains(message_of<ls::ConfigurationError>([&] { ls::ParameterServerStrategy s(cluster); }),
               "the cluster has no job 'ps'"));
  CHECK(contains(message_of<ls::ConfigurationError>(
                     [] { ls::ParameterServerStrategy s(ls::Cluster{}, {.max_staleness = -1}); }),
                 "max_staleness must be 0 (rounds) or more"));
}

TEST_CASE("parameter servers: callbacks that save shares are refused when training begins") {
  const TemporaryFolder folder;
  for (const bool is_backup : {false, true}) {
    Job job(2, 1, ls::SGD{});
    job.options.startup_timeout = 5s;  // the server waits for workers whose fit begins
    job.run([&](auto& model, int) {
      std::optional<ls::BackupAndRestore> backup;
      std::optional<ls::ModelCheckpoint> checkpoint;
      if (is_backup)
        backup.emplace(ls::BackupAndRestore{.backup_dir = folder.path("backup"), .sharded = true});
      else
        checkpoint.emplace(
            ls::ModelCheckpointOptions{.filepath = folder.path("{epoch}.ckpt"), .sharded = true});
      ls::LambdaCallback none{
          .on_train_batch_begin = [](ls::Training&, std::int64_t) { FAIL("no step is made"); }};
      model.fit(data(), {.verbose = 0}, backup, checkpoint, none);
    });
    for (const std::string& failure : job.failures)
      CHECK(contains(failure, is_backup ? "BackupAndRestore: .sharded with parameter servers"
                                        : "ModelCheckpoint: .sharded with parameter servers"));
  }
}

TEST_CASE("parameter servers: CheckpointManager refuses .sharded, on each worker") {
  const TemporaryFolder folder;
  Job job(2, 1, ls::SGD{});
  job.run([&](auto& model, int) {
    model.fit(data(), {.epochs = 1, .verbose = 0});
    ls::Checkpoint checkpoint(model);
    ls::CheckpointManager manager(checkpoint, {.directory = folder.path(), .sharded = true});
    CHECK(contains(message_of<ls::ConfigurationError>([&] { manager.save(); }),
                   "CheckpointManager: .sharded with parameter servers"));
  });
  all_went_well(job);
}

TEST_CASE("parameter servers: the chief goes on from a sharded backup, which it reads alone") {
  const TemporaryFolder folder;
  {
    ls::MirroredStrategy threads({.replicas = 2});
    TinyModel<ls::MirroredStrategy> model(threads, {.seed = 10}, loss(), ls::SGD{}, {});
    model.fit(data(), {.epochs = 2, .verbose = 0},
              ls::BackupAndRestore{
                  .backup_dir = folder.path(), .delete_checkpoint = false, .sharded = true});
  }
  REQUIRE(std::filesystem::exists(folder.path("training_state.ckpt/manifest.json")));
  Job job(2, 2, ls::SGD{});
  job.options.max_staleness = 0;
  std::atomic<int> first_epoch{-1};
  job.run([&](auto& model, int rank) {
    ls::LambdaCallback begin;
    begin.on_epoch_begin = [&](ls::Training&, int epoch) {
      if (rank == 0 && first_epoch < 0) first_epoch = epoch;
    };
    model.fit(data(), {.epochs = 3, .verbose = 0}, begin,
              ls::BackupAndRestore{.backup_dir = folder.path(), .delete_checkpoint = false});
  });
  all_went_well(job);
  CHECK(first_epoch == 2);
}

TEST_CASE("parameter servers: all end with the sentence of a chief that cannot begin the fit") {
  const TinyData all(12);
  const ls::AnyDataset no_data = ls::from_tensor_slices(all.x, all.y).take(0).batch(12);
  for (const std::string what : {"option", "damaged", "empty"}) {
    CAPTURE(what);
    const bool is_damaged = what == "damaged";
    const TemporaryFolder folder;
    const std::string shards = folder.path("training_state.ckpt");
    std::filesystem::create_directory(shards);
    std::ofstream(shards + "/manifest.json") << "{\"format\": \"none\"}";
    Job job(3, 2, ls::SGD{});
    job.options.startup_timeout = 500s;  // none waits for that
    std::atomic<int> steps{0};
    job.run([&](auto& model, int rank) {
      ls::LambdaCallback callback{
          .on_train_batch_begin = [&](ls::Training&, std::int64_t) { ++steps; }};
      callback.on_train_begin = [&](ls::Training&) {
        if (what == "option" && rank == 0)
          throw ls::ConfigurationError("the chief's option is wrong");
      };
      std::optional<ls::BackupAndRestore> backup;
      if (is_damaged) backup.emplace(ls::BackupAndRestore{.backup_dir = folder.path()});
      model.fit(what == "empty" && rank == 0 ? no_data : data(), {.epochs = 1, .verbose = 0},
                callback, backup);
    });
    CHECK(steps == 0);
    const std::string sentence = is_damaged         ? "it is no manifest of a sharded state"
                                 : what == "option" ? "the chief's option is wrong"
                                                    : "the training data is empty";
    for (const std::string& failure : job.failures) CHECK(contains(failure, sentence));
    for (std::size_t rank = 1; rank < job.failures.size(); ++rank)
      CHECK(contains(job.failures[rank], "refuses worker " + std::to_string(rank) +
                                             ": the chief cannot begin the fit: "));
    for (const std::string& end : job.ends)
      CHECK(contains(end, "the chief cannot begin the fit: "));
  }
}

TEST_CASE("parameter servers: processes that differ are turned away, and told in what") {
  Job job(1, 1, ls::SGD{});
  std::thread server([&] {
    job.ends[0] = job.process(ls::TaskType::ps, 0, [](auto& model) {
      model.fit(ls::from_tensor_slices(TinyData(4).x, TinyData(4).y).batch(4));
    });
  });
  const auto fit = [](auto& model) { model.fit(data(), {.epochs = 1, .verbose = 0}); };
  Job with_limit = job;
  with_limit.options.max_staleness = 3;
  CHECK(contains(with_limit.process(ls::TaskType::worker, 0, fit),
                 "max_staleness (-1: no limit) 3, the server has -1"));
  Job larger = job;
  larger.spec.worker.push_back("worker:9");
  CHECK(contains(larger.process(ls::TaskType::worker, 0, fit), "a number of workers of 2"));
  Job other = job;
  other.optimizer = ls::Adam{};
  CHECK(contains(other.process(ls::TaskType::worker, 0, fit), "this worker has 'optimizer"));
  CHECK(job.process(ls::TaskType::worker, 0, fit) == "");
  server.join();
  CHECK(job.ends[0] == "served");

  SUBCASE("a server that is not there is named") {
    job.options.startup_timeout = 300ms;
    job.options.timeout = 100ms;
    const std::string why = job.process(ls::TaskType::worker, 0, fit);
    CHECK(contains(why, "worker 0: parameter server 0 (" + job.spec.ps[0] + "): "));
    CHECK(contains(why, "start it (again), with the backup_dir that it had"));
  }
}
