// Sharded states: training resumed from them reaches the same bits as from a single file, for any
// number of workers that write and read them.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/extra/elastic.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/saving/checkpoint.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/any_optimizer.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/sanitizer.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Two workers share it out by blocks, three by ranges; it has state that is not trained.
using Net = ls::Sequential<ls::Input<4>, ls::Dense<1030, ls::ReLU>, ls::BatchNormalization<>,
                           ls::Dense<1030>, ls::Dense<3>>;

struct World {
  int workers = 1;  ///< over TCP; 0: one device; -1: two threads
  bool sharded = false;
  bool gradients = false;
  bool elastic = false;
  int local_steps = 0;  ///< of LocalSGD; 0: each step is everybody's
};

struct Program {
  World world{};
  std::string load{};
  std::string save{};    ///< a single file
  std::string shards{};  ///< a folder
  std::optional<ls::BackupAndRestore> backup{};
  std::optional<ls::ModelCheckpointOptions> checkpoint{};
  std::int64_t interrupted_after = -1;  ///< updates
  int epochs = 1;                       ///< 0: no fit
  bool* has_gathered = nullptr;  ///< whether the chief has all slots when the second epoch begins
  AnyOptimizer optimizer = ls::Adam{.learning_rate = 0.01, .use_ema = true};
  std::string weights{};       ///< a file of them, at the end
  std::string load_weights{};  ///< at the beginning
  bool by_name = false;
  std::int64_t* resumed_at = nullptr;  ///< updates when the chief's first step begins
};

template <class Strategy>
std::uint32_t train(Strategy& strategy, const Program& program) {
  const TinyData data(18);
  ls::CompileOptions options{.seed = 5};
  if (program.world.local_steps > 0)
    options.synchronization = ls::LocalSGD{.steps = program.world.local_steps};
  auto model = ls::compile<Net, double>(
      strategy, options, ls::SparseCategoricalCrossentropy{.from_logits = true}, program.optimizer);
  if (!program.load.empty()) model.load(program.load);
  if (!program.load_weights.empty() && program.by_name) {
    const auto report = model.load_weights(program.load_weights, {.by_name = true});
    CHECK(report.missing.empty());
    CHECK(report.unused.empty());
  } else if (!program.load_weights.empty()) {
    model.load_weights(program.load_weights);
  }
  ls::LambdaCallback interrupt{.on_train_batch_begin = [&](ls::Training& training, std::int64_t) {
    if (program.resumed_at != nullptr && training.is_chief() && *program.resumed_at < 0)
      *program.resumed_at = training.iterations();
    if (training.iterations() == program.interrupted_after) throw std::runtime_error("interrupted");
  }};
  interrupt.on_epoch_begin = [&](ls::Training& training, int epoch) {
    if (epoch != 1 || program.has_gathered == nullptr || !training.is_chief()) return;
    try {
      (void)training.state();
      *program.has_gathered = true;
    } catch (const ls::Error&) {
      *program.has_gathered = false;
    }
  };
  std::optional<ls::ModelCheckpoint> checkpoint;
  if (program.checkpoint) checkpoint.emplace(*program.checkpoint);
  auto backup = program.backup;
  if (backup) backup->writer = ls::detail::make_backup_writer();  // each worker's
  if (program.epochs > 0)
    model.fit(ls::from_tensor_slices(data.x, data.y).shuffle(18).batch(6),
              {.epochs = program.epochs, .verbose = 0}, interrupt, checkpoint, backup);
  if (!program.save.empty()) model.save(program.save);
  if (!program.weights.empty()) model.save_weights(program.weights);
  if (!program.shards.empty()) model.save(program.shards, {.sharded = true});
  return model.parameters_crc32c();
}

/// Returns what each worker threw; empty: nothing.
std::vector<std::string> run(const Program& program) {
  if (program.world.workers <= 0) {
    try {
      if (program.world.workers == 0) {
        ls::OneDeviceStrategy strategy;
        train(strategy, program);
      } else {
        ls::MirroredStrategy strategy({.replicas = 2});
        train(strategy, program);
      }
    } catch (const std::exception& error) {
      return {error.what()};
    }
    return {""};
  }
  const auto addresses = free_addresses(program.world.workers);
  std::vector<std::uint32_t> crcs(addresses.size());
  const auto thrown = run_threads(program.world.workers, [&](int rank) {
    ls::Cluster cluster;
    cluster.spec.worker = addresses;
    cluster.task.index = rank;
    ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>> strategy(
        cluster,
        {.communication_options = patient_options(),
         .sharded_updates = program.world.sharded,
         .sharded_gradients = program.world.gradients,
         .elastic = program.world.elastic ? std::optional(ls::ElasticOptions{}) : std::nullopt});
    crcs[static_cast<std::size_t>(rank)] = train(strategy, program);
  });
  std::vector<std::string> failures;
  for (const auto& exception : thrown) failures.push_back(exception ? message_of(exception) : "");
  for (const std::uint32_t crc : crcs) CHECK(crc == crcs[0]);
  return failures;
}

void run_well(const Program& program) {
  for (const std::string& failure : run(program)) CHECK(failure == "");
}

ls::TrainingState read(const std::string& path) {
  const auto bytes = ls::read_file(path);
  REQUIRE(bytes);
  return ls::decode_checkpoint(*bytes);
}

std::size_t shards_in(const std::string& folder) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += entry.path().filename().string().starts_with("shard-");
  return count;
}

/// The largest file of a worker.
std::uintmax_t largest_shard(const std::string& folder) {
  std::uintmax_t largest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    largest = std::max(largest, entry.file_size());
  return largest;
}

#ifdef LOCKSTEP_TEST_TSAN  // Three show a race as well as eight, in a third of the time.
const std::vector<World> readers{
    {.workers = -1}, {.workers = 2, .sharded = true}, {.workers = 3, .gradients = true}};
#else
const std::vector<World> readers{{.workers = 0},
                                 {.workers = -1},
                                 {.workers = 2},
                                 {.workers = 2, .sharded = true},
                                 {.workers = 2, .gradients = true},
                                 {.workers = 3},
                                 {.workers = 3, .sharded = true},
                                 {.workers = 3, .gradients = true}};
#endif

void check_resumes(const World& writer, const AnyOptimizer& optimizer) {
  const TemporaryFolder folder;
  run_well({.world = writer,
            .save = folder.path("file"),
            .shards = folder.path("shards"),
            .optimizer = optimizer});
  REQUIRE(shards_in(folder.path("shards")) ==
          static_cast<std::size_t>(std::max(1, writer.workers)));
  if (writer.workers == 2)  // each worker has half
    CHECK(largest_shard(folder.path("shards")) <
          0.6 * static_cast<double>(std::filesystem::file_size(folder.path("file"))));
  for (const World& reader : readers) {
    CAPTURE(reader.workers);
    CAPTURE(reader.sharded);
    CAPTURE(reader.gradients);
    for (const std::string from : {"file", "shards"})
      run_well({.world = reader,
                .load = folder.path(from),
                .save = folder.path("from_" + from),
                .optimizer = optimizer});
    const ls::TrainingState expected = read(folder.path("from_file"));
    CHECK(expected.iterations > read(folder.path("file")).iterations);
    CHECK(read(folder.path("from_shards")) == expected);
  }
}

}  // namespace

TEST_CASE("sharded states: one device writes, and any number of workers goes on to the same bits") {
  check_resumes({.workers = 0}, ls::Adam{.learning_rate = 0.01, .use_ema = true});
}

TEST_CASE("sharded states: two threads write, and any number of workers goes on") {
  check_resumes({.workers = -1}, ls::Adam{.learning_rate = 0.01});
}

TEST_CASE("sharded states: two workers write, and any number of workers goes on") {
  check_resumes({.workers = 2}, ls::Adam{.learning_rate = 0.01});
}

TEST_CASE("sharded states: with sharded_updates, in the middle of an update of several steps") {
  check_resumes({.workers = 2, .sharded = true},
                ls::Adam{.learning_rate = 0.01, .use_ema = true, .gradient_accumulation_steps = 2});
}

TEST_CASE("sharded states: with sharded_gradients") {
  check_resumes({.workers = 2, .gradients = true}, ls::Adam{.learning_rate = 0.01});
}

TEST_CASE("sharded states: with LocalSGD, each worker goes on with its slots") {
  const TemporaryFolder folder;
  const AnyOptimizer optimizer = ls::Adam{.learning_rate = 0.01};
  const World world{.workers = 2, .local_steps = 2};
  run_well({.world = world,
            .save = folder.path("file"),
            .shards = folder.path("shards"),
            .epochs = 2,
            .optimizer = optimizer});
  const ls::TrainingState file = read(folder.path("file"));
  for (const std::string from : {"file", "shards"}) {
    run_well({.world = world,
              .load = folder.path(from),
              .save = folder.path("again_" + from),
              .epochs = 0,
              .optimizer = optimizer});
    CHECK(read(folder.path("again_" + from)) == file);
    run_well({.world = world,
              .load = folder.path(from),
              .save = folder.path("from_" + from),
              .optimizer = optimizer});
  }
  CHECK(read(folder.path("from_shards")) == read(folder.path("from_file")));
  // The ranks' slots differ, or this shows nothing.
  const std::size_t arrays = file.parameters.size();
  REQUIRE(file.slots.size() == 4 * arrays);
  CHECK(file.slots[0].bytes != file.slots[2 * arrays].bytes);
}

TEST_CASE("sharded states: a new one replaces the old one, and leaves nothing of it") {
  const TemporaryFolder folder;
  const std::string path = folder.path("state");
  run_well({.world = {.workers = 3}, .shards = path});
  CHECK(shards_in(path) == 3);
  run_well({.world = {.workers = 2}, .load = path, .shards = path});
  CHECK(shards_in(path) == 2);
}

TEST_CASE("sharded states: a run that is interrupted goes on from its backup to the same bits") {
  for (const bool asynchronous : {false, true})
    for (const World& world : readers) {
      CAPTURE(asynchronous);
      CAPTURE(world.workers);
      CAPTURE(world.sharded);
      const TemporaryFolder folder;
      const ls::BackupAndRestore backup{.backup_dir = folder.path("backup"),
                                        .save_freq = 1,
                                        .delete_checkpoint = false,
                                        .asynchronous = asynchronous,
                                        .sharded = true};
      run_well({.world = world, .save = folder.path("undisturbed"), .epochs = 2});
      for (const std::string& failure :
           run({.world = world, .backup = backup, .interrupted_after = 4, .epochs = 2}))
        CHECK(contains(failure, "interrupted"));
      REQUIRE(std::filesystem::exists(backup.path() + "/manifest.json"));
      CHECK_FALSE(std::filesystem::exists(folder.path("backup/training_state")));
      CapturedStderr captured;
      run_well({.world = world, .save = folder.path("resumed"), .backup = backup, .epochs = 2});
      CHECK(contains(captured.text(), "resuming from"));
      CHECK(read(folder.path("resumed")) == read(folder.path("undisturbed")));
    }
}

TEST_CASE("sharded states: backups of either kind are taken by either program, and deleted") {
  for (const bool first : {false, true}) {
    CAPTURE(first);
    const TemporaryFolder folder;
    const World two{.workers = 2, .sharded = true}, three{.workers = 3, .sharded = true};
    ls::BackupAndRestore backup{.backup_dir = folder.path("backup"),
                                .save_freq = 1,
                                .asynchronous = false,
                                .sharded = first};
    run({.world = two, .backup = backup, .interrupted_after = 4, .epochs = 2});
    backup.sharded = !first;
    run({.world = three, .backup = backup, .interrupted_after = 5, .epochs = 2});
    CHECK(std::filesystem::exists(folder.path("backup/training_state.ckpt")));
    backup.sharded = first;
    CapturedStderr captured;
    std::int64_t resumed_at = -1;
    run_well({.world = two, .backup = backup, .epochs = 2, .resumed_at = &resumed_at});
    CHECK(resumed_at == 5);  // of the second run, whichever kind it wrote
    CHECK(contains(captured.text(), "resuming from"));
    CHECK_FALSE(std::filesystem::exists(folder.path("backup/training_state.ckpt")));
    CHECK_FALSE(std::filesystem::exists(folder.path("backup/training_state")));
  }
}

TEST_CASE("sharded states: a damaged backup is left for the one before it, by all workers") {
  const TemporaryFolder folder;
  const World world{.workers = 2, .sharded = true};
  const ls::BackupAndRestore backup{.backup_dir = folder.path("backup"),
                                    .save_freq = 1,
                                    .delete_checkpoint = false,
                                    .asynchronous = false,
                                    .sharded = true};
  run_well({.world = world, .save = folder.path("undisturbed"), .epochs = 2});
  run({.world = world, .backup = backup, .interrupted_after = 4, .epochs = 2});
  // The newest state's files are those that the former manifest does not name.
  std::ifstream former(backup.path() + "/manifest.json.previous");
  const std::string text{std::istreambuf_iterator<char>(former), {}};
  std::vector<std::string> newest;
  for (const auto& entry : std::filesystem::directory_iterator(backup.path()))
    if (const std::string name = entry.path().filename().string();
        name.starts_with("shard-1-") && !contains(text, name))
      newest.push_back(entry.path().string());
  REQUIRE(newest.size() == 1);
  {
    std::fstream file(newest[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file.put('!');
  }
  CapturedStderr captured;
  run_well({.world = world, .save = folder.path("resumed"), .backup = backup, .epochs = 2});
  CHECK(contains(captured.text(), "the checksum of elements"));
  CHECK(contains(captured.text(), "going on from the state before it"));
  CHECK(read(folder.path("resumed")) == read(folder.path("undisturbed")));
}

TEST_CASE("sharded states: ModelCheckpoint writes one for load, without gathering slots") {
  for (const World& world : {World{.workers = 0}, World{.workers = 2, .sharded = true}}) {
    CAPTURE(world.workers);
    const TemporaryFolder folder;
    for (const bool sharded : {false, true}) {
      bool has_gathered = false;
      const std::string name = sharded ? "{epoch}.ckpt" : "{epoch}.file";
      run_well({.world = world,
                .save = folder.path("end"),
                .checkpoint =
                    ls::ModelCheckpointOptions{.filepath = folder.path(name), .sharded = sharded},
                .epochs = 2,
                .has_gathered = &has_gathered,
                .optimizer = ls::Adam{.learning_rate = 0.01}});
      CHECK(has_gathered == (!sharded || !world.sharded));
    }
    run_well({.world = {.workers = 3, .sharded = true},
              .load = folder.path("2.ckpt"),
              .save = folder.path("loaded"),
              .epochs = 0,
              .optimizer = ls::Adam{.learning_rate = 0.01}});
    const ls::TrainingState end = read(folder.path("end")), loaded = read(folder.path("loaded"));
    CHECK(loaded.parameters == end.parameters);
    CHECK(loaded.slots == end.slots);
    CHECK(std::filesystem::exists(folder.path("1.ckpt/manifest.json")));
  }
}

TEST_CASE("sharded states: load_weights takes the variables, on any number of workers") {
  const TemporaryFolder folder;
  const std::string shards = folder.path("shards"), weights = folder.path("weights");
  const World writer{.workers = 3, .sharded = true};
  run_well({.world = writer, .shards = shards, .weights = weights});
  for (const World& reader : readers) {
    CAPTURE(reader.workers);
    for (const bool by_name : {false, true}) {
      run_well({.world = reader,
                .save = folder.path("from_file"),
                .load_weights = weights,
                .by_name = by_name});
      run_well({.world = reader,
                .save = folder.path("from_shards"),
                .load_weights = shards,
                .by_name = by_name});
      CHECK(read(folder.path("from_shards")) == read(folder.path("from_file")));
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(shards))
    if (entry.path().filename().string().starts_with("shard-1-"))
      std::filesystem::resize_file(entry.path(), 40);
  for (const std::string& failure : run({.world = {.workers = 2}, .load_weights = shards}))
    CHECK(contains(failure, "load_weights '" + shards + "': worker 0 on host "));
}

TEST_CASE("sharded states: errors are those of all workers, and name host and file") {
  const TemporaryFolder folder;
  const std::string path = folder.path("state");
  const World two{.workers = 2, .sharded = true};
  run_well({.world = two, .shards = path});
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.path().filename().string().starts_with("shard-1-"))
      std::filesystem::remove(entry.path());
  for (const std::string& failure : run({.world = two, .load = path, .epochs = 0})) {
    CHECK(contains(failure, "load '" + path + "': worker 0 on host "));
    CHECK(contains(failure, "shard-1-of-2-"));
    CHECK(contains(failure, "is not there: worker 1 on host "));
    CHECK(contains(failure, "or share the folder between all hosts"));
  }
  std::ofstream(folder.path("file")) << "no folder";
  for (const std::string& failure : run({.world = two, .shards = folder.path("file")}))
    CHECK(contains(failure, "worker 1 on host "));
}

TEST_CASE("sharded states: what cannot be, is refused") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{
      .backup_dir = folder.path(), .on_peer_loss = ls::OnPeerLoss::rejoin, .sharded = true};
  for (const std::string& failure : run({.world = {.workers = 2}, .backup = backup}))
    CHECK(contains(failure, "BackupAndRestore: .sharded with OnPeerLoss::rejoin"));
  const World elastic{.workers = 2, .elastic = true};
  for (const std::string& failure :
       run({.world = elastic,
       .backup = ls::BackupAndRestore{.backup_dir = folder.path(), .sharded = true}}))
    CHECK(contains(failure, "BackupAndRestore: .sharded with parameter servers or in an elastic"));
  for (const std::string& failure :
       run({.world = elastic,
       .checkpoint = ls::ModelCheckpointOptions{.filepath = folder.path("x"), .sharded = true}}))
    CHECK(contains(failure, "ModelCheckpoint: .sharded with parameter servers or in an elastic"));
  CHECK_THROWS_AS(
      ls::ModelCheckpoint({.filepath = "x", .save_weights_only = true, .sharded = true}),
      ls::ConfigurationError);
}
