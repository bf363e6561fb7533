// LOCKSTEP_LOG=json: whose each line is, in whole jobs.
#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/free_addresses.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

const Environment as_json{{"LOCKSTEP_LOG", "json"}};

/// The structured lines of an output. No line is of the log and another form.
std::vector<Json> log_of(const std::string& output) {
  std::vector<Json> lines;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    CAPTURE(line);
    CHECK(line.find("lockstep: ") == std::string::npos);
    if (!line.starts_with("{")) continue;
    lines.push_back(Json::parse(line, nullptr, false));
    REQUIRE(lines.back().is_object());
    for (const char* const key : {"time", "level", "task", "run", "message"})
      CHECK_MESSAGE(lines.back().contains(key), key);
  }
  return lines;
}

/// "worker 1, rank 1": the processes that have written lines, with the number of these.
std::map<std::string, int> writers(const std::vector<Json>& lines) {
  std::map<std::string, int> count;
  for (const Json& line : lines) {
    std::string writer = line.value("task", "");
    if (line.contains("index")) writer += " " + std::to_string(line["index"].get<int>());
    if (line.contains("rank")) writer += ", rank " + std::to_string(line["rank"].get<int>());
    ++count[writer];
  }
  return count;
}

std::set<std::string> runs(const std::vector<Json>& lines) {
  std::set<std::string> names;
  for (const Json& line : lines) names.insert(line.value("run", ""));
  return names;
}

}  // namespace

TEST_CASE("log lines: of two workers, each names its process, and all the same run") {
  const TemporaryFolder folder;
  const Finished finished = run_process({test_program("integration_survivor"), "--workers", "2",
                                         folder.path(), "verbose=2", "fail=3"},
                                        as_json, 60s);
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 1);
  const auto lines = log_of(finished.output);
  const auto found = writers(lines);
  CHECK(found.size() == 3);
  for (const char* const name : {"worker 0, rank 0", "worker 1, rank 1", "launcher"})
    CHECK_MESSAGE(found.contains(name), name);
  CHECK(runs(lines).size() == 1);
}

TEST_CASE("log lines: parameter servers name their task, under the launcher and by TF_CONFIG") {
  const TemporaryFolder folder;
  const std::string gate = folder.path() + "/gate";
  std::ofstream(gate) << "open";
  const std::vector<std::string> program{test_program("integration_served"), "", "2", "0", gate};
  std::vector<std::string> launched = program;
  launched.insert(launched.begin() + 1, {"--workers", "1", "--servers", "2"});
  const Finished finished = run_process(launched, as_json, 60s);
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 0);
  const auto lines = log_of(finished.output);
  const auto found = writers(lines);
  for (const char* const name : {"ps 0", "ps 1"}) CHECK_MESSAGE(found.contains(name), name);
  CHECK(runs(lines).size() == 1);

  const std::string server = free_addresses(1).front();
  const auto start = [&](const std::string& task) {
    return std::make_unique<Process>(
        program,
        Environment{{"LOCKSTEP_LOG", "json"},
                    {"TF_CONFIG", R"({"cluster": {"worker": ["a:1"], "ps": [")" + server +
                                      R"("]}, "task": {"type": ")" + task + R"(", "index": 0}})"}});
  };
  const auto ps = start("ps"), worker = start("worker");
  CHECK(worker->wait(60s).exit_code == 0);
  const Finished served = ps->wait(60s);
  CAPTURE(served.output);
  CHECK(served.exit_code == 0);
  const auto of_server = log_of(served.output);
  CHECK(writers(of_server).size() == 1);
  CHECK(writers(of_server).contains("ps 0"));
  CHECK(runs(of_server) == std::set<std::string>{"a:1"});
}
