#include "lockstep/callbacks/log_file.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "callbacks/fake_training.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::file_text;
using lockstep_test::message_of;
using lockstep_test::TemporaryFolder;
using ls::detail::LogFile;

namespace {

void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("LogFile: what a file had stays until the first epoch; then it begins anew") {
  const TemporaryFolder folder;
  const std::string path = folder.path("log");
  put(path, "before\n");
  FakeTraining training;
  LogFile file("MyLogger", path, false);
  CHECK_FALSE(file.is_open());
  file.open(training);
  CHECK_FALSE(file.is_open());
  file.write("too early\n");
  CHECK(file_text(path) == "before\n");
  CHECK(file.start());
  CHECK(file.is_open());
  CHECK(file.is_empty());
  CHECK_FALSE(file.start());  // of a later epoch
  file.write("a\n");
  CHECK(file_text(path) == "a\n");  // at once
  CHECK_FALSE(file.is_empty());
  file.close();
  file.write("too late\n");
  CHECK(file_text(path) == "a\n");
}

TEST_CASE("LogFile: append keeps what the file had; so does a line outside of fit") {
  const TemporaryFolder folder;
  const std::string path = folder.path("log");
  put(path, "before\n");
  FakeTraining training;
  LogFile file("MyLogger", path, true);
  file.open(training);
  CHECK(file.start());
  CHECK_FALSE(file.is_empty());
  file.write("a\n");
  file.close();
  file.append(training, "b\n");
  CHECK(file_text(path) == "before\na\nb\n");
}

TEST_CASE("LogFile: a resumed run cuts off what came after the snapshot") {
  const TemporaryFolder folder;
  const std::string path = folder.path("log");
  FakeTraining training;
  ls::State state;
  {
    LogFile killed("MyLogger", path, false);
    killed.open(training);
    (void)killed.start();
    killed.write("one\n");
    killed.save(state);
    killed.write("two, and half a li");
  }
  LogFile file("MyLogger", path, false);
  file.open(training);
  file.restore(state);
  CHECK_FALSE(file.start());  // not the first epoch of the run
  file.write("TWO\n");
  CHECK(file_text(path) == "one\nTWO\n");

  file.open(training);  // another fit, which is not resumed
  CHECK(file.start());
  CHECK(file_text(path).empty());
}

TEST_CASE(
    "LogFile: the chief alone writes, and one that takes over a state without a file keeps "
    "all lines") {
  const TemporaryFolder folder;
  const std::string path = folder.path("log");
  put(path, "of the chief before\n");
  FakeTraining other;
  other.chief = false;
  LogFile survivor("MyLogger", path, false);
  survivor.open(other);
  CHECK_FALSE(survivor.start());
  survivor.write("a\n");
  survivor.append(other, "b\n");
  CHECK(file_text(path) == "of the chief before\n");
  ls::State state;
  survivor.save(state);

  FakeTraining chief;
  LogFile file("MyLogger", path, false);
  file.open(chief);
  file.restore(state);
  CHECK_FALSE(file.start());
  file.write("c\n");
  CHECK(file_text(path) == "of the chief before\nc\n");
}

TEST_CASE(
    "LogFile: no name is refused with the callback's, and a file that cannot be opened with "
    "the file's") {
  CHECK(message_of<ls::ConfigurationError>([] { LogFile("MyLogger", "", false); }) ==
        "MyLogger: filename is empty: name a file");
  FakeTraining training;
  LogFile nowhere("MyLogger", "/dev/null/log", false);
  CHECK(contains(message_of<ls::Error>([&] { nowhere.open(training); }), "/dev/null"));
}
