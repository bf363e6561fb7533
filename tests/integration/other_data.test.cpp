// Workers whose data differ, as processes.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "support/messages.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

/// Two workers of the program.
Finished train(const std::string& mode, const std::string& folder = {}) {
  return run_process({test_program("integration_other_data"), "--workers", "2", mode, folder}, {},
                     120s);
}

}  // namespace

TEST_CASE("other data on one worker end both with exit code 2, before any step") {
  const auto equal = train("equal");
  CAPTURE(equal.output);
  CHECK(equal.exit_code == 0);
  for (const auto& [mode, difference] :
       {std::pair(
            "batch",
            "worker 1 has 'training data, global batch size: 4', the chief has 'training data, "
            "global "
            "batch size: 8'"),
        std::pair("rows", "worker 1 has 'training data, samples in the source: 71', the chief has"),
        std::pair("seed", "shuffle(72, seed 6)"),
        std::pair("contents", "'training data, checksum of 16 samples: ")}) {
    const Finished finished = train(mode);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 2);
    for (const std::string worker : {"[worker 0] ", "[worker 1] "})
      CHECK(contains(finished.output, worker + "error: "));
    CHECK(count(finished.output, "fit: the workers differ: worker 1 has '") >= 2);
    CHECK(contains(finished.output, difference));
    CHECK_FALSE(contains(finished.output, "Epoch 1/2"));
  }
}

TEST_CASE(
    "AutoShardPolicy::file: workers that have their own files alone, and a bar to the end of the "
    "longest part") {
  const TemporaryFolder folder;
  // Worker w opens file w of its list. Of the global batch of 8 each has 4: 9 and 11 steps.
  for (const auto& [name, rows] : {std::pair("worker-0/0", 36), std::pair("worker-1/1", 44)}) {
    const std::filesystem::path path = folder.path(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << rows;
  }
  const Finished finished = train("files", folder.path(""));
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 0);
  CHECK(contains(finished.output, "11/11 ["));
  CHECK_FALSE(contains(finished.output, "/10 ["));
  CHECK(contains(finished.output, "[worker 0] final: updates=22 "));
  CHECK(contains(finished.output, "[worker 1] final: updates=22 "));
}
