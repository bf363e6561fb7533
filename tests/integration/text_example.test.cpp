// The models of text as a user runs them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/example_runs.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using lockstep_test::figure, lockstep_test::run_example;

namespace {

/// The last line of a short run.
std::string short_run(const std::string& model, std::vector<std::string> arguments) {
  arguments.insert(arguments.end(),
                   {"--model", model, "--epochs", "1", "--samples", "192", "--verbose", "0"});
  return run_example("text", arguments);
}

}  // namespace

TEST_CASE("text: two workers and two replicas hold equal bits, with both models") {
  for (const char* model : {"lstm", "attention"}) {
    CAPTURE(model);
    const std::string replicas = short_run(model, {"--replicas", "2", "--batch-size", "48"});
    CHECK(short_run(model, {"--workers", "2", "--batch-size", "24"}) == replicas);
    CHECK(short_run(model, {"--replicas", "2", "--batch-size", "48", "--seed", "2"}) != replicas);
  }
}

TEST_CASE("text: killed and started again, the bits are those of one run") {
  const lockstep_test::TemporaryFolder folder;
  std::vector<std::string> arguments{"--samples", "1024", "--epochs", "8"};
  const std::string resumed =
      lockstep_test::kill_and_resume("text", arguments, folder.path("backup"));
  arguments.insert(arguments.end(), {"--verbose", "0"});
  CHECK(run_example("text", arguments) == resumed);
}

TEST_CASE("text: weights travel by file; those of another model and a wrong model are refused") {
  const lockstep_test::TemporaryFolder folder;
  const std::string weights = folder.path("weights.safetensors");
  const std::string first = short_run("attention", {"--model-out", weights});
  CHECK(short_run("attention", {"--model-in", weights}) != first);
  using lockstep_test::run_process;
  CHECK(run_process(lockstep_test::example_command("text", {"--model-in", weights})).exit_code ==
        2);
  const auto refused = run_process(lockstep_test::example_command("text", {"--model", "gru"}));
  CHECK(refused.exit_code == 2);
  CHECK(refused.output.find("'gru' is neither lstm nor attention") != std::string::npos);
}

TEST_SUITE("text [full]") {
  TEST_CASE("both models tell praise from complaint, mean of three seeds") {
    const auto accuracy = [](const std::string& model) {
      double sum = 0;
      for (const char* seed : {"1", "2", "3"})
        sum += figure(run_example("text", {"--model", model, "--seed", seed, "--verbose", "0"}),
                      "val_accuracy");
      return sum / 3;
    };
    CHECK(accuracy("lstm") > 0.95);
    CHECK(accuracy("attention") > 0.65);
  }
}
