#include "lockstep/checkpoint/checkpoint_folder.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using ls::detail::CheckpointFolder;
using ls::detail::CheckpointWatch;
using namespace lockstep_test;

namespace {

using Found = std::vector<std::int64_t>;

ls::TrainingState state_of(std::int64_t iterations) {
  ls::TrainingState state;
  state.scalar = "float32";
  state.iterations = iterations;
  return state;
}

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
