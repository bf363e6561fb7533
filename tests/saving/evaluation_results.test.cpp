#include "lockstep/saving/sidecar_evaluator.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using ls::detail::EvaluationResults;
using namespace lockstep_test;

namespace {

ls::CheckpointEvaluation evaluation(const std::string& name, std::int64_t iterations, double loss) {
  ls::CheckpointEvaluation made{.checkpoint = name, .iterations = iterations, .logs = {}};
  made.logs.set("loss", loss);
  made.logs.set("accuracy", 0.5);
  return made;
}

}  // namespace

TEST_CASE("evaluation results: rows under a header, which the next object continues") {
  const TemporaryFolder folder;
  const std::string path = folder.path("made/results.csv");
  {
    EvaluationResults results(path);
    CHECK(results.size() == 0);
    results.append(evaluation("ckpt-1", 70, 0.25));
    CHECK(file_text(path) == "checkpoint,iterations,loss,accuracy\nckpt-1,70,0.25,0.5\n");
  }
  EvaluationResults results(path);
  results.append(evaluation("a,\"b\"", 140, std::numeric_limits<double>::quiet_NaN()));
  CHECK(file_text(path) ==
        "checkpoint,iterations,loss,accuracy\nckpt-1,70,0.25,0.5\n\"a,\"\"b\"\"\",140,nan,0.5\n");
  CHECK(results.size() == 2);
  for (const EvaluationResults& same : {results, EvaluationResults(path)}) {
    CHECK(same.size() == 2);
    CHECK(same.contains("ckpt-1", 70));
    CHECK(same.contains("a,\"b\"", 140));
    CHECK_FALSE(same.contains("ckpt-1", 7));
    CHECK_FALSE(same.contains("ckpt-1", 140));
    CHECK_FALSE(same.contains("kpt-1", 70));
    CHECK_FALSE(same.contains("checkpoint", 70));
  }
}

TEST_CASE("evaluation results: without a file they are remembered all the same") {
  EvaluationResults results("");
  results.append(evaluation("ckpt-1", 70, 0.25));
  CHECK(results.contains("ckpt-1", 70));
  CHECK(results.size() == 1);
}

TEST_CASE("evaluation results: a file that is something else is refused, and stays as it is") {
  const TemporaryFolder folder;
  for (const std::string text :
       {"hello\n", "checkpoint,iterations,loss\nckpt-1,70,0.2", "checkpoint"}) {
    CAPTURE(text);
    std::ofstream(folder.path("results.csv")) << text;
    CHECK(
        contains(message_of<ls::DataError>([&] { EvaluationResults{folder.path("results.csv")}; }),
                 "results.csv' is no table of evaluations"));
  }
  const std::string others = "checkpoint,iterations,loss\nckpt-1,70,0.25\n";
  std::ofstream(folder.path("results.csv")) << others;
  EvaluationResults results(folder.path("results.csv"));
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { results.append(evaluation("ckpt-2", 140, 0.2)); }),
      "has the columns 'checkpoint,iterations,loss', this program gives "
      "'checkpoint,iterations,loss,accuracy'"));
  CHECK(file_text(folder.path("results.csv")) == others);
  CHECK_THROWS_AS(EvaluationResults{folder.path()}, ls::Error);
}
