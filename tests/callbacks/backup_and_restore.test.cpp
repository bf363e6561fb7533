// The callback alone. That a resumed run has the bits of an uninterrupted one is shown in
// tests/training/resume.test.cpp.
#include "lockstep/callbacks/backup_and_restore.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

ls::TrainingState state_of_epoch(std::int64_t epoch) {
  ls::TrainingState state;
  state.scalar = "float32";
  state.epoch = epoch;
  return state;
}

/// 8 MB, which take a while to write.
ls::TrainingState large_state_of_epoch(std::int64_t epoch) {
  ls::TrainingState state = state_of_epoch(epoch);
  ls::SavedArray& array = state.parameters.emplace_back();
  array.extents = {std::uint64_t{2} << 20};
  array.bytes.resize(std::size_t{8} << 20);
  return state;
}

ls::TrainingState saved_in(const ls::BackupAndRestore& backup) {
  return ls::decode_checkpoint(*ls::read_file(backup.path()));
}

bool exists(const ls::BackupAndRestore& backup) { return std::filesystem::exists(backup.path()); }

}  // namespace

TEST_SUITE_BEGIN("Keras: callbacks");

TEST_CASE("BackupAndRestore: saves the state at the end of an epoch, by default") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{.backup_dir = folder.path("deep/backup"),
                                    .asynchronous = false};
  FakeTraining training;
  training.snapshot = state_of_epoch(2);
  training.updates = 7;
  backup.on_train_batch_complete(training, 6);
  CHECK_FALSE(exists(backup));
  backup.on_epoch_complete(training, 1);
  REQUIRE(exists(backup));
  CHECK(ls::decode_checkpoint(*ls::read_file(backup.path())) == training.snapshot);
}

TEST_CASE("BackupAndRestore: saves every n updates when asked to, and not at epochs") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{
      .backup_dir = folder.path(), .save_freq = 3, .asynchronous = false};
  FakeTraining training;
  std::vector<std::int64_t> saved;
  for (training.updates = 1; training.updates <= 10; ++training.updates) {
    backup.on_train_batch_complete(training, 0);
    if (training.updates % 4 == 0) backup.on_epoch_complete(training, 0);
    if (exists(backup)) saved.push_back(training.updates);
    ls::remove_file(backup.path());
  }
  CHECK(saved == std::vector<std::int64_t>{3, 6, 9});
}

TEST_CASE("BackupAndRestore: a negative frequency is an error") {
  CHECK(
      contains(message_of<ls::ConfigurationError>([] { (void)ls::SaveFrequency(-1); }), "got -1"));
}

TEST_CASE("BackupAndRestore: an empty folder name is an error, and not a file in the root folder") {
  FakeTraining training;
  CHECK_THROWS_AS(ls::BackupAndRestore{""}.on_train_begin(training), ls::ConfigurationError);
}

TEST_CASE("BackupAndRestore: hands the saved bytes to fit when training begins") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{.backup_dir = folder.path(), .asynchronous = false};
  FakeTraining saving, resuming;
  saving.snapshot = state_of_epoch(5);
  backup.on_epoch_complete(saving, 4);
  backup.on_train_begin(resuming);
  REQUIRE(static_cast<bool>(resuming.decode));
  CHECK(resuming.decode(resuming.restored) == saving.snapshot);
}

TEST_CASE(
    "BackupAndRestore: a worker without a backup restores nothing itself, but may receive the "
    "chief's") {
  const TemporaryFolder folder;
  FakeTraining training;
  ls::BackupAndRestore{folder.path("none")}.on_train_begin(training);
  CHECK(training.restored.empty());
  CHECK(training.restore_calls == 1);
  CHECK(static_cast<bool>(training.decode));
}

TEST_CASE("BackupAndRestore: only the chief reads, writes and deletes") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{.backup_dir = folder.path(), .asynchronous = false};
  FakeTraining chief, other;
  other.chief = false;
  ls::Logs logs;
  backup.on_epoch_complete(other, 0);
  CHECK_FALSE(exists(backup));
  backup.on_epoch_complete(chief, 0);
  backup.on_train_begin(other);
  CHECK(other.restored.empty());
  CHECK(static_cast<bool>(other.decode));
  backup.on_train_end(other, logs);
  CHECK(exists(backup));
  backup.on_train_end(chief, logs);
  CHECK_FALSE(exists(backup));
}

TEST_CASE("BackupAndRestore: keeps the backup at the end when asked to") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{.backup_dir = folder.path(), .delete_checkpoint = false};
  FakeTraining training;
  ls::Logs logs;
  backup.on_epoch_complete(training, 0);
  backup.on_train_end(training, logs);
  CHECK(exists(backup));
}

TEST_CASE(
    "BackupAndRestore: a damaged file is an error that names it and the remedy, and the file "
    "stays") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{.backup_dir = folder.path(), .asynchronous = false};
  FakeTraining training;
  backup.on_epoch_complete(training, 0);
  auto bytes = *ls::read_file(backup.path());
  bytes.resize(bytes.size() / 2);
  ls::write_file_atomically(backup.path(), bytes);
  const std::string message = message_of<ls::DataError>([&] { backup.on_train_begin(training); });
  CHECK(contains(message, "'" + backup.path() + "'"));
  CHECK(contains(message, "cut off"));
  CHECK(contains(message, "remove the file"));
  CHECK(training.restore_calls == 0);
  CHECK(exists(backup));

  ls::write_file_atomically(backup.path(), {});
  CHECK(contains(message_of<ls::DataError>([&] { backup.on_train_begin(training); }),
                 "no lockstep checkpoint"));
}

TEST_CASE(
    "BackupAndRestore: a damaged backup is replaced by the one before it, which stays until a new "
    "one is made") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{.backup_dir = folder.path(), .asynchronous = false};
  const std::string previous = ls::previous_generation(backup.path());
  FakeTraining training, resumed;
  for (int epoch = 1; epoch <= 3; ++epoch) {
    training.snapshot = state_of_epoch(epoch);
    backup.on_epoch_complete(training, epoch - 1);
  }
  CHECK(saved_in(backup).epoch == 3);
  CHECK(ls::decode_checkpoint(*ls::read_file(previous)).epoch == 2);

  std::ofstream(backup.path(), std::ios::binary) << "damaged";
  backup.on_train_begin(resumed);
  CHECK(resumed.decode(resumed.restored).epoch == 2);
  resumed.snapshot = state_of_epoch(3);
  backup.on_epoch_complete(resumed, 2);
  CHECK(saved_in(backup).epoch == 3);
  CHECK(ls::decode_checkpoint(*ls::read_file(previous)).epoch == 2);  // the damaged one is not kept
  resumed.snapshot = state_of_epoch(4);
  backup.on_epoch_complete(resumed, 3);
  CHECK(ls::decode_checkpoint(*ls::read_file(previous)).epoch == 3);

  ls::remove_file(backup.path());
  FakeTraining again;
  backup.on_train_begin(again);
  CHECK(again.decode(again.restored).epoch == 3);
  std::ofstream(previous, std::ios::binary) << "damaged";
  std::ofstream(backup.path(), std::ios::binary) << "damaged as well";
  const std::string message = message_of<ls::DataError>([&] { backup.on_train_begin(again); });
  CHECK(contains(message, "'" + backup.path() + "': checkpoint: these 15 bytes"));
  CHECK(contains(message, "'" + previous + "': checkpoint: these 7 bytes"));

  ls::Logs logs;
  backup.on_train_end(again, logs);
  CHECK(std::filesystem::is_empty(folder.path()));  // both are deleted, and the lock
}

TEST_CASE(
    "BackupAndRestore: what makes no sense in a file with right checksums is refused, and the one "
    "before serves") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{.backup_dir = folder.path(), .asynchronous = false};
  FakeTraining training;
  for (const std::int64_t epoch : {2, -5}) {
    training.snapshot = state_of_epoch(epoch);
    backup.on_epoch_complete(training, 0);
  }
  backup.on_train_begin(training);
  CHECK(training.decode(training.restored).epoch == 2);
  ls::remove_file(ls::previous_generation(backup.path()));
  CHECK(contains(message_of<ls::DataError>([&] { backup.on_train_begin(training); }),
                 "epoch is -5, expected 0 to"));
}

TEST_CASE("BackupAndRestore: does not wait for a FIFO in the file's place") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{folder.path()};
  REQUIRE(::mkfifo(backup.path().c_str(), 0600) == 0);
  FakeTraining training;
  CHECK(contains(message_of<ls::DataError>([&] { backup.on_train_begin(training); }), "a FIFO"));
}

TEST_CASE(
    "BackupAndRestore: a folder belongs to one job at a time, and is free when fit has ended") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore first{folder.path()}, second{folder.path()};
  FakeTraining training, other;
  other.chief = false;
  ls::Logs logs;
  first.on_train_begin(training);
  const std::string message =
      message_of<ls::ConfigurationError>([&] { second.on_train_begin(training); });
  CHECK(contains(message, "BackupAndRestore: backup_dir '" + folder.path() +
                              "' is in use by another job (process "));
  second.on_train_begin(other);  // the chief alone has the folder
  FakeTraining elastic;
  elastic.elastic = true;
  CHECK_THROWS_AS(second.on_train_begin(elastic), ls::ConfigurationError);
  elastic.follows_another_chief = true;  // which may hang, with the lock
  second.on_train_begin(elastic);
  first.on_train_begin(training);
  first.on_train_end(training, logs);
  second.on_train_begin(training);
  second.on_train_abort(training);
  first.on_train_begin(training);
}

TEST_CASE(
    "BackupAndRestore: a folder that cannot be locked is an error, or a warning where a failed "
    "save is one") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("file")) << "no folder";
  FakeTraining training;
  ls::BackupAndRestore backup{.backup_dir = folder.path("file")};
  CHECK(contains(message_of<ls::Error>([&] { backup.on_train_begin(training); }),
                 "cannot make the folder"));
  backup.on_save_failure = ls::OnSaveFailure::warn;
  backup.on_train_begin(training);
}

TEST_CASE("BackupAndRestore: a save that is due is made however fit ends") {
  const TemporaryFolder folder;
  FakeTraining training;
  const auto two_epochs = [&](const ls::BackupAndRestore& backup) {
    for (int epoch = 1; epoch <= 2; ++epoch) {
      training.snapshot = large_state_of_epoch(epoch);
      backup.on_epoch_complete(training, epoch - 1);
    }
    training.snapshot = state_of_epoch(99);  // a step that is half made
  };
  const ls::BackupAndRestore left{folder.path("left")};
  two_epochs(left);
  left.on_train_abort(training);
  CHECK(saved_in(left).epoch == 2);
  two_epochs(ls::BackupAndRestore{folder.path("destroyed")});
  CHECK(saved_in(ls::BackupAndRestore{folder.path("destroyed")}).epoch == 2);
}

TEST_CASE(
    "BackupAndRestore: a save waits until the replicas are compared, and asks for that in time") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{
      .backup_dir = folder.path(), .save_freq = 3, .asynchronous = false};
  FakeTraining training;
  training.updates = 1;
  backup.on_train_batch_begin(training, 1);
  CHECK_FALSE(training.verify_asked);
  training.updates = 2;
  backup.on_train_batch_begin(training, 2);  // the third update is about to be made
  CHECK(training.verify_asked);
  training.updates = 3;
  training.verified = training.verify_asked = false;
  backup.on_train_batch_complete(training, 2);
  CHECK_FALSE(exists(backup));
  CHECK(training.verify_asked);  // for the next step
  training.verified = true;
  training.updates = 4;
  backup.on_train_batch_complete(training, 3);
  CHECK(exists(backup));
}

TEST_CASE("BackupAndRestore: saving on a thread gives the same file, complete when training ends") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{.backup_dir = folder.path(), .delete_checkpoint = false};
  FakeTraining training;
  ls::Logs logs;
  for (int epoch = 0; epoch < 20; ++epoch) {  // some are put off, the last one is not lost
    training.snapshot = state_of_epoch(epoch + 1);
    backup.on_epoch_complete(training, epoch);
  }
  backup.on_train_end(training, logs);
  CHECK(saved_in(backup) == training.snapshot);
}

TEST_CASE(
    "BackupAndRestore: a save that falls due while another one runs is made at a later step") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{.backup_dir = folder.path(), .save_freq = 10};
  FakeTraining training;
  training.snapshot = large_state_of_epoch(1);
  training.updates = 10;
  backup.on_train_batch_complete(training, 0);
  training.snapshot = state_of_epoch(2);
  training.updates = 20;
  backup.on_train_batch_complete(training, 0);
  for (int i = 0; i < 10'000 && (!exists(backup) || saved_in(backup).epoch != 2); ++i) {
    training.updates = 21 + i % 9;  // none of them is due
    backup.on_train_batch_complete(training, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(saved_in(backup).epoch == 2);
}

TEST_CASE("BackupAndRestore: its destructor waits for the thread") {
  const TemporaryFolder folder;
  FakeTraining training;
  training.snapshot = large_state_of_epoch(4);
  ls::BackupAndRestore{folder.path()}.on_epoch_complete(training, 0);
  CHECK(saved_in(ls::BackupAndRestore{folder.path()}) == training.snapshot);
}

TEST_CASE(
    "BackupAndRestore: a save that fails ends training with the file's name, or is a warning") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("file")) << "no folder";
  FakeTraining training;
  ls::Logs logs;
  for (const bool asynchronous : {false, true}) {
    CAPTURE(asynchronous);
    ls::BackupAndRestore backup{.backup_dir = folder.path("file"),
                                .delete_checkpoint = false,
                                .asynchronous = asynchronous};
    const std::string message = message_of<ls::Error>([&] {
      backup.on_epoch_complete(training, 0);
      for (int i = 0; i < 10'000; ++i) {
        backup.on_train_batch_complete(training, 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    CHECK(contains(message, "BackupAndRestore: saving to '" + backup.path() + "' failed: "));
    CHECK(contains(message, "an older backup is unharmed"));
    backup.on_save_failure = ls::OnSaveFailure::warn;
    backup.on_epoch_complete(training, 0);
    backup.on_train_end(training, logs);
  }
}

TEST_CASE(
    "BackupAndRestore: the failure of the last save is an error, or a warning where the backup is "
    "deleted anyway") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("file")) << "no folder";
  FakeTraining training;
  ls::Logs logs;
  const ls::BackupAndRestore kept{.backup_dir = folder.path("file"), .delete_checkpoint = false};
  kept.on_epoch_complete(training, 0);
  CHECK_THROWS_AS(kept.on_train_end(training, logs), ls::Error);
  const ls::BackupAndRestore deleted{.backup_dir = folder.path("file")};
  deleted.on_epoch_complete(training, 0);
  deleted.on_train_end(training, logs);
}

TEST_CASE(
    "BackupAndRestore: before preemption the chief saves, unless told not to, and signals are "
    "taken") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{.backup_dir = folder.path("a"), .save_freq = 1000};
  FakeTraining chief, other;
  other.chief = false;
  chief.snapshot = state_of_epoch(3);
  backup.on_train_begin(chief);
  CHECK(chief.on_signals);
  backup.on_preemption(other);
  CHECK_FALSE(exists(backup));
  backup.on_preemption(chief);
  CHECK(saved_in(backup) == chief.snapshot);

  const ls::BackupAndRestore without{.backup_dir = folder.path("b"),
                                     .save_before_preemption = false};
  FakeTraining training;
  without.on_train_begin(training);
  CHECK_FALSE(training.on_signals);
  without.on_preemption(training);
  CHECK_FALSE(exists(without));
}

TEST_CASE("BackupAndRestore: before preemption, a save that has failed is not called one") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("file")) << "no folder";
  ls::BackupAndRestore backup{.backup_dir = folder.path("file")};
  backup.on_save_failure = ls::OnSaveFailure::warn;
  const CapturedStderr captured;
  FakeTraining chief;
  backup.on_preemption(chief);
  CHECK(contains(captured.text(), "leaving without a new '" + backup.path() + "'"));
  CHECK_FALSE(contains(captured.text(), "saved '"));
}

TEST_CASE("BackupAndRestore: the chief removes what a killed run has left of an unfinished save") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{folder.path()};
  FakeTraining chief, other;
  other.chief = false;
  const std::string left = backup.path() + ".tmp.999999";
  std::ofstream(left) << "half a state";
  backup.on_train_begin(other);
  CHECK(std::filesystem::exists(left));
  backup.on_train_begin(chief);
  CHECK_FALSE(std::filesystem::exists(left));
}

TEST_CASE(
    "BackupAndRestore: where training takes over, a damaged backup is reported, and not an end") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("training_state")) << "damaged";
  const ls::BackupAndRestore backup{.backup_dir = folder.path(), .asynchronous = false};
  FakeTraining training;
  CHECK_THROWS_AS(backup.on_train_begin(training), ls::DataError);
  training.elastic = training.follows_another_chief = true;
  backup.on_train_begin(training);
  CHECK(contains(training.unreadable, folder.path("training_state")));
  CHECK(training.restored.empty());
  CHECK(static_cast<bool>(training.decode));
  training.snapshot = state_of_epoch(3);
  backup.on_epoch_complete(training, 2);
  CHECK(saved_in(backup).epoch == 3);
  CHECK_FALSE(std::filesystem::exists(backup.path() + ".previous"));  // the damaged one
}

TEST_CASE("BackupAndRestore: in elastic training too, fit gets what reads the newest backup") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{.backup_dir = folder.path()};
  FakeTraining training;
  backup.on_train_begin(training);
  CHECK_FALSE(static_cast<bool>(training.read_backup));
  training.elastic = true;
  backup.on_train_begin(training);
  REQUIRE(static_cast<bool>(training.read_backup));
  CHECK_FALSE(static_cast<bool>(training.encode));  // fit has it from its strategy
  training.snapshot = state_of_epoch(4);
  backup.on_epoch_complete(training, 3);
  CHECK(ls::decode_checkpoint(training.read_backup(0)) == training.snapshot);
}

TEST_SUITE_END();
