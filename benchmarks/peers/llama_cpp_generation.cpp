// llama.cpp beside ../generation.cpp, with the same weights in float32 and the same loop:
//
// llama_cpp_generation FOLDER THREADS [new tokens (default: 200)] [runs (default: 3)]
//
// FOLDER has what generation.py makes, with --gguf, and benchmark_generation leaves. Prints how far
// the logits are from lockstep's, whether both write the same tokens greedily, and tokens a second:
// with a cache of float32, as lockstep's is, and with llama.cpp's default of float16. setup.sh
// builds it beside a checkout of llama.cpp.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "llama.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "llama_cpp_generation: %s\n", what.c_str());
  std::exit(1);
}

template <class T>
std::vector<T> values_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) fail("'" + path + "' is empty, or is not there");
  std::vector<T> values(bytes.size() / sizeof(T));
  std::copy_n(bytes.data(), values.size() * sizeof(T), reinterpret_cast<char*>(values.data()));
  return values;
}

class Text {
 public:
  Text(llama_model* model, int threads, ggml_type cache) {
    llama_context_params options = llama_context_default_params();
    options.n_ctx = options.n_batch = options.n_ubatch = 256;
    options.n_threads = options.n_threads_batch = threads;
    options.type_k = options.type_v = cache;
    context_ = llama_init_from_model(model, options);
    if (context_ == nullptr) fail("llama.cpp makes no context");
    size_ = llama_vocab_n_tokens(llama_model_get_vocab(model));
  }
  Text(const Text&) = delete;
  ~Text() { llama_free(context_); }

  /// The logits after the last of these tokens.
  const float* append(llama_token* tokens, std::size_t count) {
    if (llama_decode(context_, llama_batch_get_one(tokens, static_cast<int>(count))) != 0)
      fail("llama_decode failed");
    return llama_get_logits_ith(context_, -1);
  }
  llama_token best(const float* logits) const {
    return static_cast<llama_token>(std::max_element(logits, logits + size_) - logits);
  }
  void clear() { llama_kv_cache_clear(context_); }
  std::size_t vocabulary() const { return static_cast<std::size_t>(size_); }

 private:
  llama_context* context_;
  int size_;
};

void compare(const std::string& path, Text& text, std::vector<llama_token> prompt) {
  const std::vector<float> ours = values_of<float>(path + ".logits");
  float largest = 0, difference = 0;
  for (std::size_t t = 0; t < prompt.size(); ++t) {
    const float* const theirs = text.append(&prompt[t], 1);
    for (std::size_t id = 0; id < text.vocabulary(); ++id) {
      largest = std::max(largest, std::abs(theirs[id]));
      difference = std::max(difference, std::abs(theirs[id] - ours[t * text.vocabulary() + id]));
    }
  }
  std::printf("logits up to %.2f differ by at most %.1e; ", static_cast<double>(largest),
              static_cast<double>(difference));
}

void measure(const std::string& path, int threads, std::size_t count, int runs) {
  llama_model* const model =
      llama_model_load_from_file((path + ".gguf").c_str(), llama_model_default_params());
  if (model == nullptr) fail("llama.cpp cannot load '" + path + ".gguf'");
  std::vector<llama_token> prompt;
  std::ifstream ids(path + ".ids");
  for (llama_token id = 0; ids >> id;) prompt.push_back(id);

  std::printf("%s: ", path.substr(path.rfind('/') + 1).c_str());
  for (const ggml_type cache : {GGML_TYPE_F32, GGML_TYPE_F16}) {
    Text text(model, threads, cache);
    if (cache == GGML_TYPE_F32) compare(path, text, prompt);
    std::vector<double> reads, speeds;
    std::vector<llama_token> written;
    for (int run = 0; run < runs; ++run) {
      written.clear();
      text.clear();
      Clock::time_point begin = Clock::now();
      const float* logits = text.append(prompt.data(), prompt.size());
      reads.push_back(1e3 * seconds_since(begin));
      written.push_back(text.best(logits));
      begin = Clock::now();
      while (written.size() < count) {
        llama_token last = written.back();
        written.push_back(text.best(text.append(&last, 1)));
      }
      speeds.push_back(static_cast<double>(count - 1) / seconds_since(begin));
    }
    std::ranges::sort(reads);
    std::ranges::sort(speeds);
    if (cache == GGML_TYPE_F32) {
      const auto ours = values_of<llama_token>(path + ".tokens");
      const std::size_t all = std::min(ours.size(), written.size());
      std::printf("%td of %zu tokens are equal, up to the first that is not\n",
                  std::mismatch(ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(all),
                                written.begin())
                          .first -
                      ours.begin(),
                  all);
    }
    std::printf("%s tokens/s with a cache of %s; prompt %.2f ms\n",
                std::to_string(std::lround(speeds[speeds.size() / 2])).c_str(),
                ggml_type_name(cache), reads[reads.size() / 2]);
  }
  llama_model_free(model);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: llama_cpp_generation FOLDER THREADS [new tokens] [runs]\n");
    return 2;
  }
  llama_log_set(
      [](ggml_log_level level, const char* message, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(message, stderr);
      },
      nullptr);
  const std::size_t count = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 200;
  const int runs = argc > 4 ? std::atoi(argv[4]) : 3;
  for (const char* const name : {"characters", "llama"})
    measure(std::string(argv[1]) + "/" + name, std::atoi(argv[2]), count, runs);
}
