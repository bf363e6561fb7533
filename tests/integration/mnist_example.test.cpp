// The example as a user runs it: real processes, real sockets, real exit codes.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/kernels/instruction_set.hpp"
#include "support/mnist_dir.hpp"
#include "support/process.hpp"
#include "support/sanitizer.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;

namespace {

struct Final {
  double loss = NAN;
  double accuracy = NAN;
  double val_accuracy = NAN;
  std::string crc;
};

/// The figures of the last "final:" line.
Final final_of(const std::string& output) {
  const std::size_t begin = output.rfind("final: ");
  REQUIRE_MESSAGE(begin != std::string::npos, output);
  Final f;
  char crc[16] = {};
  REQUIRE(std::sscanf(output.c_str() + begin,
                      "final: loss=%lf accuracy=%lf val_accuracy=%lf parameters_crc32c=%15s",
                      &f.loss, &f.accuracy, &f.val_accuracy, crc) == 4);
  f.crc = crc;
  return f;
}

Finished mnist(std::vector<std::string> arguments, const Environment& environment = {},
               std::chrono::seconds limit = std::chrono::seconds(240)) {
  arguments.insert(arguments.begin(), example("mnist"));
  return run_process(arguments, environment, limit);
}

/// A short run; `arguments` are added to it.
Final short_run(std::vector<std::string> arguments) {
  for (const char* more :
       {"--epochs", "1", "--steps-per-epoch", "6", "--verbose", "0", "--momentum", "0.9"})
    arguments.emplace_back(more);
  const Finished finished = mnist(std::move(arguments));
  REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
  return final_of(finished.output);
}

}  // namespace

TEST_CASE("mnist: threads and TCP workers with the same number of ranks hold equal bits") {
  for (const char* ranks : {"2", "3"}) {
    CAPTURE(ranks);
    // 96 samples in a global batch, whatever the number of workers.
    const char* per_worker = ranks[0] == '2' ? "48" : "32";
    const Final tcp = short_run({"--workers", ranks, "--batch-size", per_worker});
    const Final threads = short_run({"--replicas", ranks, "--batch-size", "96"});
    CHECK(tcp.crc == threads.crc);
    CHECK(tcp.loss == threads.loss);
    CHECK(tcp.val_accuracy == threads.val_accuracy);
  }
}

TEST_CASE("mnist: three epochs of two workers end with the known figures and bits") {
  const Finished finished = mnist({"--workers", "2", "--epochs", "3", "--steps-per-epoch", "70"});
  REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
  const Final final = final_of(finished.output);
  CHECK(final.loss == doctest::Approx(2.115340).epsilon(1e-4));
  CHECK(final.accuracy == doctest::Approx(0.5860).epsilon(0.01));
  CHECK(final.val_accuracy == doctest::Approx(0.6600).epsilon(0.01));
  // The bits are those of one build on one instruction set.
#if defined(NDEBUG) && __GNUC__ == 12 && !defined(__clang__) && !defined(LOCKSTEP_TEST_SANITIZED)
  if (lockstep::kernels::supported_instruction_set() >= lockstep::InstructionSet::avx512)
    CHECK(final.crc == "e9b66615");
  if (lockstep::kernels::supported_instruction_set() == lockstep::InstructionSet::avx2)
    CHECK(final.crc == "a0c03cbc");
#endif
}

TEST_CASE("mnist: two runs with one seed hold equal bits, two seeds do not") {
  const Final first = short_run({"--workers", "2", "--seed", "3"});
  const Final again = short_run({"--workers", "2", "--seed", "3"});
  const Final other = short_run({"--workers", "2", "--seed", "4"});
  CHECK(first.crc == again.crc);
  CHECK(first.crc != other.crc);
}

TEST_CASE("mnist: one, two and three workers see the same losses at the same global batch") {
  const Final one = short_run({"--batch-size", "96"});
  CHECK(short_run({"--workers", "2", "--batch-size", "48"}).loss ==
        doctest::Approx(one.loss).epsilon(1e-5));
  CHECK(short_run({"--workers", "3", "--batch-size", "32"}).loss ==
        doctest::Approx(one.loss).epsilon(1e-5));
  // Two levels: two workers of two threads each.
  CHECK(short_run({"--workers", "2", "--replicas", "2", "--batch-size", "48"}).loss ==
        doctest::Approx(one.loss).epsilon(1e-5));
}

TEST_CASE(
    "mnist: a wrong option or value, one without effect, and a model's file of a format that is "
    "not "
    "written are told in two lines, exit code 2") {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--epocs", "3"},
                                             {"--epochs"},
                                             {"--epochs", "0"},
                                             {"--epochs", "three"},
                                             {"--workers", "0"},
                                             {"--batch-size", "-1"},
                                             {"--optimizer", "lbfgs"},
                                             {"--momentum", "2"},
                                             {"--learning-rate", "nan"},
                                             {"--verbose", "3"},
                                             {"--restarts", "3"},
                                             {"--save-freq", "2"},
                                             {"--on-peer-loss", "rejoin"},
                                             {"--elastic-wait", "3"},
                                             {"--global-batch", "fixed"},
                                             {"--momentum", "0.9", "--optimizer", "adam"},
                                             {"--model-out", "m.weights.h5"},
                                             {"--model-out", "m.keras"},
                                             {"--model-out", "m.pt"},
                                             {"--model-out", "m.onnx"}}) {
    CAPTURE(arguments[0]);
    const Finished finished = mnist(arguments);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 2);
    CHECK(finished.output.find("mnist: ") == 0);
    CHECK(finished.output.find(arguments[0]) != std::string::npos);
    CHECK(finished.output.ends_with("\nsee 'mnist --help'\n"));
    CHECK(std::count(finished.output.begin(), finished.output.end(), '\n') == 2);
  }
  const Finished help = mnist({"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.output.find("--steps-per-epoch") != std::string::npos);
}

TEST_CASE("mnist: data that are not there are one error, exit code 1, also under the launcher") {
  const Finished alone = mnist({"--data", "/nonexistent"});
  CHECK(alone.exit_code == 1);
  CHECK(alone.output.find("/nonexistent") != std::string::npos);
  const Finished launched = mnist({"--data", "/nonexistent", "--workers", "2"});
  CHECK(launched.exit_code == 1);
}

TEST_CASE("mnist: --profile prints a table, and each worker writes a trace") {
  const lockstep_test::TemporaryFolder folder;
  const Finished finished = mnist({"--workers", "2", "--epochs", "1", "--steps-per-epoch", "3",
                                   "--verbose", "0", "--profile", folder.path() + "/trace.json"});
  CHECK(finished.exit_code == 0);
  CHECK(finished.output.find("profile of epoch 1: 3 steps") != std::string::npos);
  CHECK(std::filesystem::file_size(folder.path() + "/trace.json") > 1000);
  CHECK(std::filesystem::file_size(folder.path() + "/trace.worker1.json") > 1000);
  CHECK(mnist({"--epochs", "1", "--profile", "/dev/null/trace.json"}).exit_code == 1);
}

TEST_CASE(
    "mnist: a saved model goes on where it was, by every kind of file, alone and with workers") {
  const lockstep_test::TemporaryFolder folder;
  const std::vector<std::string> shape = {"--optimizer",       "adam", "--epochs",  "1",
                                          "--steps-per-epoch", "2",    "--verbose", "0"};
  const auto trained = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), shape.begin(), shape.end());
    const Finished finished = mnist(arguments);
    REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
    return final_of(finished.output);
  };
  std::vector<Final> resumed;
  for (const char* name : {"model", "model.npz", "model.safetensors"}) {
    CAPTURE(name);
    const std::string path = folder.path(name);
    const Final first = trained({"--workers", "2", "--model-out", path});
    const Final alone = trained({"--batch-size", "128", "--replicas", "2", "--model-in", path});
    const Final workers = trained({"--workers", "2", "--model-in", path});
    CHECK(alone.crc == workers.crc);
    CHECK(alone.crc != first.crc);
    resumed.push_back(workers);
  }
  CHECK(resumed[1].crc == resumed[2].crc);
  CHECK(resumed[0].crc != resumed[1].crc);  // with Adam's moments and without
  CHECK(mnist({"--model-in", folder.path("none")}).exit_code == 1);
}

TEST_CASE("mnist: checkpoints are kept, and the newest is restored") {
  const lockstep_test::TemporaryFolder folder;
  const std::vector<std::string> run = {"--workers",         "2",
                                        "--epochs",          "2",
                                        "--verbose",         "0",
                                        "--steps-per-epoch", "1",
                                        "--checkpoint-dir",  folder.path("run")};
  const Finished first = mnist(run), second = mnist(run);
  REQUIRE_MESSAGE(second.exit_code == 0, second.output);
  CHECK(first.output.find("restored") == std::string::npos);
  CHECK(second.output.find("restored '" + folder.path("run/ckpt-2") + "'") != std::string::npos);
  CHECK(final_of(first.output).crc != final_of(second.output).crc);
  for (const char* name : {"ckpt-2", "ckpt-3", "ckpt-4"})
    CHECK(std::filesystem::exists(folder.path("run") + "/" + name));
  CHECK_FALSE(std::filesystem::exists(folder.path("run/ckpt-1")));
}

TEST_CASE("mnist: a bad TF_CONFIG is a configuration error, never a silent local run") {
  for (const char* config :
       {"{", R"({"cluster": {"worker": ["localhost:1"]}})",
        R"({"cluster": {"worker": "localhost:1"}, "task": {"type": "worker", "index": 0}})"}) {
    CAPTURE(config);
    const Finished finished =
        mnist({"--epochs", "1", "--steps-per-epoch", "1"}, {{"TF_CONFIG", config}});
    CHECK(finished.exit_code == 2);
    CHECK(finished.output.find("TF_CONFIG") != std::string::npos);
  }
}

TEST_CASE("mnist: a killed worker ends the whole run with exit code 138, and leaves no process") {
  Process launched({example("mnist"), "--workers", "2", "--epochs", "1000", "--verbose", "0"});
  // The launcher's children are its only children.
  const std::string children = "/proc/" + std::to_string(launched.pid()) + "/task/" +
                               std::to_string(launched.pid()) + "/children";
  pid_t victim = 0;
  for (int i = 0; i < 200 && victim == 0; ++i) {
    ::usleep(50'000);
    if (std::FILE* file = std::fopen(children.c_str(), "r")) {
      int first = 0, second = 0;
      if (std::fscanf(file, "%d %d", &first, &second) == 2) victim = second;
      std::fclose(file);
    }
  }
  REQUIRE(victim != 0);
  ::usleep(1'500'000);  // into the training
  ::kill(victim, SIGKILL);
  const Finished finished = launched.wait(std::chrono::seconds(60));
  CHECK_FALSE(finished.timed_out);
  CHECK_MESSAGE(finished.exit_code >= 128, finished.output);
  CHECK(finished.output.find("killed") != std::string::npos);
}

TEST_SUITE("mnist on real digits [full] [needs mnist]") {
  TEST_CASE("the tutorial's run lands where the tutorial's printed logs and PyTorch land") {
    const auto data = mnist_dir();
    if (!data) return skip_without_mnist("the tutorial's run on MNIST");
    for (const char* workers : {"1", "2"}) {
      CAPTURE(workers);
      const Finished finished =
          mnist({"--data", data->string(), "--workers", workers, "--verbose", "0"});
      REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
      const Final f = final_of(finished.output);
      CHECK(f.loss > 2.05);
      CHECK(f.loss < 2.22);
      CHECK(f.accuracy > 0.42);
      CHECK(f.accuracy < 0.66);
      CHECK(finished.peak_megabytes < 60);
    }
  }

  TEST_CASE("with momentum the CNN reaches 95.5 % on the test images, mean of five seeds") {
    const auto data = mnist_dir();
    if (!data) return skip_without_mnist("five epochs on MNIST");
    double sum = 0;
    for (const char* seed : {"1", "2", "3", "4", "5"}) {
      const Finished finished =
          mnist({"--data", data->string(), "--learning-rate", "0.02", "--momentum", "0.9",
                 "--epochs", "5", "--steps-per-epoch", "109", "--seed", seed, "--verbose", "0"});
      REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
      sum += final_of(finished.output).val_accuracy;
    }
    CHECK(sum / 5 >= 0.955);
  }
}

TEST_SUITE("mnist on drawn digits [full]") {
  TEST_CASE("the CNN passes 97 % on the embedded digits") {
    const Finished finished = mnist({"--learning-rate", "0.02", "--momentum", "0.9", "--epochs",
                                     "5", "--steps-per-epoch", "109", "--verbose", "0"});
    REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
    CHECK(final_of(finished.output).val_accuracy > 0.97);
  }
}
