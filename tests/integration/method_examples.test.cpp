// The examples that show a method each: LoRA, an encoder with a decoder, a variational autoencoder,
// diffusion, reinforcement learning. Each learns, and workers have the bits of threads.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/example_runs.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;

namespace {

/// The last line of two replicas, and, as it must be, of two workers.
std::string learned(const std::string& name, const std::vector<std::string>& more) {
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--verbose", "0"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_example(name, arguments);
  };
  const std::string threads = run({"--replicas", "2", "--batch-size", "32"});
  CHECK(run({"--workers", "2", "--batch-size", "16"}) == threads);
  return threads;
}

}  // namespace

TEST_CASE("lora: a few factors learn another word order, and are merged") {
  const std::string final = learned("lora", {"--epochs", "2"});
  CHECK(figure(final, "before") > 0.9);
  CHECK(figure(final, "after") < 0.36);  // the sentences themselves have 0.31
  CHECK(figure(final, "merged") == doctest::Approx(figure(final, "after")).epsilon(0.001));
}

TEST_CASE("lora: the factors travel by a file, which is small") {
  const TemporaryFolder folder;
  const std::string file = folder.path("adapters.safetensors");
  const std::vector<std::string> options{"--epochs", "1", "--verbose", "0"};
  const auto run = [&](const std::string& option) {
    std::vector<std::string> arguments = options;
    arguments.insert(arguments.end(), {option, file});
    return run_example("lora", arguments);
  };
  const std::string trained = run("--adapters-out");
  CHECK(std::filesystem::file_size(file) < 40'000);  // the model has 480 kB
  CHECK(run("--adapters-in") == trained);
}

TEST_CASE("seq2seq: dates are written in one form, exactly") {
  CHECK(figure(learned("seq2seq", {"--epochs", "3"}), "exact") > 0.95);
}

TEST_CASE("vae: the loss falls, and the decoder draws digits of all kinds") {
  const std::string final = learned("vae", {"--epochs", "5"});
  CHECK(figure(final, "loss") < 0.85 * figure(final, "without"));
  CHECK(figure(final, "far") < 1.17);  // the mean of all digits has 1.26
  CHECK(figure(final, "missed") < 1.1);
}

TEST_CASE("diffusion: the digits are those that were asked for") {
  const std::string final = learned("diffusion", {"--epochs", "8"});
  CHECK(figure(final, "loss") < 0.7);         // 1.2 at first
  CHECK(figure(final, "recognised") > 0.75);  // by chance 0.1
}

TEST_CASE("reinforce: the pole stands") {
  CHECK(figure(learned("reinforce", {}), "mean_return") >= 475);
}
