// A run that was interrupted and resumed, or has lost workers on its way, ends with the bits of a
// run that was not.
//
// (One file of more than 800 lines: all cases train the same small programs and compare bits.)
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/data/filter.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/extra/elastic.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/mortal_workers.hpp"
#include "support/temporary_folder.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("power failure") {}
};

/// Halves the learning rate after every second epoch, and counts the epochs in its saved state.
struct HalvingRecorder : Recorder {
  int epochs = 0;
  explicit HalvingRecorder(bool halves = true) {
    at_epoch_end = [this, halves](ls::Training& training, int, ls::Logs&) {
      if (++epochs % 2 == 0 && halves) training.set_learning_rate(training.learning_rate() / 2);
    };
    at_save = [this](ls::State& state) { state.put("epochs", epochs); };
    at_restore = [this](const ls::State& state) { epochs = state.get<int>("epochs"); };
  }
};

struct Run {
  ls::AnyDataset data;
  ls::FitOptions options;
  std::int64_t save_freq = ls::SaveFrequency::epoch;
  int replicas = 1;
  bool asynchronous = false;  // which file is there at an interruption then depends on the disk
  ls::LearningRate learning_rate = 0.2;
  double global_clipnorm = 0;
  double momentum = 0.9;
  bool allow_changes = false;
};

struct Result {
  std::uint32_t crc = 0;
  std::int64_t iterations = 0;
  double learning_rate = 0;
  double loss = 0;
  int epochs_seen = 0;
  std::vector<int> history;
  std::vector<std::string> calls;
  friend bool operator==(const Result& a, const Result& b) {
    return a.crc == b.crc && a.iterations == b.iterations && a.learning_rate == b.learning_rate &&
           a.loss == b.loss && a.epochs_seen == b.epochs_seen;
  }
};

/// Trains in a model of its own (another seed: the saved one must win), and fails before update
/// `fail_before`.
Result train(const Run& run, const std::string& folder, std::uint64_t seed,
             std::optional<std::int64_t> fail_before = {}) {
  TinyTrainer trainer({.replicas = run.replicas,
                       .seed = seed,
                       .learning_rate = run.learning_rate,
                       .momentum = run.momentum,
                       .global_clipnorm = run.global_clipnorm});
  HalvingRecorder recorder(!run.learning_rate.is_scheduled());
  if (fail_before)
    recorder.at_batch_begin = [&](ls::Training& training, std::int64_t) {
      if (training.iterations() == *fail_before) throw Interrupted();
    };
  ls::BackupAndRestore backup{.backup_dir = folder,
                              .save_freq = run.save_freq,
                              .asynchronous = run.asynchronous,
                              .allow_changes = run.allow_changes};
  const ls::History history = trainer.fit(run.data, run.options, recorder, backup);
  return {.crc = trainer.parameters_crc32c(),
          .iterations = trainer.iterations(),
          .learning_rate = trainer.learning_rate(),
          .loss = history["loss"].back(),
          .epochs_seen = recorder.epochs,
          .history = history.epoch,
          .calls = recorder.calls};
}

/// Interrupts the run before each of the given updates, resumes it, and compares it with one that
/// went through.
void check_resume(const Run& run, std::initializer_list<std::int64_t> interruptions) {
  const TemporaryFolder folder;
  const std::int64_t first_save = run.save_freq > 0 ? run.save_freq : 5;
  const Result whole = train(run, folder.path("whole"), 11);
  CHECK_FALSE(std::filesystem::exists(folder.path("whole/training_state")));
  for (const std::int64_t at : interruptions) {
    CAPTURE(at);
    const std::string backup = folder.path(std::to_string(at));
    CHECK_THROWS_WITH_AS((void)train(run, backup, 11, at), doctest::Contains("power failure"),
                         ls::Error);
    const bool has_backup = std::filesystem::exists(backup + "/training_state");
    CHECK(has_backup == (at >= first_save));
    const Result resumed = train(run, backup, has_backup ? 99 : 11);  // the saved seed counts
    CHECK(resumed == whole);
    CHECK_FALSE(std::filesystem::exists(backup + "/training_state"));
  }
}

ls::AnyDataset shuffled(bool repeated) {
  const TinyData data(22);
  const auto samples = ls::from_tensor_slices(data.x, data.y).shuffle(22);
  return repeated ? ls::AnyDataset(samples.repeat().batch(5)) : ls::AnyDataset(samples.batch(5));
}

// 5 updates an epoch.
Run new_passes(std::int64_t save_freq, int replicas = 1) {
  return {.data = shuffled(false),
          .options = {.epochs = 4},
          .save_freq = save_freq,
          .replicas = replicas};
}
Run one_endless_pass(std::int64_t save_freq, int replicas = 1) {
  return {.data = shuffled(true),
          .options = {.epochs = 4, .steps_per_epoch = 5},
          .save_freq = save_freq,
          .replicas = replicas};
}

}  // namespace

TEST_CASE("resume: saved at epochs, a new pass each epoch") {
  check_resume(new_passes(0), {0, 2, 5, 8, 19});
}
TEST_CASE("resume: saved at epochs, shuffle and repeat") {
  check_resume(one_endless_pass(0), {0, 2, 5, 8, 19});
}
TEST_CASE("resume: saved at steps, a new pass each epoch") {
  check_resume(new_passes(3), {1, 3, 4, 5, 7, 10, 16, 19});
}
TEST_CASE("resume: saved at steps, shuffle and repeat") {
  check_resume(one_endless_pass(3), {1, 4, 5, 7, 10, 16, 19});
}
TEST_CASE("resume: saved at every step, also at the last of an epoch") {
  check_resume(new_passes(1), {1, 5, 6, 19});
  check_resume(one_endless_pass(1), {1, 5, 6, 19});
}
TEST_CASE("resume: saved at the last step of each epoch only") {
  check_resume(new_passes(5), {5, 7, 10});
  check_resume(one_endless_pass(5), {5, 7, 10});
}
TEST_CASE("resume: on two replicas") {
  check_resume(new_passes(3, 2), {4, 10});
  check_resume(one_endless_pass(0, 2), {8});
}

TEST_CASE("resume: a schedule goes on where it was, with clipping by the global norm") {
  for (const int replicas : {1, 2}) {
    Run run = new_passes(3, replicas);
    run.learning_rate =
        ls::CosineDecay{.decay_steps = 15, .alpha = 0.1, .warmup_target = 0.4, .warmup_steps = 4};
    run.global_clipnorm = 0.05;
    check_resume(run, {4, 10});
  }
}

TEST_CASE("resume: saved on a thread while training goes on") {
  for (const int replicas : {1, 2}) {
    for (Run run :
         {new_passes(1, replicas), one_endless_pass(2, replicas), new_passes(0, replicas)}) {
      run.asynchronous = true;
      check_resume(run, {5, 6, 13, 19});
    }
  }
}

TEST_CASE("resume: data whose length is unknown") {
  RowDataset rows(TinyData(22), 5);
  rows.reported_cardinality = ls::unknown_cardinality;
  check_resume({.data = rows, .options = {.epochs = 4}, .save_freq = 3}, {4, 5, 10, 16});
}

TEST_CASE("resume: an interruption at the end of an epoch repeats the epoch's end, not its steps") {
  for (const Run& run : {new_passes(5), one_endless_pass(5)}) {
    const TemporaryFolder folder;
    const Result whole = train(run, folder.path("whole"), 11);
    TinyTrainer trainer({.seed = 11, .learning_rate = 0.2, .momentum = 0.9});
    HalvingRecorder recorder;
    recorder.at_epoch_end = [](ls::Training&, int epoch, ls::Logs&) {
      if (epoch == 0) throw Interrupted();
    };
    ls::BackupAndRestore backup{
        .backup_dir = folder.path("cut"), .save_freq = 5, .asynchronous = false};
    CHECK_THROWS_WITH_AS((void)trainer.fit(run.data, run.options, recorder, backup),
                         doctest::Contains("power failure"), ls::Error);
    const Result resumed = train(run, folder.path("cut"), 99);
    CHECK(resumed == whole);
    CHECK(resumed.calls[1] == "epoch_begin 0");
    CHECK(resumed.calls[2] == "epoch_end 0");
    CHECK(resumed.history == std::vector<int>{0, 1, 2, 3});
  }
}

TEST_CASE("resume: data that run out do so in the resumed run as well") {
  const TinyData data(22);
  const Run run{.data = ls::from_tensor_slices(data.x, data.y).batch(5),  // 5 batches, of 6 wanted
                .options = {.epochs = 3, .steps_per_epoch = 2},
                .save_freq = 1};
  check_resume(run, {1, 2, 4});
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS((void)train(run, folder.path(), 11, 4), doctest::Contains("power failure"),
                       ls::Error);
  CHECK(train(run, folder.path(), 11).history == std::vector<int>{1, 2});
}

TEST_CASE("resume: a backup overrides initial_epoch, and History starts where training goes on") {
  const TemporaryFolder folder;
  Run run = new_passes(0);
  CHECK_THROWS_WITH_AS((void)train(run, folder.path(), 11, 12), doctest::Contains("power failure"),
                       ls::Error);
  run.options.initial_epoch = 3;
  const Result resumed = train(run, folder.path(), 11);
  CHECK(resumed.history == std::vector<int>{2, 3});
  CHECK(resumed.iterations == 20);
}

TEST_CASE("resume: fewer epochs than the backup has behind it are nothing to do, which is said") {
  const TemporaryFolder folder;
  Run run = new_passes(0);
  CHECK_THROWS_WITH_AS((void)train(run, folder.path(), 11, 17), doctest::Contains("power failure"),
                       ls::Error);
  run.options.epochs = 2;
  const CapturedStderr output;
  TinyTrainer trainer({.seed = 11, .learning_rate = 0.2, .momentum = 0.9});
  HalvingRecorder recorder;  // as in the run before
  ls::BackupAndRestore backup{.backup_dir = folder.path()};
  CHECK(trainer.fit(run.data, run.options, recorder, backup).epoch.empty());
  CHECK(trainer.iterations() == 15);
  CHECK(contains(output.text(),
                 "fit: nothing to do: the restored training is in epoch 4, and .epochs is 2"));
  run.options.epochs = 4;
  CHECK(train(run, folder.path(), 11).iterations == 20);  // the backup is still there
}

TEST_CASE("resume: the running averages of an epoch go on") {
  const TemporaryFolder folder;
  const Run run = new_passes(3);
  const Result whole = train(run, folder.path("whole"), 11);
  CHECK_THROWS_WITH_AS((void)train(run, folder.path("cut"), 11, 18),
                       doctest::Contains("power failure"), ls::Error);
  const Result resumed = train(run, folder.path("cut"), 11);
  CHECK(resumed.loss == whole.loss);  // the resumed process ran 2 of the 5 steps of the last epoch
  CHECK(resumed.calls[2] == "batch_begin 3");
}

TEST_CASE("resume: a run that was complete has nothing left to do") {
  const TemporaryFolder folder;
  const Run run = new_passes(0);
  TinyTrainer trainer;
  Recorder recorder;
  ls::BackupAndRestore backup{.backup_dir = folder.path(), .delete_checkpoint = false};
  trainer.fit(run.data, run.options, recorder, backup);
  Recorder again;
  TinyTrainer other({.seed = 1});
  const ls::History history = other.fit(run.data, run.options, again, backup);
  CHECK(again.calls == std::vector<std::string>{"train_begin", "train_end without logs"});
  CHECK(history.epoch.empty());
  CHECK(history.begin() == history.end());
  CHECK(contains(message_of<ls::Error>([&] { (void)history["loss"]; }), "no epoch was run"));
  CHECK(other.parameters_crc32c() == trainer.parameters_crc32c());
  CHECK(other.iterations() == 20);
}

TEST_CASE("resume: early stop is a normal end, which deletes the backup; an exception is not") {
  const TemporaryFolder folder;
  const Run run = new_passes(0);
  TinyTrainer trainer;
  Recorder recorder;
  recorder.at_epoch_end = [](ls::Training& training, int, ls::Logs&) { training.stop_training(); };
  ls::BackupAndRestore backup{.backup_dir = folder.path()};
  trainer.fit(run.data, run.options, recorder, backup);
  CHECK_FALSE(std::filesystem::exists(backup.path()));
  CHECK_THROWS_WITH_AS((void)train(run, folder.path(), 11, 12), doctest::Contains("power failure"),
                       ls::Error);
  CHECK(std::filesystem::exists(backup.path()));
}

TEST_CASE(
    "resume: a damaged backup without one before it is an error that names the file, and trains "
    "nothing") {
  const TemporaryFolder folder;
  const Run run = new_passes(0);
  CHECK_THROWS_WITH_AS((void)train(run, folder.path(), 11, 12), doctest::Contains("power failure"),
                       ls::Error);
  auto bytes = *ls::read_file(folder.path("training_state"));
  bytes[bytes.size() / 2] ^= std::byte{4};
  ls::write_file_atomically(folder.path("training_state"), bytes);
  ls::remove_file(folder.path("training_state.previous"));
  const std::string message =
      message_of<ls::DataError>([&] { (void)train(run, folder.path(), 11); });
  CHECK(contains(message, folder.path("training_state")));
  CHECK(contains(message, "checksum"));
}

TEST_CASE("resume: the state of another program is refused with the difference") {
  const TemporaryFolder folder;
  const Run run = new_passes(0);
  CHECK_THROWS_WITH_AS((void)train(run, folder.path(), 11, 12), doctest::Contains("power failure"),
                       ls::Error);
  const std::string path = folder.path("training_state");
  const ls::TrainingState saved = ls::decode_checkpoint(*ls::read_file(path));
  const auto message = [&](auto change, int replicas = 1) {
    ls::TrainingState other = saved;
    change(other);
    ls::write_file_atomically(path, ls::encode_checkpoint(other));
    Run same = run;
    same.replicas = replicas;
    return message_of<ls::ConfigurationError>([&] { (void)train(same, folder.path(), 11); });
  };
  CHECK(contains(message([](auto& s) { s.scalar = "float64"; }), "float64, this model of float32"));
  CHECK(contains(message([](auto& s) { s.parameters.pop_back(); }), "3 parameter arrays"));
  CHECK(contains(message([](auto& s) { s.slots.clear(); }), "0 optimizer arrays"));
  const std::string shape = message([](auto& s) { s.parameters[2].extents = {3, 6}; });
  CHECK(contains(shape, "expected user_dense_1/kernel (6, 3)"));
  CHECK(contains(message([](auto& s) { s.running.resize(100); }), "other metrics"));
  CHECK(contains(message([](auto& s) {
                   const auto at = s.signature.find("sparse");
                   s.signature.replace(at, 6, "dense_");
                 }),
                 "loss: dense_"));
  CHECK(message([](auto&) {}) == "NO EXCEPTION");
}

TEST_CASE(
    "resume: a run that was stopped early is not trained on when it is killed before its end") {
  const Run run = new_passes(1);
  const auto stop_in_epoch = [](Recorder& recorder, bool at_its_end) {
    if (at_its_end)
      recorder.at_epoch_end = [](ls::Training& training, int epoch, ls::Logs&) {
        if (epoch == 1) training.stop_training();
      };
    else
      recorder.at_batch_begin = [](ls::Training& training, std::int64_t) {
        if (training.iterations() == 6) training.stop_training();
      };
  };
  for (const bool at_its_end : {true, false}) {
    CAPTURE(at_its_end);
    const TemporaryFolder folder;
    TinyTrainer whole;
    Recorder recorder;
    stop_in_epoch(recorder, at_its_end);
    ls::BackupAndRestore backup{.backup_dir = folder.path(),
                                .save_freq = 1,
                                .delete_checkpoint = false,
                                .asynchronous = false};
    const ls::History history = whole.fit(run.data, run.options, recorder, backup);
    CHECK(whole.iterations() == (at_its_end ? 10 : 7));

    Recorder again;
    stop_in_epoch(again, at_its_end);
    TinyTrainer resumed({.seed = 99});
    const ls::History rest = resumed.fit(run.data, run.options, again, backup);
    CHECK(resumed.iterations() == whole.iterations());
    CHECK(resumed.parameters_crc32c() == whole.parameters_crc32c());
    // The last file is that of the last step, so that the epoch's end comes once more, with the
    // same figures.
    REQUIRE(rest.epoch == std::vector<int>{1});
    CHECK(rest["loss"].back() == history["loss"].back());
  }
}

TEST_CASE("resume: saved after the epoch in which all agreed to stop, nothing is left to do") {
  const TemporaryFolder folder;
  const Run run = new_passes(0);
  TinyTrainer whole;
  Recorder recorder;
  recorder.at_epoch_end = [](ls::Training& training, int epoch, ls::Logs&) {
    if (epoch == 1) training.stop_training();
  };
  ls::BackupAndRestore backup{.backup_dir = folder.path(), .delete_checkpoint = false};
  whole.fit(run.data, run.options, recorder, backup);
  Recorder again;
  TinyTrainer resumed({.seed = 99});
  CHECK(resumed.fit(run.data, run.options, again, backup).epoch.empty());
  CHECK(resumed.parameters_crc32c() == whole.parameters_crc32c());
}

TEST_CASE(
    "resume: saved by four replicas, gone on by one, two or three: the same run to float "
    "accuracy") {
  for (const Run& run : {new_passes(3, 4), one_endless_pass(3, 4)}) {
    const TemporaryFolder folder;
    const Result whole = train(run, folder.path("whole"), 11);
    for (const int replicas : {1, 2, 3}) {
      CAPTURE(replicas);
      const std::string backup = folder.path(std::to_string(replicas));
      CHECK_THROWS_WITH_AS((void)train(run, backup, 11, 8), doctest::Contains("power failure"),
                           ls::Error);
      Run smaller = run;
      smaller.replicas = replicas;
      const Result resumed = train(smaller, backup, 99);
      CHECK(resumed.loss == doctest::Approx(whole.loss).epsilon(1e-5));
      CHECK(resumed.iterations == whole.iterations);
      CHECK(resumed.learning_rate == whole.learning_rate);
      CHECK(resumed.epochs_seen == whole.epochs_seen);
    }
  }
}

TEST_CASE(
    "resume: with another global batch training goes on at the same sample, with the program's own "
    "batches") {
  const TinyData data(22);
  const auto samples = ls::from_tensor_slices(data.x, data.y);
  SUBCASE("whole passes: the steps of an epoch are those of the new batches") {
    const TemporaryFolder folder;
    Run run{
        .data = samples.batch(4), .options = {.epochs = 2}, .save_freq = 3};  // 6 updates an epoch
    CHECK_THROWS_WITH_AS((void)train(run, folder.path(), 11, 4), doctest::Contains("power failure"),
                         ls::Error);  // 12 samples
    run.data = samples.batch(5);      // 5 updates an epoch
    const Result resumed = train(run, folder.path(), 11);
    CHECK(resumed.calls[2] == "batch_begin 2");  // from sample 10 on
    CHECK(resumed.iterations == 3 + 3 + 5);
  }
  SUBCASE("one endless pass: the number of steps goes on") {
    const TemporaryFolder folder;
    Run run{.data = samples.repeat().batch(4),
            .options = {.epochs = 2, .steps_per_epoch = 6},
            .save_freq = 3};
    CHECK_THROWS_WITH_AS((void)train(run, folder.path(), 11, 4), doctest::Contains("power failure"),
                         ls::Error);
    run.data = samples.repeat().batch(8);
    const Result resumed = train(run, folder.path(), 11);
    CHECK(resumed.calls[2] == "batch_begin 3");
    CHECK(resumed.iterations == 12);
  }
  SUBCASE("saved after the last batch of a pass: the epoch is over, whatever the batches") {
    const TemporaryFolder folder;
    Run run{.data = samples.batch(5), .options = {.epochs = 2}, .save_freq = 5};
    TinyTrainer trainer;
    Recorder recorder;
    recorder.at_epoch_end = [](ls::Training&, int, ls::Logs&) { throw Interrupted(); };
    ls::BackupAndRestore backup{.backup_dir = folder.path(), .save_freq = 5, .asynchronous = false};
    CHECK_THROWS_WITH_AS((void)trainer.fit(run.data, run.options, recorder, backup),
                         doctest::Contains("power failure"), ls::Error);
    run.data = samples.batch(2);
    TinyTrainer other;
    Recorder again;
    other.fit(run.data, run.options, again, backup);
    CHECK(again.calls[2] == "epoch_end 0");
    CHECK(other.iterations() == 5 + 11);
  }
}

TEST_CASE("resume: another seed and other data are said; in the middle of a pass, only by option") {
  const TemporaryFolder folder;
  const std::string path = folder.path("training_state");
  const Run run = new_passes(1);
  CHECK_THROWS_WITH_AS((void)train(run, folder.path(), 11, 4), doctest::Contains("power failure"),
                       ls::Error);
  const auto saved = *ls::read_file(path);
  const auto said = [&](const ls::AnyDataset& data, std::uint64_t seed) {
    ls::write_file_atomically(path, saved);
    Run other = run;
    other.data = data;
    other.allow_changes = true;
    const CapturedStderr captured;
    (void)train(other, folder.path(), seed);
    return captured.text();
  };
  const auto batches = [](const TinyData& data) {
    return ls::AnyDataset(ls::from_tensor_slices(data.x, data.y).shuffle(22).batch(5));
  };
  CHECK_FALSE(contains(said(run.data, 11), "warning"));
  CHECK(contains(said(run.data, 99),
                 "warning: fit: the saved training has the seed 11 (this program has 99). It goes "
                 "on at the saved place with the saved seed, in the data of this program; to train "
                 "from the beginning, delete what it was restored from\n"));
  CHECK(contains(said(batches(TinyData(30)), 11),
                 "has 22 samples of training data (this program has 30), 5 steps an epoch (this "
                 "program has 6). "));
  CHECK(contains(said(batches(TinyData(22, 2)), 11), "has training data with the checksum "));
  const TinyData same(22);
  const auto samples = ls::from_tensor_slices(same.x, same.y);
  CHECK(contains(said(samples.shuffle(21).batch(5), 11),
                 "has the pipeline 'from_tensor_slices -> shuffle(22) -> batch(5)' (this program "
                 "has 'from_tensor_slices -> shuffle(21) -> batch(5)'). It goes on"));

  SUBCASE("without the option, in the middle of a pass: refused on each replica") {
    for (const int replicas : {1, 2}) {
      ls::write_file_atomically(path, saved);
      Run other = run;
      other.replicas = replicas;
      for (const ls::AnyDataset& data :
           {batches(TinyData(30)), ls::AnyDataset(samples.shuffle(22, 1).batch(5))}) {
        other.data = data;
        CHECK(contains(
            message_of<ls::ConfigurationError>([&] { (void)train(other, folder.path(), 11); }),
            "It is in the middle of a pass over its data, a place that has no meaning "
            "in others: go on with its data, or "));
        CHECK(*ls::read_file(path) == saved);
      }
    }
  }
  SUBCASE("without the option, between two passes: said") {
    const Run whole_epochs = new_passes(ls::SaveFrequency::epoch);
    const std::string own = folder.path("own");
    CHECK_THROWS_AS((void)train(whole_epochs, own, 11, 7), ls::Error);
    Run other = whole_epochs;
    other.data = batches(TinyData(30));
    const CapturedStderr captured;
    CHECK(train(other, own, 11).iterations == 5 + 3 * 6);
    CHECK(contains(captured.text(), "has 22 samples of training data (this program has 30)"));
  }

  SUBCASE("an old file says nothing of its data, and is read") {
    ls::TrainingState old = ls::decode_checkpoint(saved);
    CHECK(old.samples == 22);
    CHECK(old.epoch_steps == 5);
    old.samples = old.samples_checksum = old.epoch_steps = 0;
    old.pipeline.clear();
    ls::write_file_atomically(path, ls::encode_checkpoint(old));
    Run other = run;
    other.data = batches(TinyData(30));
    const CapturedStderr captured;
    CHECK(train(other, folder.path(), 11).iterations == 4 + 2 + 3 * 6);
    CHECK_FALSE(contains(captured.text(), "warning"));
  }
  SUBCASE("data that end before the saved place are refused on each replica") {
    for (const int replicas : {1, 2}) {
      ls::write_file_atomically(path, saved);
      Run other = run;
      other.data = batches(TinyData(10));
      other.replicas = replicas;
      other.allow_changes = true;
      const std::string message =
          message_of<ls::ConfigurationError>([&] { (void)train(other, folder.path(), 11); });
      CHECK(contains(message,
                     "the saved training has used 4 global batches of a pass over its data, and a "
                     "pass over the data of this program has 2: go on with the data"));
      CHECK(*ls::read_file(path) == saved);
    }
  }
  SUBCASE("where each worker has batches of its own, more workers have used more of them") {
    Run other = run;  // by one worker, after two have used four steps
    other.data = ls::AnyDataset(ls::from_tensor_slices(TinyData(10).x, TinyData(10).y)
                                    .batch(5)
                                    .with_options({.auto_shard_policy = ls::AutoShardPolicy::off}));
    other.allow_changes = true;
    ls::write_file_atomically(path, saved);
    const CapturedStderr captured;
    CHECK_NOTHROW((void)train(other, folder.path(), 11));
  }
}

TEST_CASE("resume: other options of the optimizer are refused, or said, and in force, by option") {
  const TemporaryFolder folder;
  const Run run = new_passes(1);
  CHECK_THROWS_AS((void)train(run, folder.path(), 11, 4), ls::Error);
  Run other = run;
  other.momentum = 0.5;
  other.global_clipnorm = 0.25;
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { (void)train(other, folder.path(), 11); }),
      "momentum_form=keras, global_clipnorm=0.25)': resume with the same program, or start "
      "afresh; BackupAndRestore's .allow_changes takes other numbers"));
  other.allow_changes = true;
  const CapturedStderr captured;
  CHECK(train(other, folder.path(), 11).iterations == 20);
  CHECK(contains(captured.text(),
                 "restore: goes on with other options than the saved state: it has 'optimizer: "
                 "SGD(learning_rate=..., momentum=0.9,"));
}

TEST_CASE("resume: batches of different sizes, of which a short one comes first") {
  const TinyData data(90);
  const auto bucket = [](const auto& sample) { return sample.y[0] == 0 ? 1.0 : 9.0; };
  const auto batches = ls::from_tensor_slices(data.x, data.y)
                           .bucket_by_sequence_length(
                               bucket, {.bucket_boundaries = {5}, .bucket_batch_sizes = {2, 16}});
  const CapturedStderr captured;
  check_resume({.data = ls::AnyDataset(batches), .options = {.epochs = 2}, .save_freq = 1},
               {2, 9, 25});
  CHECK_FALSE(contains(captured.text(), "global batches"));
}

TEST_CASE("resume: a callback that asks for preemption makes fit save after the step, and throw") {
  for (const auto code : {ls::ExitCode::interrupted, ls::ExitCode::terminated}) {
    for (const bool at_epoch_end : {false, true}) {
      CAPTURE(at_epoch_end);
      const TemporaryFolder folder;
      const Run run = new_passes(0, 2);
      const Result whole = train(run, folder.path("whole"), 11);
      TinyTrainer trainer({.replicas = 2, .seed = 11, .learning_rate = 0.2, .momentum = 0.9});
      HalvingRecorder recorder;
      const auto epoch_end = recorder.at_epoch_end;
      if (at_epoch_end)
        recorder.at_epoch_end = [&](ls::Training& training, int epoch, ls::Logs& logs) {
          epoch_end(training, epoch, logs);
          if (epoch == 1) training.request_preemption(code);
        };
      else
        recorder.at_batch_begin = [&](ls::Training& training, std::int64_t) {
          if (training.iterations() == 7) training.request_preemption(code);
        };
      ls::BackupAndRestore backup{.backup_dir = folder.path("cut")};
      try {
        trainer.fit(run.data, run.options, recorder, backup);
        FAIL("fit did not throw");
      } catch (const ls::Preempted& preempted) {
        CHECK(preempted.exit_code() == code);
      }
      CHECK(trainer.iterations() == (at_epoch_end ? 10 : 8));
      const Result resumed = train(run, folder.path("cut"), 99);
      CHECK(resumed == whole);
      CHECK(resumed.history.front() == (at_epoch_end ? 2 : 1));
    }
  }
  TinyTrainer trainer;
  Recorder recorder;
  recorder.at_batch_begin = [](ls::Training& training, std::int64_t) {
    training.request_preemption(ls::ExitCode::lost_peer);
  };
  CHECK(contains(message_of<ls::ConfigurationError>(
                     [&] { trainer.fit(shuffled(false), {.epochs = 1}, &recorder); }),
                 "got 138"));
}

TEST_CASE("resume: a program of two fits goes on in the one that was interrupted") {
  const auto run = [](const std::string& folder, std::optional<std::int64_t> fail_before = {}) {
    TinyTrainer trainer({.seed = 5, .learning_rate = 0.25, .momentum = 0.5});
    Recorder recorder;
    recorder.at_batch_begin = [&](ls::Training& training, std::int64_t) {
      if (training.iterations() == fail_before) throw Interrupted();
    };
    ls::BackupAndRestore backup{.backup_dir = folder, .save_freq = 2, .asynchronous = false};
    const ls::History first = trainer.fit(shuffled(false), {.epochs = 2}, recorder, backup);
    // Other data, and other options.
    const ls::History second =
        trainer.fit(ls::AnyDataset(RowDataset(TinyData(30), 5)), {.epochs = 3}, recorder, backup);
    return std::tuple(trainer.parameters_crc32c(), first.epoch.size(), second.epoch.size());
  };
  const TemporaryFolder folder;
  const auto whole = run(folder.path("whole"));
  for (const std::int64_t at : {7, 13, 19}) {  // the first fit makes 10 updates
    CAPTURE(at);
    const std::string backup = folder.path(std::to_string(at));
    CHECK_THROWS_AS(run(backup, at), ls::Error);
    const CapturedStderr output;
    const auto [sum, first, second] = run(backup);
    CHECK(sum == std::get<0>(whole));
    const bool is_in_second = at > 10;
    CHECK(contains(output.text(),
                   "fit: nothing to do in fit 1 of this model: the restored training is in fit 2; "
                   "what it was restored from stays") == is_in_second);
    CHECK(first == (is_in_second ? 0 : 1));
    CHECK(second == (at == 19 ? 2 : 3));
    CHECK_FALSE(std::filesystem::exists(backup + "/training_state"));
  }
}

TEST_CASE("resume: an epoch that was not completed by all is, as itself") {
  TinyTrainer trainer({.seed = 5});
  Recorder recorder;
  recorder.record_completions = true;
  std::vector<std::byte> saved;
  std::vector<int> completed;
  recorder.at_epoch_complete = [&](ls::Training& training, int epoch) {
    completed.push_back(epoch);
    if (epoch != 2) return;
    ls::TrainingState state = training.state();
    state.is_epoch_open = true;  // as a worker keeps it that has lost another one just then
    saved = ls::encode_checkpoint(state);
  };
  trainer.fit(shuffled(false), {.epochs = 3}, &recorder);
  TinyTrainer other({.seed = 5});
  recorder.at_train_begin = [&](ls::Training& training) {
    training.restore(saved,
                     [](std::span<const std::byte> bytes) { return ls::decode_checkpoint(bytes); });
  };
  completed.clear();
  other.fit(shuffled(false), {.epochs = 5}, &recorder);
  CHECK(completed == std::vector<int>{2, 3, 4});
}

namespace {

constexpr int workers = 3;

/// What a worker has when the program ends, over all its starts.
struct WorkerResult {
  std::uint32_t crc = 0;
  int starts = 0;
  std::int64_t first_update = 0;      ///< that the last start began with
  std::vector<std::uint32_t> ends{};  ///< the parameters in each on_train_end
};

/// Arranges losses on a worker that is started, for the first time or again.
using Arrange = std::function<void(int worker, int start, Recorder& recorder)>;

/// A program of two fits, of 10 updates each.
void train_twice(MortalStrategy& strategy, Recorder& recorder, const std::string& folder,
                 WorkerResult& result) {
  auto model = ls::compile<TinyNet>(strategy, {.seed = 5},
                                    ls::SparseCategoricalCrossentropy{.from_logits = true},
                                    ls::SGD{.learning_rate = 0.1, .momentum = 0.9});
  for (const char* fit : {"first", "second"}) {
    std::optional<ls::BackupAndRestore> backup;
    if (strategy.elastic_world() == nullptr)
      backup = ls::BackupAndRestore{.backup_dir = folder + "/" + fit,
                                    .asynchronous = false,
                                    .on_peer_loss = ls::OnPeerLoss::rejoin};
    model.fit(shuffled(false), {.epochs = 2, .verbose = 0}, recorder, backup);
  }
  result.crc = model.parameters_crc32c();
}

std::vector<WorkerResult> train_twice(bool is_elastic, const Arrange& arrange) {
  std::vector<WorkerResult> all(workers);
  const TemporaryFolder folder;
  ls::MultiWorkerMirroredOptions options{.communication_options = patient_options()};
  if (is_elastic) options.elastic = ls::ElasticOptions{.wait = std::chrono::seconds(60)};
  run_mortal_workers(workers, [&](const ls::Cluster& cluster, int start) {
    const int worker = cluster.task.index;
    WorkerResult& mine = all[static_cast<std::size_t>(worker)];
    mine.starts = start;
    Recorder recorder;
    recorder.at_batch_begin = [&, is_first = true](ls::Training& training, std::int64_t) mutable {
      if (std::exchange(is_first, false)) mine.first_update = training.iterations();
    };
    recorder.at_train_end = [&](ls::Training& training, ls::Logs&) {
      mine.ends.push_back(ls::crc32c(training.parameters()));
    };
    arrange(worker, start, recorder);
    MortalStrategy strategy(cluster, options);
    train_twice(strategy, recorder, folder.path(std::to_string(worker)), mine);
  });
  return all;
}

/// Each worker must come to what it comes to where none is lost, and show it to its callbacks.
std::vector<WorkerResult> lose(bool is_elastic, const Arrange& arrange) {
  static const WorkerResult whole = train_twice(false, [](int, int, Recorder&) {})[0];
  const CapturedStderr log;
  auto all = train_twice(is_elastic, arrange);
  for (const WorkerResult& each : all) {
    CHECK(each.crc == whole.crc);
    for (const std::uint32_t end : each.ends) CHECK(std::ranges::count(whole.ends, end) == 1);
    CHECK(each.ends.back() == whole.ends.back());
  }
  return all;
}

void die_after(std::int64_t updates, Recorder& recorder) {
  recorder.at_batch_end = [updates](ls::Training& training, std::int64_t, ls::Logs&) {
    if (training.iterations() == updates) MortalRing::die();
  };
}

}  // namespace

TEST_CASE("losses: a worker comes back to the first fit, and the others are in the second one") {
  for (const bool is_elastic : {false, true})
    for (const int victim : {0, 2}) {
      CAPTURE(is_elastic);
      CAPTURE(victim);
      const auto all = lose(is_elastic, [&](int worker, int start, Recorder& recorder) {
        if (worker == victim && start == 1) die_after(11, recorder);
      });
      for (int worker = 0; worker < workers; ++worker) {
        const WorkerResult& each = all[static_cast<std::size_t>(worker)];
        CHECK(each.starts == (worker == victim ? 2 : 1));
        CHECK(each.ends.size() == 2);  // of the victim, one before it was killed
        if (worker == victim) CHECK(each.first_update >= 10);
      }
    }
}

TEST_CASE("losses: a worker is killed or cut off between two fits, in any operation") {
  // Of those from the end of the last epoch to the first step of the next fit. Returns whether
  // there is one of that number.
  const auto lose_in = [](int operation, bool is_killed, int victim, bool is_elastic) {
    CAPTURE(operation);
    CAPTURE(is_killed);
    CAPTURE(victim);
    CAPTURE(is_elastic);
    bool is_reached = false;
    (void)lose(is_elastic, [&](int worker, int start, Recorder& recorder) {
      if (worker != victim || start > 1) return;
      recorder.at_epoch_end = [&, left = operation](ls::Training& training, int, ls::Logs&) {
        if (training.iterations() != 10 || is_reached) return;
        MortalRing::fate = [&, left](int, int) mutable {
          if (--left != 0) return false;
          is_reached = true;
          if (is_killed) MortalRing::die();
          return true;
        };
      };
      recorder.at_batch_begin = [](ls::Training& training, std::int64_t) {
        if (training.iterations() == 10) MortalRing::fate = nullptr;
      };
    });
    return is_reached;
  };
  int operation = 1;
  while (lose_in(operation, operation % 2 == 0, operation / 2 % 2 * 2, false)) ++operation;
  CHECK(operation > 15);
  // The second one is the last of the first fit: a worker cut off in it has not ended the fit, and the
  // others have.
  for (const int victim : {0, 2}) CHECK(lose_in(2, false, victim, true));
  for (const int each : {3, 4, 7}) CHECK(lose_in(each, true, each % 2 * 2, true));
}

TEST_CASE("losses: a second worker is lost while the first one is awaited") {
  for (int survivor = 0; survivor < workers; ++survivor) {
    CAPTURE(survivor);
    const auto all = lose(false, [&](int worker, int start, Recorder& recorder) {
      if (worker == survivor || start > 1) return;
      if (worker == (survivor + 1) % workers) return die_after(3, recorder);
      MortalRing::fate = [](int connection, int) {
        if (connection == 2) MortalRing::die();
        return false;
      };
    });
    for (int worker = 0; worker < workers; ++worker) {
      const WorkerResult& each = all[static_cast<std::size_t>(worker)];
      CHECK(each.starts == (worker == survivor ? 1 : 2));
      if (worker != survivor) CHECK(each.first_update >= 2);  // what the survivor has kept
    }
  }
}

TEST_CASE("losses: a second worker is lost before a step since the first loss, in any operation") {
  const auto lose_in = [](int operation, bool is_elastic) {
    CAPTURE(operation);
    CAPTURE(is_elastic);
    const int survivor = operation % workers;
    bool is_reached = false;
    const auto all = lose(is_elastic, [&](int worker, int start, Recorder& recorder) {
      if (worker == survivor || start > 1) return;
      if (worker == (survivor + 1) % workers) return die_after(3, recorder);
      MortalRing::fate = [&](int connection, int next) {
        if (connection < 2 || next != operation) return false;
        is_reached = true;
        MortalRing::die();
      };
      recorder.at_epoch_begin = [](ls::Training& training, int) {
        if (training.iterations() > 0) MortalRing::fate = nullptr;
      };
    });
    for (int worker = 0; worker < workers; ++worker) {
      const WorkerResult& each = all[static_cast<std::size_t>(worker)];
      if (worker == survivor) CHECK(each.starts == 1);
      if (each.starts > 1) CHECK(each.first_update >= 2);
    }
    return is_reached;
  };
  int operation = 1;
  while (lose_in(operation, false)) ++operation;
  CHECK(operation > 20);
  for (const int each : {1, 8, 15, 21}) CHECK(lose_in(each, true));
}

TEST_CASE("losses: where nobody comes back, the run ends with an error that names who is missing") {
  ls::CommunicationOptions communication = patient_options();
  communication.startup_timeout = std::chrono::seconds(3);
  const TemporaryFolder folder;
  const CapturedStderr log;
  std::string message;
  run_mortal_workers(workers, [&](const ls::Cluster& cluster, int start) {
    if (start > 1) return;
    Recorder recorder;
    if (cluster.task.index == 1) die_after(3, recorder);
    MortalRing::fate = [worker = cluster.task.index](int connection, int) {
      if (connection == 2 && worker == 2) MortalRing::die();
      if (connection > 2) throw std::runtime_error("waits again");
      return false;
    };
    WorkerResult none;
    try {
      MortalStrategy strategy(cluster, {.communication_options = communication});
      train_twice(strategy, recorder, folder.path(std::to_string(cluster.task.index)), none);
    } catch (const ls::CollectiveError& error) {
      CHECK(cluster.task.index == 0);
      CHECK(error.exit_code() == ls::ExitCode::lost_peer);
      message = error.what();
    }
  });
  CHECK(contains(message, "start-up in step "));
  CHECK(contains(message, "worker 1 ("));
  CHECK(contains(message, "worker 2 ("));
}
