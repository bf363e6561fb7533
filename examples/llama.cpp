// Writes with a Llama of 15 million parameters, whose weights are a file of transformers.
// `llama --help` lists the options.
#include "llama.hpp"

#include <lockstep/extra/text.hpp>
#include <lockstep/lockstep.hpp>
#include <lockstep/saving/generator.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

// The sizes of stories15M. Another model is another line: they stand in its config.json.
using Llama = examples::Llama<32'000, 288, 768, 6, 6, 6, 256>;
static_assert(Llama::Net::parameter_count == 15'191'712);

constexpr std::string_view usage = R"(usage: llama --model-in FILE --prompt TEXT [options]
  --model-in FILE      transformers' model.safetensors, of these sizes: 32,000 ids, 6 layers of 288,
                       6 heads, 768 between, embeddings tied, no longer than 256 tokens
  --tokenizer FILE     its tokenizer.json, of a byte-level BPE; without it the prompt is numbers
                       ("1 22 333"), and so is what is written
  --prompt TEXT        how the text begins
  --generate N         tokens to write (default: as many as there is room for)
  --temperature T      0: always the most probable token (default 0.8)
  --top-k K            of the K most probable ones (default 0: all)
  --top-p P            of the fewest that have so much of the probability (default 0.95)
  --seed N             (default 0)
)";

struct Options {
  std::string model_in, tokenizer, prompt;
  double temperature = 0.8, top_p = 0.95;
  ls::GenerateOptions generate;
};

void write(const Options& options) {
  const ls::Generator<Llama::Net> llama(options.model_in, Llama::file_of_transformers());
  std::optional<ls::BytePairEncoding> tokenizer;
  std::vector<std::uint32_t> prompt;
  if (!options.tokenizer.empty()) {
    tokenizer.emplace(options.tokenizer);
    prompt = tokenizer->encode(options.prompt);
  } else {
    std::istringstream numbers(options.prompt);
    for (std::uint32_t id = 0; numbers >> id;) prompt.push_back(id);
  }
  ls::GenerateOptions generate = options.generate;
  generate.temperature = options.temperature;
  if (options.temperature > 0) generate.top_p = options.top_p;
  generate.on_token = [&](std::uint32_t token, std::size_t) {
    const std::string text =
        tokenizer ? tokenizer->decode({&token, 1}) : std::to_string(token) + ' ';
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    return true;
  };
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t written = llama.generate(prompt, generate).size();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("\nfinal: tokens=%zu per_second=%.1f\n", written,
              static_cast<double>(written) / seconds.count());
}

}  // namespace

int main(int argc, char** argv) {
  examples::CommandLine line("llama");
  Options options;
  line.text("--model-in", options.model_in);
  line.text("--tokenizer", options.tokenizer);
  line.text("--prompt", options.prompt);
  line.number<std::size_t>("--generate", 1, 256, options.generate.max_new_tokens);
  line.number("--temperature", 0.0, 1e6, options.temperature);
  line.number<std::size_t>("--top-k", 0, 32'000, options.generate.top_k);
  line.number("--top-p", 1e-9, 1.0, options.top_p);
  line.number<std::uint64_t>("--seed", 0, ~std::uint64_t{0}, options.generate.seed);
  return examples::run(argc, argv, line, std::string(usage), [&] { write(options); });
}
