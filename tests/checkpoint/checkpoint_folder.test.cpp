#include "lockstep/checkpoint/checkpoint_folder.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using ls::detail::CheckpointFolder;
using namespace lockstep_test;

namespace {

double now = 0;
double fake_clock() { return now; }

ls::TrainingState state_of(std::int64_t iterations) {
  ls::TrainingState state;
  state.scalar = "float32";
  state.iterations = iterations;
  return state;
}

/// The names in a folder, sorted, without the index.
std::vector<std::string> files(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    if (file.path().filename() != "checkpoint") names.push_back(file.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void put_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

using Names = std::vector<std::string>;

}  // namespace

TEST_SUITE_BEGIN("Keras: checkpoints");

TEST_CASE(
    "checkpoint folder: the newest max_to_keep checkpoints are kept, as ckpt-1, ckpt-2, ...") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints({.directory = folder.path(), .max_to_keep = 3});
  for (int i = 1; i <= 5; ++i)
    CHECK(checkpoints.save(state_of(i)) == folder.path("ckpt-" + std::to_string(i)));
  CHECK(files(folder) == Names{"ckpt-3", "ckpt-4", "ckpt-5"});
  CHECK(checkpoints.checkpoints() ==
        Names{folder.path("ckpt-3"), folder.path("ckpt-4"), folder.path("ckpt-5")});
  CHECK(ls::latest_checkpoint(folder.path()) == folder.path("ckpt-5"));
  CHECK(ls::decode_checkpoint(checkpoints.newest()->bytes) == state_of(5));
}

TEST_CASE("checkpoint folder: with max_to_keep none all checkpoints are kept") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints({.directory = folder.path("made"), .max_to_keep = std::nullopt});
  for (int i = 1; i <= 8; ++i) checkpoints.save(state_of(i));
  CHECK(checkpoints.checkpoints().size() == 8);
  CHECK(std::filesystem::exists(folder.path("made/ckpt-1")));
}

TEST_CASE(
    "checkpoint folder: a new manager recovers the list, and leaves files that it does not manage "
    "alone") {
  const TemporaryFolder folder;
  put_text(folder.path("ckpt-99"), "another program's");
  put_text(folder.path("notes"), "another program's");
  const ls::CheckpointManagerOptions options{.directory = folder.path(), .max_to_keep = 2};
  CheckpointFolder first(options);
  for (int i = 1; i <= 3; ++i) first.save(state_of(i));
  CheckpointFolder second(options);
  CHECK(second.checkpoints() == first.checkpoints());
  CHECK(second.save(state_of(4)) == folder.path("ckpt-4"));
  CHECK(files(folder) == Names{"ckpt-3", "ckpt-4", "ckpt-99", "notes"});
}

TEST_CASE(
    "checkpoint folder: the file 'checkpoint' is TensorFlow's text: those that are kept, and the "
    "latest, with relative paths") {
  const TemporaryFolder folder;
  now = 1.7e9 + 0.25;
  CheckpointFolder checkpoints({.directory = folder.path(), .checkpoint_name = "model"},
                               &fake_clock);
  checkpoints.save(state_of(1));
  now += 10;
  checkpoints.save(state_of(2));
  CHECK(
      file_text(folder.path("checkpoint")) ==
      "model_checkpoint_path: \"model-2\"\nall_model_checkpoint_paths: \"model-1\"\n"
      "all_model_checkpoint_paths: \"model-2\"\nall_model_checkpoint_timestamps: 1700000000.25\n"
      "all_model_checkpoint_timestamps: 1700000010.25\nlast_preserved_timestamp: 1700000000.25\n");
  std::filesystem::rename(folder.path(), folder.path() + "-moved");
  CHECK(ls::latest_checkpoint(folder.path() + "-moved") == folder.path() + "-moved/model-2");
  std::filesystem::rename(folder.path() + "-moved", folder.path());
}

TEST_CASE("checkpoint folder: a number may be given; an earlier one of that number is replaced") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints({.directory = folder.path()});
  checkpoints.save(state_of(1), 10);
  checkpoints.save(state_of(2), 20);
  checkpoints.save(state_of(3), 10);
  CHECK(checkpoints.checkpoints() == Names{folder.path("ckpt-20"), folder.path("ckpt-10")});
  CHECK(ls::decode_checkpoint(checkpoints.newest()->bytes) == state_of(3));
}

TEST_CASE(
    "checkpoint folder: keep_checkpoint_every_n_hours keeps one of every so many hours for ever") {
  const TemporaryFolder folder;
  const ls::CheckpointManagerOptions options{
      .directory = folder.path(), .max_to_keep = 1, .keep_checkpoint_every_n_hours = 2};
  now = 1e6;
  for (int i = 1; i <= 12;
       ++i) {  // the folder is opened anew each time: what was kept last is in the index
    CheckpointFolder(options, &fake_clock).save(state_of(i));
    now += 1800;
  }
  // Number 1 was saved at the start of the first two hours; 5 is two hours later, 9 two hours after
  // that.
  CHECK(files(folder) == Names{"ckpt-12", "ckpt-5", "ckpt-9"});
}

TEST_CASE(
    "checkpoint folder: with checkpoint_interval, saves are due when so many updates lie between "
    "them") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints({.directory = folder.path(), .checkpoint_interval = 10});
  CHECK(checkpoints.due(0));
  checkpoints.save(state_of(3));
  CHECK_FALSE(checkpoints.due(12));
  CHECK(checkpoints.due(13));
  checkpoints.restored(20);
  CHECK_FALSE(checkpoints.due(29));
  CHECK(checkpoints.due(30));
}

TEST_CASE("checkpoint folder: latest_checkpoint skips what is missing or damaged, with a warning") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints({.directory = folder.path()});
  for (int i = 1; i <= 4; ++i) checkpoints.save(state_of(i));
  ls::remove_file(folder.path("ckpt-4"));
  const std::string skipping = "warning: skipping the checkpoint '";
  {
    const CapturedStderr captured;
    CHECK(ls::latest_checkpoint(folder.path()) == folder.path("ckpt-3"));
    CHECK(contains(captured.text(), skipping + folder.path("ckpt-4") + "': it is missing"));
    CHECK_FALSE(contains(captured.text(), skipping + folder.path("ckpt-3")));
  }
  std::filesystem::resize_file(folder.path("ckpt-3"), 50);
  {
    const CapturedStderr captured;
    CHECK(ls::latest_checkpoint(folder.path()) == folder.path("ckpt-2"));
    CHECK(contains(captured.text(), skipping + folder.path("ckpt-3")));
  }
  CHECK(ls::decode_checkpoint(checkpoints.newest()->bytes) == state_of(2));
  put_text(folder.path("ckpt-2"), "");
  ls::remove_file(folder.path("ckpt-1"));
  CHECK(ls::latest_checkpoint(folder.path()) == std::nullopt);
  CHECK_FALSE(checkpoints.newest().has_value());
}

TEST_CASE("checkpoint folder: latest_checkpoint returns nothing where there is none") {
  const TemporaryFolder folder;
  CHECK(ls::latest_checkpoint(folder.path("none")) == std::nullopt);
  put_text(folder.path("ckpt-1"), "another program's");
  CHECK(ls::latest_checkpoint(folder.path()) == std::nullopt);
  CHECK(CheckpointFolder({.directory = folder.path()}).checkpoints().empty());
}

TEST_CASE(
    "checkpoint folder: a damaged index is replaced by the files' names, in the order of their "
    "numbers") {
  const TemporaryFolder folder;
  {
    CheckpointFolder checkpoints({.directory = folder.path(), .max_to_keep = 20});
    for (int i = 1; i <= 11; ++i) checkpoints.save(state_of(i));
  }
  const std::string good = file_text(folder.path("checkpoint"));
  for (const std::string& damaged :
       {std::string(), good.substr(0, good.size() / 2), "\n" + good, good + "colour: 3\n",
        std::string(
            "all_model_checkpoint_paths: \"../ckpt-1\"\nall_model_checkpoint_timestamps: 1\n"),
        std::string("all_model_checkpoint_paths: \"ckpt-1\"\n"),
        std::string("last_preserved_timestamp: x\n"),
        std::string("all_model_checkpoint_timestamps: 1\n"),
        std::string("all_model_checkpoint_paths: ckpt-1\n"), std::string(1000, '\0')}) {
    CAPTURE(damaged);
    put_text(folder.path("checkpoint"), damaged);
    CHECK(ls::latest_checkpoint(folder.path()) == folder.path("ckpt-11"));
  }
  CheckpointFolder again({.directory = folder.path()});
  CHECK(again.save(state_of(12)) == folder.path("ckpt-12"));
  CHECK(again.checkpoints().size() == 5);
}

TEST_CASE("checkpoint folder: with a damaged index other programs' files are left alone, too") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("day-1"));
  std::filesystem::create_directory(folder.path("ckpt-9"));
  const Names others{"ckpt-007", "ckpt-9", "ckpt-old-4", "day-1", "images-1", "notes-3"};
  for (const std::string& name : others)
    if (!std::filesystem::exists(folder.path(name)))
      put_text(folder.path(name), "another program's");
  {
    CheckpointFolder checkpoints({.directory = folder.path()});
    for (int i = 1; i <= 3; ++i) checkpoints.save(state_of(i));
  }
  put_text(folder.path("checkpoint"), "damaged");
  CHECK(ls::latest_checkpoint(folder.path()) == folder.path("ckpt-3"));
  CheckpointFolder again({.directory = folder.path(), .max_to_keep = 1});
  CHECK(again.checkpoints() ==
        Names{folder.path("ckpt-1"), folder.path("ckpt-2"), folder.path("ckpt-3")});
  CHECK(again.save(state_of(4)) == folder.path("ckpt-4"));
  Names expected = others;
  expected.push_back("ckpt-4");
  std::sort(expected.begin(), expected.end());
  CHECK(files(folder) == expected);
}

TEST_CASE("checkpoint folder: the largest number is refused, because it has no successor") {
  const TemporaryFolder folder;
  put_text(folder.path("checkpoint"),
           "all_model_checkpoint_paths: "
           "\"ckpt-9223372036854775807\"\nall_model_checkpoint_timestamps: 1\n");
  CheckpointFolder checkpoints({.directory = folder.path()});
  CHECK(checkpoints.checkpoints().empty());
  CHECK(checkpoints.save(state_of(1)) == folder.path("ckpt-1"));
  for (const std::int64_t number : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()})
    CHECK_THROWS_AS(checkpoints.save(state_of(2), number), ls::ConfigurationError);
  CHECK(files(folder) == Names{"ckpt-1"});
}

TEST_CASE(
    "checkpoint folder: the oldest is deleted only after a good save: one that fails leaves what "
    "was there") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints({.directory = folder.path(), .max_to_keep = 1});
  checkpoints.save(state_of(1));
  std::filesystem::create_directory(folder.path("ckpt-2"));  // in the way
  CHECK(contains(message_of<ls::Error>([&] { checkpoints.save(state_of(2)); }), "ckpt-2"));
  CHECK(checkpoints.checkpoints() == Names{folder.path("ckpt-1")});
  CHECK(ls::latest_checkpoint(folder.path()) == folder.path("ckpt-1"));
}

TEST_CASE(
    "checkpoint folder: files are written by temporary file and rename: who has the former one "
    "open "
    "reads all of it") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints({.directory = folder.path()});
  std::int64_t iterations = 1;
  checkpoints.save(state_of(iterations), 7);
  for (const std::string& name : Names{"checkpoint", "ckpt-7"}) {
    CAPTURE(name);
    const std::string before = file_text(folder.path(name));
    std::ifstream former(folder.path(name), std::ios::binary);
    for (const std::int64_t number : {7, 8}) checkpoints.save(state_of(++iterations), number);
    CHECK(std::string{std::istreambuf_iterator<char>(former), {}} == before);
    CHECK(file_text(folder.path(name)) != before);
  }
  CHECK(files(folder) == Names{"ckpt-7", "ckpt-8"});  // no temporary file is left
}

TEST_CASE("checkpoint folder: the next save removes what a killed process left of a file") {
  const TemporaryFolder folder;
  for (const char* name : {"ckpt-1.tmp.999999999", "checkpoint.tmp.999999999"})
    put_text(folder.path(name), "half");
  CheckpointFolder({.directory = folder.path()}).save(state_of(1));
  CHECK(files(folder) == Names{"ckpt-1"});
}

TEST_CASE(
    "checkpoint folder: max_to_keep below 1 is an error, and so are other options that make no "
    "sense") {
  const auto refused = [](ls::CheckpointManagerOptions options) {
    return message_of<ls::ConfigurationError>([&] { CheckpointFolder{options}; });
  };
  CHECK(contains(refused({}), "directory is empty"));
  CHECK(contains(refused({.directory = "/x", .max_to_keep = 0}),
                 "max_to_keep must be at least 1, got 0"));
  CHECK(contains(refused({.directory = "/x", .keep_checkpoint_every_n_hours = 0}), "above 0"));
  CHECK(contains(refused({.directory = "/x", .checkpoint_interval = 0}), "at least 1 update"));
  CHECK(contains(refused({.directory = "/x", .checkpoint_name = "a/b"}), "'a/b'"));
}

TEST_SUITE_END();

using ls::detail::CheckpointWatch;

namespace {

using Found = std::vector<std::int64_t>;

/// The iterations of all that is new, in order.
Found all_new(CheckpointWatch& watch) {
  Found iterations;
  while (const auto found = watch.next())
    iterations.push_back(ls::decode_checkpoint(found->bytes).iterations);
  return iterations;
}

}  // namespace

TEST_CASE("checkpoint watch: finds each checkpoint of the index once, oldest first") {
  const TemporaryFolder folder;
  CheckpointWatch watch(folder.path("run"));
  CHECK(all_new(watch).empty());
  CheckpointFolder checkpoints({.directory = folder.path("run"), .max_to_keep = 3});
  ls::save_snapshot(folder.path("run/ckpt-77"), state_of(77));  // another program's
  for (int i = 1; i <= 4; ++i) checkpoints.save(state_of(i));
  CHECK(all_new(watch) == Found{2, 3, 4});
  CHECK(all_new(watch).empty());
  checkpoints.save(state_of(5));
  CHECK(watch.next()->path == folder.path("run/ckpt-5"));
  checkpoints.save(state_of(6), 5);  // under the same name
  CHECK(all_new(watch) == Found{6});
}

TEST_CASE(
    "checkpoint watch: what the manager deletes after it was listed, or is damaged, is passed "
    "over, and found when it "
    "is mended") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints({.directory = folder.path()});
  for (int i = 1; i <= 4; ++i) checkpoints.save(state_of(i));
  ls::remove_file(folder.path("ckpt-1"));
  std::filesystem::resize_file(folder.path("ckpt-3"), 50);
  CheckpointWatch watch(folder.path());
  CHECK(all_new(watch) == Found{2, 4});
  CHECK(all_new(watch).empty());
  ls::save_snapshot(folder.path("ckpt-3"), state_of(3));
  CHECK(all_new(watch) == Found{3});
}

TEST_CASE(
    "checkpoint watch: without an index finds all files that begin as checkpoints, oldest first") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, std::int64_t iterations, int seconds) {
    ls::save_snapshot(folder.path(name), state_of(iterations));
    std::filesystem::last_write_time(
        folder.path(name),
        std::filesystem::file_time_type::clock::now() - std::chrono::seconds(seconds));
  };
  CheckpointWatch watch(folder.path());
  write("epoch-2", 20, 100);
  write("epoch-10", 100, 50);
  write("epoch-1", 10, 200);
  write("best.tmp.1234", 1, 300);  // being written
  std::filesystem::create_directory(folder.path("below"));
  write("below/epoch-3", 1, 300);
  std::ofstream(folder.path("notes")) << "LOCKST";
  std::ofstream(folder.path("evaluation.csv")) << "checkpoint,iterations,loss\n";
  ls::mark_training_ended(folder.path());
  CHECK(all_new(watch) == Found{10, 20, 100});
  write("epoch-2", 30, 0);
  CHECK(all_new(watch) == Found{30});
}

TEST_CASE(
    "checkpoint watch: a damaged index is no obstacle, one that cannot be read an error that names "
    "it") {
  const TemporaryFolder folder;
  CheckpointFolder({.directory = folder.path()}).save(state_of(1));
  std::ofstream(folder.path("checkpoint")) << "colour: 3\n";
  CheckpointWatch watch(folder.path());
  CHECK(all_new(watch) == Found{1});
  ls::remove_file(folder.path("checkpoint"));
  std::filesystem::create_directory(folder.path("checkpoint"));
  CHECK(contains(message_of<ls::Error>([&] { (void)watch.next(); }), folder.path("checkpoint")));
}

TEST_CASE("training end: marked, removed, and marked again, in a folder that need not exist") {
  const TemporaryFolder folder;
  const std::string directory = folder.path("made");
  CHECK_FALSE(ls::training_has_ended(directory));
  ls::mark_training_begun(directory);
  for (int run = 0; run < 2; ++run) {
    ls::mark_training_ended(directory);
    ls::mark_training_ended(directory);
    CHECK(ls::training_has_ended(directory));
    ls::mark_training_begun(directory);
    ls::mark_training_begun(directory);
    CHECK_FALSE(ls::training_has_ended(directory));
  }
}

TEST_CASE("training end: a folder that cannot be written to is an error that names it") {
  CHECK(
      contains(message_of<ls::Error>([] { ls::mark_training_ended("/dev/null/x"); }), "/dev/null"));
  CHECK_FALSE(ls::training_has_ended("/dev/null/x"));
}
