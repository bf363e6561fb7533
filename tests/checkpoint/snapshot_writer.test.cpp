#include "lockstep/checkpoint/snapshot_writer.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using lockstep_test::TemporaryFolder;

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
