// How fast a language model writes: the prompt, tokens a second with Generator's cache, and without
// it (a forward pass of the whole sequence for each token). Prints a Markdown table. One thread,
// but for the column of two texts, whose speeds are added.
//
// benchmark_generation FOLDER [new tokens (default: 200)] [runs (default: 3)]
//
// FOLDER has the weights that peers/generation.py makes, in transformers' names, and the prompt.
// The logits of each position of the prompt are left there, and the tokens that are written
// greedily; peers/generation.py compares them. See generation.sh.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../examples/llama.hpp"
#include "lockstep/kernels/instruction_set.hpp"
#include "lockstep/saving/generator.hpp"
#include "lockstep/saving/predictor.hpp"

namespace {

namespace ls = lockstep;
using Clock = std::chrono::steady_clock;

/// 15,191,712 parameters: the sizes of stories15M.
struct Stories {
  static constexpr std::string_view name = "llama";
  using Model = examples::Llama<32'000, 288, 768, 6, 6, 6, 256>;
};
/// As large as ../examples/gpt.cpp, over characters.
struct Characters {
  static constexpr std::string_view name = "characters";
  using Model = examples::Llama<65, 128, 344, 4, 4, 4, 256>;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <class T>
void write_values(const std::string& path, std::span<const T> values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
}

template <class Subject>
void measure(const std::string& folder, std::size_t count, int runs) {
  using Net = typename Subject::Model::Net;
  constexpr std::size_t vocabulary = ls::Generator<Net>::vocabulary, positions = 256;
  const std::string path = folder + "/" + std::string(Subject::name);
  const ls::LoadWeightsOptions options = Subject::Model::file_of_transformers();
  const ls::Generator<Net> generator(path + ".safetensors", options);
  const ls::Predictor<Net> predictor(path + ".safetensors", options);
  std::vector<std::uint32_t> prompt;
  std::ifstream ids(path + ".ids");
  for (std::uint32_t id = 0; ids >> id;) prompt.push_back(id);

  std::vector<float> all;
  auto text = generator.text();
  for (const std::uint32_t& id : prompt) {
    const auto logits = text.append({&id, 1});
    all.insert(all.end(), logits.begin(), logits.end());
  }
  write_values<float>(path + ".logits", all);
  const std::vector<std::uint32_t> written = generator.generate(prompt, {.max_new_tokens = count});
  write_values<std::uint32_t>(path + ".tokens", written);

  const auto speed = [&] {  // from the first new token on
    Clock::time_point first;
    std::size_t seen = 0;
    generator.generate(prompt, {.max_new_tokens = count, .on_token = [&](auto, auto) {
                                  if (seen++ == 0) first = Clock::now();
                                  return true;
                                }});
    return static_cast<double>(count - 1) / seconds_since(first);
  };
  std::vector<double> reads, tokens, pairs, batches, passes;
  for (int run = 0; run < runs; ++run) {
    auto begin = Clock::now();
    text.clear();
    text.append(prompt);
    reads.push_back(1e3 * seconds_since(begin));

    tokens.push_back(speed());
    double of_other = 0;
    std::thread other([&] { of_other = speed(); });
    const double of_this = speed();
    other.join();
    pairs.push_back(of_this + of_other);

    const std::vector<std::vector<std::uint32_t>> prompts(16, prompt);
    Clock::time_point first;
    std::size_t seen = 0;
    generator.generate(prompts, {.max_new_tokens = count / 4, .on_token = [&](auto, auto) {
                                   if (seen++ == 0) first = Clock::now();
                                   return true;
                                 }});
    batches.push_back(static_cast<double>(16 * (count / 4 - 1)) / seconds_since(first));

    std::vector<float> x(positions), y(positions * vocabulary);
    std::copy(prompt.begin(), prompt.end(), x.begin());
    begin = Clock::now();
    constexpr std::size_t few = 8;
    for (std::size_t t = prompt.size(); t < prompt.size() + few; ++t) {
      predictor.predict_row(x, y);
      const auto logits = std::span(y).subspan((t - 1) * vocabulary, vocabulary);
      x[t] = static_cast<float>(std::ranges::max_element(logits) - logits.begin());
    }
    passes.push_back(static_cast<double>(few) / seconds_since(begin));
  }
  const auto median = [](std::vector<double>& values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  std::printf("| %s | %.2f | %.0f | %.0f | %.0f | %.1f |\n", std::string(Subject::name).c_str(),
              median(reads), median(tokens), median(pairs), median(batches), median(passes));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: benchmark_generation FOLDER [new tokens] [runs]\n");
    return 2;
  }
  const std::size_t count = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 200;
  const int runs = argc > 3 ? std::atoi(argv[3]) : 3;
  std::printf("instruction set: %s\n",
              std::string(ls::to_string(ls::kernels::instruction_set())).c_str());
  std::printf(
      "| model | prompt, ms | tokens/s | of 2 texts on 2 threads | of 16 texts at once | without "
      "the cache |\n");
  std::printf("|---|---|---|---|---|---|\n");
  measure<Characters>(argv[1], count, runs);
  measure<Stories>(argv[1], count, runs);
}
