#include "lockstep/callbacks/json_logger.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using Json = nlohmann::json;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::message_of;
using lockstep_test::Recorder;
using lockstep_test::TemporaryFolder;

namespace {

std::vector<Json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

/// "train_begin step step epoch"
std::string events_of(const std::string& path) {
  std::string events;
  for (const Json& line : lines_of(path)) {
    CHECK(line.at("time").get<double>() > 1.7e9);
    events += (events.empty() ? "" : " ") + line.at("event").get<std::string>();
  }
  return events;
}

void run_epoch(ls::JSONLogger& logger, FakeTraining& training, int epoch) {
  ls::Logs logs;
  logs.set("loss", epoch == 0 ? 0.5 : std::nan(""));
  logger.on_epoch_begin(training, epoch);
  for (std::int64_t batch = 0; batch < 2; ++batch) {
    logger.on_train_batch_begin(training, batch);
    ++training.updates;
    logger.on_train_batch_end(training, batch, logs);
  }
  logger.on_epoch_end(training, epoch, logs);
}

}  // namespace

TEST_CASE("JSONLogger: a line for each event") {
  const TemporaryFolder folder;
  const std::string path = folder.path("run/log.jsonl");
  FakeTraining training;
  training.times = {{.compute = 0.25, .collective = 0.5}, {.compute = 0.5, .collective = 0.25}};
  ls::Logs logs;
  logs.set("loss", 3);
  ls::JSONLogger logger({.filename = path});
  logger.on_train_begin(training);
  run_epoch(logger, training, 0);
  run_epoch(logger, training, 1);
  logger.on_test_end(training, logs);  // a validation: its figures are the epoch's
  logger.on_train_end(training, logs);
  logger.on_test_end(training, logs);
  CHECK(events_of(path) == "train_begin step step epoch step step epoch train_end evaluate");
  const std::vector<Json> lines = lines_of(path);
  CHECK(lines[0].at("workers") == 2);
  CHECK(lines[2].at("epoch") == 0);
  CHECK(lines[2].at("step") == 2);
  CHECK(lines[5].at("iteration") == 4);
  CHECK(lines[1].at("ms").get<double>() >= 0);
  CHECK(lines[1].at("loss") == 0.5);
  CHECK(lines[4].at("loss").is_null());  // JSON has no NaN
  CHECK(lines[1].at("learning_rate") == 0.1);
  CHECK(lines[3].at("steps") == 2);
  CHECK(lines[3].at("rank_times") ==
        Json::parse(R"([{"rank": 0, "compute_ms": 250, "collective_ms": 500},
                        {"rank": 1, "compute_ms": 500, "collective_ms": 250}])"));
  CHECK(lines[8].at("loss") == 3);
}

TEST_CASE("JSONLogger: update_freq, append, an abort, other workers") {
  const TemporaryFolder folder;
  const std::string path = folder.path("log.jsonl");
  FakeTraining training, other;
  other.chief = false;
  for (const bool append : {false, true}) {
    ls::JSONLogger logger({.filename = path,
                           .update_freq = append ? 4 : ls::UpdateFrequency::epoch,
                           .append = append});
    logger.on_train_begin(training);
    run_epoch(logger, training, 0);
    run_epoch(logger, training, 1);
    logger.on_train_abort(training);
  }
  const std::string both =
      "train_begin epoch epoch train_abort train_begin epoch step epoch train_abort";
  CHECK(events_of(path) == both);
  ls::JSONLogger silent({.filename = path});
  silent.on_train_begin(other);
  run_epoch(silent, other, 0);
  silent.on_train_abort(other);
  ls::JSONLogger too_early({.filename = path});
  too_early.on_train_begin(training);
  too_early.on_train_abort(training);  // the former run's lines stay
  CHECK(events_of(path) == both);
  CHECK(contains(message_of<ls::ConfigurationError>([] { ls::JSONLogger({.filename = ""}); }),
                 "filename is empty"));
}

TEST_CASE(
    "JSONLogger: the lines of a run that was killed and resumed are those of one that was not") {
  const TemporaryFolder folder;
  const std::string path = folder.path("log.jsonl");
  const lockstep_test::RowDataset data(lockstep_test::TinyData(12), 4);
  const auto fit = [&](int epochs_until_killed) {
    lockstep_test::TinyTrainer trainer({.replicas = 2});
    ls::BackupAndRestore backup{.backup_dir = folder.path("backup")};
    ls::JSONLogger logger({.filename = path, .update_freq = 2});
    Recorder recorder;
    recorder.at_train_begin = [&](ls::Training& training) { logger.on_train_begin(training); };
    recorder.at_epoch_begin = [&](ls::Training& training, int epoch) {
      logger.on_epoch_begin(training, epoch);
      if (epoch == epochs_until_killed) throw ls::Error("killed");
    };
    recorder.at_batch_end = [&](ls::Training& training, std::int64_t batch, ls::Logs& logs) {
      logger.on_train_batch_end(training, batch, logs);
    };
    recorder.at_epoch_end = [&](ls::Training& training, int epoch, ls::Logs& logs) {
      CHECK(training.rank_times().size() == 2);
      CHECK(training.rank_times()[1].compute > 0);
      CHECK(contains(training.model_text().summary, "user_dense_1 (UserDense)"));
      logger.on_epoch_end(training, epoch, logs);
    };
    recorder.at_train_end = [&](ls::Training& training, ls::Logs& logs) {
      logger.on_train_end(training, logs);
    };
    recorder.at_save = [&](ls::State& state) { logger.save(state); };
    recorder.at_restore = [&](const ls::State& state) { logger.restore(state); };
    trainer.fit(data, {.epochs = 3, .validation_data = data}, recorder, backup);
  };
  /// The lines without times.
  const auto lines = [&] {
    std::vector<Json> all = lines_of(path);
    for (Json& line : all)
      for (const char* const name : {"time", "ms", "rank_times"}) line.erase(name);
    return all;
  };
  fit(9);
  const std::vector<Json> whole = lines();
  CHECK(events_of(path) == "train_begin step epoch step step epoch step epoch train_end");
  CHECK(whole[2].contains("val_loss"));
  CHECK_FALSE(whole[3].contains("val_loss"));  // of the former epoch
  CHECK_THROWS_AS(fit(2), ls::Error);
  CHECK(lines().size() == 6);
  fit(9);
  CHECK(lines() == whole);
}
