#include "lockstep/saving/write_filepath.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("write_filepath: the chief's path, and a folder beside it for every other worker") {
  const auto failures = run_workers(3, [](WorkerStrategy& strategy) {
    const int worker = strategy.worker_index();
    const std::string part = worker == 0 ? "" : "workertemp_" + std::to_string(worker) + "/";
    CHECK(ls::write_filepath("/tmp/run/model", strategy) == "/tmp/run/" + part + "model");
    CHECK(ls::write_filepath("model", strategy) == part + "model");
  });
  for (const std::string& failure : failures) CHECK(failure.empty());
}
