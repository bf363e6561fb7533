// The llama example: a file in transformers' names, whose values are made so that the text counts.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/extra/text/byte_pair_encoding.hpp"
#include "support/example_runs.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

ls::SavedArray array(const std::string& name, std::vector<std::size_t> extents,
                     const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {.name = name + ".weight",
          .extents = std::move(extents),
          .bytes = {bytes.begin(), bytes.end()}};
}

/// Projections are zero, so that the embedding of the last token alone decides. Ids 1, 2, and 3 are
/// unlike, each other id is zero: of these the most probable next token is the same again.
std::vector<std::byte> weights() {
  constexpr std::size_t vocabulary = 32'000, width = 288, hidden = 768;
  std::vector<float> embeddings(vocabulary * width);
  for (std::size_t id = 1; id < 4; ++id) embeddings[id * width + id] = 1;
  std::vector<ls::SavedArray> arrays{array("model.embed_tokens", {vocabulary, width}, embeddings),
                                     array("model.norm", {width}, std::vector<float>(width, 1))};
  for (std::size_t i = 0; i < 6; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    const auto zeros = [&](const std::string& name, std::size_t units, std::size_t inputs) {
      arrays.push_back(array(layer + name, {units, inputs}, std::vector<float>(units * inputs)));
    };
    for (const char* const name : {".input_layernorm", ".post_attention_layernorm"})
      arrays.push_back(array(layer + name, {width}, std::vector<float>(width, 1)));
    for (const char* const name : {"q", "k", "v", "o"})
      zeros(std::string(".self_attn.") + name + "_proj", width, width);
    zeros(".mlp.gate_proj", hidden, width);
    zeros(".mlp.up_proj", hidden, width);
    zeros(".mlp.down_proj", width, hidden);
  }
  return ls::encode_safetensors(arrays);
}

}  // namespace

TEST_CASE("llama: writes from transformers' file; what is missing is said") {
  const TemporaryFolder folder;
  const std::string file = folder.path("model.safetensors");
  ls::write_file_atomically(file, weights());
  const auto run = [&](std::vector<std::string> arguments) {
    return run_process(example_command("llama", arguments), {}, std::chrono::seconds(120));
  };
  const auto written =
      run({"--model-in", file, "--prompt", "1 3 2", "--temperature", "0", "--generate", "5"});
  CHECK(written.exit_code == 0);
  CHECK(contains(written.output, "2 2 2 2 2 \nfinal: tokens=5 per_second="));
  const auto tokenizer = ls::BytePairEncoding::train({"a text"}, {});
  tokenizer.save(folder.path("tokenizer.json"));
  const std::uint32_t id = 2;
  const std::string word = tokenizer.decode({&id, 1});
  const auto text = run({"--model-in", file, "--tokenizer", folder.path("tokenizer.json"),
                         "--prompt", word, "--temperature", "0", "--generate", "3"});
  CHECK(contains(text.output, word + word + word + "\nfinal: tokens=3 per_second="));
  CHECK(contains(run({"--model-in", file, "--prompt", ""}).output, "the prompt has no tokens"));
  CHECK(contains(run({"--model-in", file, "--prompt", "32000"}).output, "not in the vocabulary"));
  CHECK(run({"--model-in", folder.path("none.safetensors"), "--prompt", "1"}).exit_code != 0);
  CHECK(contains(run({"--help"}).output, "usage: llama"));
}
