// The evaluator task of a cluster beside two workers: real processes, real signals, real files.
#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

/// It never connects to the workers: their addresses need not be true.
const Environment evaluator_task{
    {"TF_CONFIG",
     R"({"cluster": {"worker": ["localhost:1", "localhost:2"]}, "task": {"type": "evaluator", "index": 0}})"}};

Words evaluator(const std::string& folder) {
  return {example("mnist"), "--checkpoint-dir", folder};
}

Words trainer(const std::string& folder, const char* epochs) {
  return {example("mnist"),
          "--workers",
          "2",
          "--epochs",
          epochs,
          "--steps-per-epoch",
          "2",
          "--batch-size",
          "16",
          "--verbose",
          "0",
          "--checkpoint-dir",
          folder};
}

Words rows(const std::string& folder) {
  std::ifstream file(folder + "/evaluation.csv");
  Words lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  REQUIRE_FALSE(lines.empty());
  CHECK(lines[0] == "checkpoint,iterations,loss,accuracy");
  lines.erase(lines.begin());
  return lines;
}

double number_after(const std::string& text, const std::string& mark) {
  const std::size_t at = text.rfind(mark);
  REQUIRE_MESSAGE(at != std::string::npos, text);
  return std::strtod(text.c_str() + at + mark.size(), nullptr);
}

}  // namespace

TEST_CASE("evaluator: mnist says which options it needs") {
  const Finished finished = run_process({example("mnist"), "--epochs", "1"}, evaluator_task, 30s);
  CHECK(finished.exit_code == 2);
  CHECK_MESSAGE(finished.output.find("needs --checkpoint-dir") != std::string::npos,
                finished.output);
}

TEST_SUITE("evaluator beside workers [full]") {
  TEST_CASE(
      "evaluator: outlives a killed trainer, is started again itself, and ends when training has "
      "ended") {
    const lockstep_test::TemporaryFolder parent;
    const std::string folder = parent.path("run");
    {
      Process evaluating(evaluator(folder), evaluator_task);  // before there is anything
      Process training(trainer(folder, "100000"));
      REQUIRE(evaluating.wait_for("evaluated '" + folder + "/ckpt-", 60s, 2));
      training.signal(SIGKILL);
      training.wait(30s);
      CHECK_FALSE(
          evaluating.wait_for("no such line: what is left is evaluated, and then it waits", 2s));
      evaluating.signal(SIGTERM);
      const Finished finished = evaluating.wait(10s);
      CHECK_FALSE(finished.timed_out);
      CHECK_MESSAGE(finished.exit_code == 143, finished.output);
    }
    const std::size_t before = rows(folder).size();
    CHECK(before >= 2);

    Process evaluating(evaluator(folder), evaluator_task);
    const Finished trained = run_process(trainer(folder, "3"), {}, 60s);
    REQUIRE_MESSAGE(trained.exit_code == 0, trained.output);
    const Finished evaluated = evaluating.wait(60s);
    REQUIRE_MESSAGE(evaluated.exit_code == 0, evaluated.output);
    const Words table = rows(folder);
    CHECK(table.size() > before);
    CHECK(std::set<std::string>(table.begin(), table.end()).size() == table.size());
    CHECK(number_after(table.back(), ",") ==
          doctest::Approx(number_after(trained.output, "val_accuracy=")).epsilon(1e-3));

    const Finished again = run_process(evaluator(folder), evaluator_task, 30s);
    CHECK(again.exit_code == 0);
    CHECK(again.output.find("evaluated") == std::string::npos);
    CHECK(rows(folder) == table);
  }
}
