#include "lockstep/checkpoint/snapshot_writer.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using lockstep::detail::BackgroundTask;
using lockstep_test::TemporaryFolder;

TEST_CASE("BackgroundTask: runs beside its owner, which may wait for it") {
  BackgroundTask task;
  CHECK_FALSE(task.is_running());
  std::atomic<bool> go = false;
  std::atomic<int> done = 0;
  task.start([&] {
    while (!go) std::this_thread::yield();
    ++done;
  });
  CHECK(task.is_running());
  CHECK(done == 0);
  go = true;
  task.finish();
  CHECK(done == 1);
  CHECK_FALSE(task.is_running());
  task.finish();  // nothing to wait for
}

TEST_CASE("BackgroundTask: a task waits for the one before") {
  BackgroundTask task;
  std::atomic<int> running = 0;
  std::atomic<bool> overlapped = false;
  for (int i = 0; i < 5; ++i)
    task.start([&] {
      if (++running > 1) overlapped = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --running;
    });
  task.finish();
  CHECK_FALSE(overlapped);
}

TEST_CASE(
    "BackgroundTask: an exception of the task is thrown once, by finish or by the next start") {
  BackgroundTask task;
  const auto fail = [] { throw std::runtime_error("no disk"); };
  task.start(fail);
  CHECK_THROWS_WITH(task.finish(), "no disk");
  task.finish();
  task.start(fail);
  CHECK_THROWS_WITH(task.start([] {}), "no disk");
  task.start([] {});
  task.finish();
}

TEST_CASE("BackgroundTask: the destructor waits, and logs an exception of the task") {
  std::atomic<int> done = 0;
  {
    BackgroundTask task;
    task.start([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++done;
      throw std::runtime_error("too late");
    });
  }
  CHECK(done == 1);
}

namespace {

ls::TrainingState snapshot(std::int64_t iterations) {
  ls::TrainingState state;
  state.scalar = "float32";
  state.iterations = iterations;
  return state;
}

std::int64_t iterations_in(const std::string& path) {
  return ls::read_snapshot(path).value().snapshot.iterations;
}

template <class Writer>
void put(Writer& writer, std::int64_t iterations) {
  writer.put([&](ls::TrainingState) { return snapshot(iterations); });
}

/// A system that has no thread left.
struct NoThread {
  void start(const std::function<void()>&) { throw ls::Error("cannot start the thread"); }
  [[nodiscard]] bool is_running() const { return false; }
  void finish() {}
};

}  // namespace

TEST_CASE("snapshot writer: writes what was put, and keeps the former file") {
  const TemporaryFolder folder;
  const std::string path = folder.path("snapshot");
  ls::detail::SnapshotWriter<> writer;
  CHECK_FALSE(writer.needs_start());
  for (const std::int64_t iterations : {1, 2}) {
    put(writer, iterations);
    CHECK(writer.needs_start());
    writer.start(path);
    writer.finish();
    CHECK_FALSE(writer.needs_start());
    CHECK(iterations_in(path) == iterations);
  }
  CHECK(iterations_in(ls::previous_generation(path)) == 1);
}

TEST_CASE("snapshot writer: of several that wait, the newest is written; a forgotten one is not") {
  const TemporaryFolder folder;
  ls::detail::SnapshotWriter<> writer;
  put(writer, 1);
  put(writer, 2);
  writer.start(folder.path("snapshot"));
  writer.finish();
  CHECK(iterations_in(folder.path("snapshot")) == 2);
  put(writer, 3);
  writer.forget_next();
  CHECK_FALSE(writer.needs_start());
}

TEST_CASE("snapshot writer: without a thread it writes on the calling one") {
  const TemporaryFolder folder;
  ls::detail::SnapshotWriter<NoThread> writer;
  put(writer, 5);
  writer.start(folder.path("snapshot"));
  CHECK(iterations_in(folder.path("snapshot")) == 5);
  CHECK_FALSE(writer.needs_start());

  std::filesystem::create_directory(folder.path("folder"));
  put(writer, 6);
  CHECK_THROWS_AS(writer.start(folder.path("folder")), ls::Error);
  put(writer, 7);  // a write that failed is over
  CHECK(writer.needs_start());
  writer.start(folder.path("snapshot"));
  CHECK(iterations_in(folder.path("snapshot")) == 7);
}

TEST_CASE("snapshot writer: when no snapshot can be had, none is written, and the next one is") {
  const TemporaryFolder folder;
  ls::detail::SnapshotWriter<> writer;
  put(writer, 1);
  CHECK_THROWS_WITH_AS(
      writer.put([](ls::TrainingState) -> ls::TrainingState { throw ls::Error("no memory"); }),
      "no memory", ls::Error);
  CHECK_FALSE(writer.needs_start());
  put(writer, 2);
  writer.start(folder.path("snapshot"));
  writer.finish();
  CHECK(iterations_in(folder.path("snapshot")) == 2);
}
