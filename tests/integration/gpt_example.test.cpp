// The character model as a user runs it.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep::testing;

namespace {

struct Final {
  double loss = NAN;
  double val_loss = NAN;
  std::string crc;
};

Final final_of(const Finished& finished) {
  REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
  const std::size_t begin = finished.output.rfind("final: ");
  REQUIRE_MESSAGE(begin != std::string::npos, finished.output);
  Final f;
  char crc[16] = {};
  REQUIRE(std::sscanf(finished.output.c_str() + begin, "final: loss=%lf val_loss=%lf parameters_crc32c=%15s", &f.loss,
                      &f.val_loss, crc) == 3);
  f.crc = crc;
  return f;
}

/// A text with something to learn, and the command that learns it.
class Text {
 public:
  Text() {
    std::vector<std::uint8_t> bytes;
    for (std::uint32_t i = 0, state = 1; bytes.size() < 8'000; ++i) {
      state = state * 1664525u + 1013904223u;
      for (const char c : std::string(state >> 31 != 0 ? "the cat sat. " : "a dog ran! "))
        bytes.push_back(static_cast<std::uint8_t>(c));
    }
    path_ = folder_.write("text.txt", bytes);
  }
  std::vector<std::string> command(std::vector<std::string> more) const {
    std::vector<std::string> all{example("gpt"), "--text", path_, "--verbose", "0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Finished run(std::vector<std::string> more) const {
    return run_process(command(std::move(more)), {}, std::chrono::seconds(240));
  }
  std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  lockstep_test::TemporaryFolder folder_;
  std::string path_;
};

}  // namespace

TEST_CASE("gpt: learns, saves, and goes on writing from its weights") {
  const Text text;
  const std::string weights = text.path("weights.safetensors");
  const Final trained = final_of(text.run({"--iterations", "40", "--batch-size", "4", "--model-out", weights}));
  CHECK(trained.val_loss < 2.5);  // ln 17 = 2.8 is no knowledge at all
  const Finished written = text.run({"--iterations", "0", "--model-in", weights, "--generate", "70"});
  CHECK(final_of(written).crc == trained.crc);
  CHECK(final_of(written).val_loss == doctest::Approx(trained.val_loss).epsilon(1e-4));  // another size of batch
  CHECK(written.output.find('\n') >= 71);  // one character to begin with, and 70
}

TEST_CASE("gpt: two workers and two replicas hold equal bits, and one rank the same loss") {
  const Text text;
  const Final workers = final_of(text.run({"--iterations", "3", "--workers", "2", "--batch-size", "3"}));
  const Final replicas = final_of(text.run({"--iterations", "3", "--replicas", "2", "--batch-size", "6"}));
  const Final alone = final_of(text.run({"--iterations", "3", "--batch-size", "6"}));
  CHECK(workers.crc == replicas.crc);
  CHECK(workers.val_loss == replicas.val_loss);
  CHECK(alone.val_loss == doctest::Approx(workers.val_loss).epsilon(1e-5));
}

TEST_CASE("gpt: killed and started again, the bits are those of one run") {
  const Text text;
  const std::vector<std::string> arguments{"--iterations", "60", "--batch-size", "2"};
  const Final whole = final_of(text.run(arguments));
  std::vector<std::string> saving = arguments;
  saving.insert(saving.end(), {"--backup-dir", text.path("backup"), "--save-freq", "7"});
  {
    Process killed(text.command(saving));
    const auto has_saved = [&] {
      std::error_code none;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(text.path("backup"), none))
        if (entry.is_regular_file(none)) return true;
      return false;
    };
    for (int i = 0; i < 1'200 && !has_saved(); ++i) ::usleep(50'000);
    CHECK(has_saved());
    killed.signal(SIGKILL);
    killed.wait(std::chrono::seconds(60));
  }
  CHECK(final_of(text.run(saving)).crc == whole.crc);
}

TEST_CASE("gpt: a wrong option, a text that is not there, one with too many different bytes") {
  CHECK(run_process({example("gpt"), "--iterations", "-1"}).exit_code == 2);
  const Finished without = run_process({example("gpt")});
  CHECK(without.exit_code == 2);
  CHECK(without.output.find("--text") != std::string::npos);
  const lockstep_test::TemporaryFolder folder;
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 7'000; ++i) bytes.push_back(static_cast<std::uint8_t>(i % 66));
  const Finished many = run_process({example("gpt"), "--text", folder.write("text.txt", bytes)});
  CHECK(many.exit_code == 2);
  CHECK(many.output.find("66 different bytes") != std::string::npos);
}
