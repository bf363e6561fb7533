#include "lockstep/callbacks/csv_logger.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <string>

#include "callbacks/fake_training.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::file_text;
using lockstep_test::message_of;
using lockstep_test::TemporaryFolder;

namespace {

void run_epoch(ls::CSVLogger& logger, FakeTraining& training, int epoch,
               std::initializer_list<ls::Logs::Entry> entries) {
  ls::Logs logs;
  for (const auto& [name, value] : entries) logs.set(name, value);
  logger.on_epoch_begin(training, epoch);
  logger.on_epoch_end(training, epoch, logs);
}

void end(ls::CSVLogger& logger, FakeTraining& training) {
  ls::Logs logs;
  logger.on_train_end(training, logs);
}

}  // namespace

// The texts are those that Keras 3's CSVLogger writes for the same logs.
TEST_SUITE_BEGIN("Keras: callbacks");

TEST_CASE(
    "CSVLogger: columns by name, val_ columns for all figures, NA, numbers as Python prints them") {
  const TemporaryFolder folder;
  FakeTraining training;
  ls::CSVLogger logger({.filename = folder.path("run/log.csv")});
  logger.on_train_begin(training);
  run_epoch(logger, training, 0, {{"loss", 2}, {"accuracy", 0.1}});
  const std::string first = "epoch,accuracy,loss,val_accuracy,val_loss\r\n0,0.1,2.0,NA,NA\r\n";
  CHECK(file_text(folder.path("run/log.csv")) == first);  // each row at once
  run_epoch(logger, training, 1,
            {{"loss", 1e-5}, {"accuracy", 1e16}, {"val_loss", std::nan("")}, {"unknown", 1}});
  run_epoch(logger, training, 2, {{"accuracy", 123456.75}});
  end(logger, training);
  CHECK(file_text(folder.path("run/log.csv")) ==
        first + "1,1e+16,1e-05,NA,nan\r\n2,123456.75,NA,NA,NA\r\n");
}

TEST_CASE(
    "CSVLogger: with a validation in the first epoch its columns are those of the logs; separator "
    "and quotes") {
  const TemporaryFolder folder;
  FakeTraining training;
  ls::CSVLogger logger({.filename = folder.path("log.csv"), .separator = ';'});
  logger.on_train_begin(training);
  run_epoch(logger, training, 0, {{"loss", 1}, {"val_loss", 2}, {"a;\"b\"", 3}});
  CHECK(file_text(folder.path("log.csv")) ==
        "epoch;\"a;\"\"b\"\"\";loss;val_loss\r\n0;3.0;1.0;2.0\r\n");
}

TEST_CASE("CSVLogger: append keeps rows and writes no second header; else the file begins anew") {
  const TemporaryFolder folder;
  FakeTraining training;
  const std::string path = folder.path("log.csv"), header = "epoch,loss,val_loss\r\n",
                    row = "0,1.0,NA\r\n";
  ls::CSVLogger logger({.filename = path, .append = true});
  for (int fit = 0; fit < 2; ++fit) {  // the same object twice
    logger.on_train_begin(training);
    run_epoch(logger, training, 0, {{"loss", 1}});
    end(logger, training);
  }
  CHECK(file_text(path) == header + row + row);
  ls::CSVLogger other({.filename = path, .append = true});
  other.on_train_begin(training);
  run_epoch(other, training, 0, {{"loss", 1}});
  CHECK(file_text(path) == header + row + row + row);
  ls::CSVLogger anew({.filename = path});
  anew.on_train_begin(training);
  CHECK(file_text(path) == header + row + row + row);  // nothing is lost before the first epoch
  run_epoch(anew, training, 0, {{"loss", 1}});
  CHECK(file_text(path) == header + row);
}

TEST_CASE("CSVLogger: appended rows stand under the file's header, by name") {
  const TemporaryFolder folder;
  FakeTraining training;
  const std::string path = folder.path("log.csv"), header = "epoch,\"a,b\",loss,old,val_loss\r\n";
  std::ofstream(path, std::ios::binary) << header;
  ls::CSVLogger logger({.filename = path, .append = true});
  logger.on_train_begin(training);
  lockstep_test::CapturedStderr captured;
  for (const int epoch : {0, 1})
    run_epoch(logger, training, epoch,
              {{"accuracy", 1}, {"val_loss", 4}, {"loss", 3}, {"a,b", 2}, {"val_accuracy", 1}});
  CHECK(file_text(path) == header + "0,2.0,3.0,NA,4.0\r\n1,2.0,3.0,NA,4.0\r\n");
  const std::string said = captured.text();
  CHECK(contains(said, " has no column for accuracy, val_accuracy: left out"));
  CHECK(said.find("has no column") == said.rfind("has no column"));

  ls::CSVLogger other({.filename = path, .separator = ';', .append = true});
  other.on_train_begin(training);
  CHECK(contains(message_of<ls::ConfigurationError>([&] { other.on_epoch_begin(training, 0); }),
                 "should begin with a header 'epoch;...'; its first line is "));
}

TEST_CASE("CSVLogger: a resumed run goes on behind the last snapshot, with the same columns") {
  const TemporaryFolder folder;
  FakeTraining training;
  const std::string path = folder.path("log.csv");
  ls::State state;
  {
    ls::CSVLogger killed({.filename = path});
    killed.on_train_begin(training);
    run_epoch(killed, training, 0, {{"loss", 1}});
    killed.save(state);
    run_epoch(killed, training, 1, {{"loss", 7}});
  }
  ls::CSVLogger logger({.filename = path});
  logger.on_train_begin(training);
  logger.restore(state);
  run_epoch(logger, training, 1, {{"loss", 2}, {"val_loss", 3}});
  CHECK(file_text(path) == "epoch,loss,val_loss\r\n0,1.0,NA\r\n1,2.0,3.0\r\n");
}

TEST_CASE("CSVLogger: a chief that takes over the state of another worker keeps all rows") {
  const TemporaryFolder folder;
  FakeTraining chief, other;
  other.chief = false;
  const std::string path = folder.path("log.csv");
  ls::State state;
  {
    ls::CSVLogger killed({.filename = path}), survivor({.filename = path});
    killed.on_train_begin(chief);
    survivor.on_train_begin(other);
    run_epoch(killed, chief, 0, {{"loss", 1}});
    run_epoch(survivor, other, 0, {{"loss", 1}});
    survivor.save(state);
  }
  ls::CSVLogger logger({.filename = path});
  logger.on_train_begin(chief);
  logger.restore(state);
  run_epoch(logger, chief, 1, {{"loss", 2}});
  CHECK(file_text(path) == "epoch,loss,val_loss\r\n0,1.0,NA\r\n1,2.0,NA\r\n");
}

TEST_CASE("CSVLogger: the chief alone writes; what cannot be written is refused at the beginning") {
  const TemporaryFolder folder;
  FakeTraining other;
  other.chief = false;
  ls::CSVLogger silent({.filename = folder.path("log.csv")});
  silent.on_train_begin(other);
  run_epoch(silent, other, 0, {{"loss", 1}});
  CHECK(file_text(folder.path("log.csv")).empty());

  FakeTraining training;
  ls::CSVLogger nowhere({.filename = "/dev/null/log.csv"});
  CHECK(contains(message_of<ls::Error>([&] { nowhere.on_train_begin(training); }), "'/dev/null'"));
  ls::CSVLogger a_folder({.filename = folder.path()});
  CHECK(contains(message_of<ls::Error>([&] { a_folder.on_train_begin(training); }), folder.path()));
  CHECK(contains(message_of<ls::ConfigurationError>([] { ls::CSVLogger({.filename = ""}); }),
                 "filename is empty"));
  CHECK(contains(message_of<ls::ConfigurationError>(
                     [] { ls::CSVLogger({.filename = "a", .separator = '"'}); }),
                 "separator"));
}

TEST_SUITE_END();
