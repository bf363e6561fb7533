// The callback alone. That a resumed run has the bits of an uninterrupted one is shown in tests/model/resume.test.cpp.
#include "lockstep/callbacks/backup_and_restore.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "data/temporary_folder.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "model/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

ls::TrainingState state_of_epoch(std::int64_t epoch) {
  ls::TrainingState state;
  state.scalar = "float32";
  state.epoch = epoch;
  return state;
}

bool exists(const ls::BackupAndRestore& backup) { return std::filesystem::exists(backup.path()); }

}  // namespace

TEST_CASE("BackupAndRestore: saves the state at the end of an epoch, by default") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{folder.path("deep/backup")};
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
  const ls::BackupAndRestore backup{.backup_dir = folder.path(), .save_freq = 3};
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
  CHECK(contains(message_of<ls::ConfigurationError>([] { (void)ls::SaveFrequency(-1); }), "got -1"));
}

TEST_CASE("BackupAndRestore: without a folder's name it is an error, and not a file in the root folder") {
  FakeTraining training;
  CHECK_THROWS_AS(ls::BackupAndRestore{""}.on_train_begin(training), ls::ConfigurationError);
}

TEST_CASE("BackupAndRestore: hands the saved bytes to fit when training begins") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{folder.path()};
  FakeTraining saving, resuming;
  saving.snapshot = state_of_epoch(5);
  backup.on_epoch_complete(saving, 4);
  backup.on_train_begin(resuming);
  REQUIRE(static_cast<bool>(resuming.decode));
  CHECK(resuming.decode(resuming.restored) == saving.snapshot);
}

TEST_CASE("BackupAndRestore: without a backup nothing is restored, but the others may hear of one") {
  const TemporaryFolder folder;
  FakeTraining training;
  ls::BackupAndRestore{folder.path("none")}.on_train_begin(training);
  CHECK(training.restored.empty());
  CHECK(training.restore_calls == 1);
  CHECK(static_cast<bool>(training.decode));
}

TEST_CASE("BackupAndRestore: only the chief reads, writes and deletes") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{folder.path()};
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

TEST_CASE("BackupAndRestore: a damaged file is an error that names it and the remedy, and the file stays") {
  const TemporaryFolder folder;
  const ls::BackupAndRestore backup{folder.path()};
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
  CHECK(contains(message_of<ls::DataError>([&] { backup.on_train_begin(training); }), "no lockstep checkpoint"));
}
