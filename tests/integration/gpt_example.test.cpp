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
#include "support/python.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;

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
  REQUIRE(std::sscanf(finished.output.c_str() + begin,
                      "final: loss=%lf val_loss=%lf parameters_crc32c=%15s", &f.loss, &f.val_loss,
                      crc) == 3);
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
  const Final trained =
      final_of(text.run({"--iterations", "40", "--batch-size", "4", "--model-out", weights}));
  CHECK(trained.val_loss < 2.5);  // ln 17 = 2.8 is no knowledge at all
  const Finished written =
      text.run({"--iterations", "0", "--model-in", weights, "--generate", "70"});
  CHECK(final_of(written).crc == trained.crc);
  CHECK(final_of(written).val_loss ==
        doctest::Approx(trained.val_loss).epsilon(1e-4));  // another size of batch
  CHECK(written.output.find('\n') >= 71);                  // one character to begin with, and 70
}

TEST_CASE("gpt: two workers and two replicas hold equal bits, and one rank the same loss") {
  const Text text;
  const Final workers =
      final_of(text.run({"--iterations", "3", "--workers", "2", "--batch-size", "3"}));
  const Final replicas =
      final_of(text.run({"--iterations", "3", "--replicas", "2", "--batch-size", "6"}));
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
      for (const auto& entry :
           std::filesystem::recursive_directory_iterator(text.path("backup"), none))
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
  const Finished of_folder = run_process({example("gpt"), "--text", folder.path()});
  CHECK(of_folder.exit_code == 2);
  CHECK(of_folder.output.find("'" + folder.path() + "' is a folder") != std::string::npos);
  const Finished without_effect = run_process({example("gpt"), "--save-freq", "7"});
  CHECK(without_effect.exit_code == 2);
  CHECK(without_effect.output ==
        "gpt: --save-freq has no effect without --backup-dir\nsee 'gpt --help'\n");
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 7'000; ++i) bytes.push_back(static_cast<std::uint8_t>(i % 66));
  const Finished many = run_process({example("gpt"), "--text", folder.write("text.txt", bytes)});
  CHECK(many.exit_code == 2);
  CHECK(many.output.find("66 different bytes") != std::string::npos);
}

namespace {

/// Arguments: a text, weights of gpt, another file. Prints the loss over the last tenth of the
/// text, writes the weights times 0.9 to the other file, and prints their loss.
constexpr const char* in_pytorch = R"(
import json, struct, sys
import torch
import torch.nn.functional as F

text = open(sys.argv[1], "rb").read()
ids = torch.tensor([sorted(set(text)).index(c) for c in text])
file = open(sys.argv[2], "rb").read()
size = struct.unpack("<Q", file[:8])[0]
header, data = json.loads(file[8 : 8 + size]), bytearray(file[8 + size :])
values = torch.frombuffer(data, dtype=torch.float32)
width, heads, block = 128, 4, 64

def weight(name, *shape):
    begin, end = header["tied_head/" + name]["data_offsets"]
    return values[begin // 4 : end // 4].reshape(shape)

def norm(x, name):
    return F.layer_norm(x, (width,), weight(name + "/gamma", width), None, 1e-5)

def attention(x, name):
    q, k, v = (x @ weight(f"{name}/{part}/kernel", width, width) for part in ("query", "key", "value"))
    q, k, v = (part.view(-1, block, heads, width // heads).transpose(1, 2) for part in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(-1, block, width)
    return y @ weight(name + "/attention_output/kernel", width, width)

def loss():
    table = weight("embedding/embeddings", 65, width)
    held_back = ids[len(ids) * 9 // 10 :]
    count = (len(held_back) - 1) // block * block
    x = table[held_back[:count].view(-1, block)] + weight("position_embedding/embeddings", block, width)
    for layer in ("", "_1", "_2", "_3"):
        one, two = (f"repeat/sequential{layer}/residual{part}" for part in ("", "_1"))
        x = x + attention(norm(x, one + "/layer_normalization"), one + "/multi_head_attention")
        y = F.gelu(norm(x, two + "/layer_normalization") @ weight(two + "/dense/kernel", width, 4 * width))
        x = x + y @ weight(two + "/dense_1/kernel", 4 * width, width)
    return F.cross_entropy((norm(x, "layer_normalization") @ table.T).flatten(0, 1), held_back[1 : count + 1]).item()

print(loss())
values *= 0.9
open(sys.argv[3], "wb").write(file[: 8 + size] + data)
print(loss())
)";

}  // namespace

TEST_SUITE("gpt in PyTorch [needs python]") {
  TEST_CASE(
      "gpt: PyTorch has the same loss with the weights that gpt writes, and gpt with PyTorch's") {
    if (!has_python_modules("gpt in PyTorch", "torch")) return;
    const Text text;
    const std::string ours = text.path("ours.safetensors"),
                      theirs = text.path("theirs.safetensors");
    const Final trained =
        final_of(text.run({"--iterations", "30", "--batch-size", "4", "--model-out", ours}));
    const Finished python = run_python(in_pytorch, {text.path("text.txt"), ours, theirs});
    REQUIRE_MESSAGE(python.exit_code == 0, python.output);
    double loss = 0, other_loss = 0;
    REQUIRE(std::sscanf(python.output.c_str(), "%lf %lf", &loss, &other_loss) == 2);
    CHECK(trained.val_loss == doctest::Approx(loss).epsilon(1e-5));
    const Final other = final_of(text.run({"--iterations", "0", "--model-in", theirs}));
    CHECK(other.val_loss == doctest::Approx(other_loss).epsilon(1e-5));
    CHECK(std::abs(other.val_loss - trained.val_loss) > 1e-3);
  }
}
