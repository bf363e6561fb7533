// The examples with loops of their own: a generator and its discriminator, a teacher and its
// student.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/example_runs.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;

TEST_CASE("gan: points on the ring, with equal bits on threads and on workers") {
  const std::string threads = run_example(
      "gan", {"--replicas", "2", "--batch-size", "64", "--epochs", "60", "--verbose", "0"});
  CHECK(figure(threads, "error") < 0.12);  // the real ones have 0.04
  CHECK(figure(threads, "off_centre") < 0.3);
  CHECK(run_example("gan", {"--workers", "2", "--batch-size", "32", "--epochs", "60"}) == threads);
}

TEST_CASE(
    "distillation: the student learns, with equal bits on threads, on workers, and after a "
    "checkpoint") {
  const std::string threads =
      run_example("distillation", {"--replicas", "2", "--batch-size", "64", "--epochs", "2"});
  CHECK(figure(threads, "teacher") > 0.93);
  CHECK(figure(threads, "student") > 0.85);
  CHECK(run_example("distillation", {"--workers", "2", "--batch-size", "32", "--epochs", "2",
                                     "--verbose", "0"}) == threads);
  const TemporaryFolder folder;
  std::vector<std::string> with_checkpoint{
      "--replicas", "2", "--batch-size", "64", "--checkpoint-dir", folder.path("student"),
      "--epochs",   "1"};
  CHECK(run_example("distillation", with_checkpoint) != threads);
  with_checkpoint.back() = "2";
  CHECK(run_example("distillation", with_checkpoint) == threads);
}
