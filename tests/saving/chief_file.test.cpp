#include "lockstep/core/error.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/any_strategy.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> from_chief(WorkerStrategy& strategy, const char* call,
                                  const std::string& path, const ls::HeadCheck& check) {
  return ls::detail::file_from_chief(*ls::any_strategy(strategy), call, path, check);
}

}  // namespace

TEST_CASE("chief file: what the chief reads, all workers receive") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  ls::write_file_atomically(path, bytes_of("contents"));
  for (const std::string& failure : run_workers(2, [&](WorkerStrategy& strategy) {
         const std::string mine = strategy.is_chief() ? path : "a file that only the chief needs";
         CHECK(from_chief(strategy, "load", mine, ls::at_most(8, "this test")) ==
               bytes_of("contents"));
         CHECK_THROWS_AS((void)from_chief(strategy, "load", mine, ls::at_most(7, "this test")),
                         ls::DataError);
       }))
    CHECK(failure.empty());
}

TEST_CASE("chief file: what the chief cannot read is the same error on all workers") {
  const TemporaryFolder folder;
  const std::string path = folder.path("none");
  for (const std::string& failure : run_workers(2, [&](WorkerStrategy& strategy) {
         CHECK_THROWS_WITH_AS((void)from_chief(strategy, "load", path, {}),
                              ("cannot read '" + path + "': the chief has no such file").c_str(),
                              ls::DataError);
       }))
    CHECK(failure.empty());
}

TEST_CASE("chief file: workers in different calls are told so") {
  const auto failures = run_workers(2, [&](WorkerStrategy& strategy) {
    const char* const call = strategy.is_chief() ? "load" : "restore";
    CHECK_THROWS_AS((void)from_chief(strategy, call, "none", {}), ls::ConfigurationError);
  });
  for (const std::string& failure : failures) CHECK(failure.empty());
}

TEST_CASE("chief file: errors get the call and the path in front, and keep their type") {
  const auto throws = [](auto error) {
    return [error] { ls::detail::naming_file("load", "run/model", [&] { throw error; }); };
  };
  CHECK(message_of<ls::DataError>(throws(ls::DataError("damaged"))) == "load 'run/model': damaged");
  CHECK(message_of<ls::ConfigurationError>(throws(ls::ConfigurationError("another"))) ==
        "load 'run/model': another");
}

TEST_CASE("write_filepath: the chief's path, and a folder beside it for every other worker") {
  const auto failures = run_workers(3, [](WorkerStrategy& strategy) {
    const int worker = strategy.worker_index();
    const std::string part = worker == 0 ? "" : "workertemp_" + std::to_string(worker) + "/";
    CHECK(ls::write_filepath("/tmp/run/model", strategy) == "/tmp/run/" + part + "model");
    CHECK(ls::write_filepath("model", strategy) == part + "model");
  });
  for (const std::string& failure : failures) CHECK(failure.empty());
}
