// The example on a few drawn images in CIFAR-10's form.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/random.hpp"
#include "support/example_runs.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;

namespace {

/// Noise, brighter in one channel or another by label.
std::vector<std::uint8_t> images(int count, std::uint64_t seed) {
  lockstep::RandomStream random{lockstep::RandomKey(seed)};
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint8_t>(random.below(3));
    bytes.push_back(label);
    for (std::uint8_t channel = 0; channel < 3; ++channel)
      for (int pixel = 0; pixel < 1024; ++pixel)
        bytes.push_back(
            static_cast<std::uint8_t>(random.below(128) + (channel == label ? 100 : 0)));
  }
  return bytes;
}

/// The options of a short run, and others.
std::vector<std::string> short_run(const TemporaryFolder& folder,
                                   const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"--data", folder.path(),     "--epochs",
                                     "3",      "--learning-rate", "0.05"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("resnet: learns, with equal bits on threads, on workers, and after it was killed") {
  const TemporaryFolder folder;
  folder.write("train.bin", images(100, 1));
  folder.write("test_batch.bin", images(30, 2));
  const std::string threads =
      run_example("resnet", short_run(folder, {"--replicas", "2", "--batch-size", "32"}));
  CHECK(figure(threads, "accuracy") > 0.6);
  const std::string quiet_workers = run_example(
      "resnet", short_run(folder, {"--workers", "2", "--batch-size", "16", "--verbose", "0"}));
  CHECK(quiet_workers == threads);
  CHECK(kill_and_resume("resnet", short_run(folder, {"--replicas", "2", "--batch-size", "32"}),
                        folder.path("backup")) == threads);
}

TEST_CASE("resnet: without data it says what is missing") {
  const auto finished =
      lockstep_test::run_process(example_command("resnet", {"--data", "/nowhere"}));
  CHECK(finished.exit_code != 0);
  CHECK(finished.output.find("data_batch_1.bin") != std::string::npos);
}
