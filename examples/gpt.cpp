// Trains a GPT on the characters of a text, and lets it write: nanoGPT's model and its settings for
// a CPU, whose tokens are characters (llama.cpp has a BytePairEncoding: `--tokenizer`). `gpt --help`
// lists the options.
#include <lockstep/lockstep.hpp>
#include <lockstep/saving/generator.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

constexpr std::size_t vocabulary = 65, block = 64, width = 128, heads = 4, layers = 4;

// GPT-2's initial values: the kernels before each sum with the residual stream are smaller.
constexpr ls::RandomNormal normal{.stddev = 0.02};
constexpr ls::RandomNormal residual{
    .stddev = 0.02 / (std::numbers::sqrt2 * 2)};  // 0.02 / sqrt(2 * layers)
static_assert(layers == 4);

using Norm =
    ls::LayerNormalization<ls::LayerNormalizationOptions{.epsilon = 1e-5, .center = false}>;
using Attention =
    ls::MultiHeadAttention<heads, width / heads,
                           ls::MultiHeadAttentionOptions{.use_bias = false,
                                                         .use_causal_mask = true,
                                                         .kernel_initializer = normal,
                                                         .output_kernel_initializer = residual}>;
using Expand = ls::Dense<4 * width, ls::GELU,
                         ls::DenseOptions{.use_bias = false, .kernel_initializer = normal}>;
using Contract = ls::Dense<width, ls::Linear,
                           ls::DenseOptions{.use_bias = false, .kernel_initializer = residual}>;
using Block = ls::Sequential<ls::Residual<Norm, Attention>, ls::Residual<Norm, Expand, Contract>>;
using Tokens =
    ls::Embedding<vocabulary, width, ls::EmbeddingOptions{.embeddings_initializer = normal}>;
using Positions = ls::PositionEmbedding<block, ls::PositionEmbeddingOptions{.initializer = normal}>;
using Gpt = ls::Sequential<ls::Input<block>,
                           ls::TiedHead<Tokens, Positions, ls::Repeat<layers, Block>, Norm>>;
static_assert(Gpt::parameter_count == 804'096);

constexpr std::string_view usage_of_gpt = R"(usage: gpt --text FILE [options]
  --text FILE          the text: at most 65 different bytes; its first nine tenths are learned, the
                       rest is for val_loss
  --iterations N       steps (default 2000; 0: none, with --model-in)
  --generate N         characters to write at the end (default 0)
  --diloco N           ranks communicate after rounds of N steps only (default 0: in every step)
)";
constexpr std::string_view last_line =
    "The last line is: final: loss=L val_loss=V parameters_crc32c=HEX\n";

struct Options : examples::TrainingOptions {
  std::string text;
  std::int64_t iterations = 2'000;
  std::size_t generate = 0;
  std::int64_t diloco = 0;
};

/// A text as numbers: each of its bytes has one, in the order of the bytes.
struct Text {
  std::vector<std::uint8_t> ids;
  std::string symbols;

  explicit Text(const std::string& path) {
    const auto refuse = [](const std::string& why) {
      throw ls::ConfigurationError("gpt: --text: expected a file with a text of at least " +
                                   std::to_string(100 * block) + " bytes; " + why);
    };
    if (path.empty()) refuse("none is given");
    std::error_code none;
    if (std::filesystem::is_directory(path, none)) refuse("'" + path + "' is a folder");
    std::ifstream file(path, std::ios::binary);
    if (!file) refuse("'" + path + "' cannot be opened");
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.size() < 100 * block) refuse("'" + path + "' has " + std::to_string(bytes.size()));
    symbols = bytes;
    std::ranges::sort(symbols, {}, [](char c) { return static_cast<unsigned char>(c); });
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    if (symbols.size() > vocabulary)
      throw ls::ConfigurationError("gpt: --text: '" + path + "' has " +
                                   std::to_string(symbols.size()) +
                                   " different bytes; the model has " + std::to_string(vocabulary));
    for (const char c : bytes) ids.push_back(static_cast<std::uint8_t>(symbols.find(c)));
  }
};

/// Samples are pieces of a text, each with the same piece one character later as target.
class Pieces {
 public:
  /// Piece i begins at `first_of(i)`.
  template <class First>
  Pieces(std::span<const std::uint8_t> ids, std::int64_t size, First first_of)
      : ids_(ids), size_(size), first_of_(first_of) {}

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::size_t sample_size() const { return block; }
  [[nodiscard]] std::size_t target_size() const { return block; }
  template <class T>
  void read(std::span<const std::int64_t> indices, ls::TensorView<T> x, ls::TensorView<T> y) const {
    for (std::size_t row = 0; row < indices.size(); ++row) {
      const std::uint8_t* const piece = ids_.data() + first_of_(indices[row]);
      for (std::size_t t = 0; t < block; ++t) {
        x(row, t) = static_cast<T>(piece[t]);
        if (!y.empty()) y(row, t) = static_cast<T>(piece[t + 1]);
      }
    }
  }

 private:
  std::span<const std::uint8_t> ids_;
  std::int64_t size_;
  std::function<std::size_t(std::int64_t)> first_of_;
};

/// Pieces from all over the text, chosen by the sample's number: their beginnings are a Weyl
/// sequence, from a random place on. So all parts of the text occur equally often; of as many
/// independent pieces as 2,000 iterations take, a fifth of tinyshakespeare would be in none.
Pieces pieces_all_over(std::span<const std::uint8_t> ids, std::int64_t count, std::uint64_t seed) {
  return {
      ids, count,
      [choices = ids.size() - block,
       first = ls::RandomStream(ls::RandomKey(seed)).uniform()](std::int64_t sample) {
        const double place = first + static_cast<double>(sample) * (std::numbers::phi - 1);
        return static_cast<std::size_t>((place - std::floor(place)) * static_cast<double>(choices));
      }};
}

/// All pieces side by side, or every `step`th of them.
Pieces pieces_in_order(std::span<const std::uint8_t> ids, std::int64_t step) {
  const auto count = static_cast<std::int64_t>((ids.size() - 1) / block);
  return {ids, (count + step - 1) / step,
          [step](std::int64_t sample) { return static_cast<std::size_t>(sample * step) * block; }};
}

/// Draws one character after the other. Each time the sequence is full, the text goes on from its
/// last half.
template <class Model>
std::string generate(const Model& model, const Text& text, std::size_t count, std::uint64_t seed) {
  const ls::Generator<Gpt> generator(model);
  std::vector<std::uint32_t> written{text.ids.front()};
  const auto tokens = generator.generate(
      written,
      {.max_new_tokens = count, .temperature = 1, .seed = seed, .keep_when_full = block / 2});
  written.insert(written.end(), tokens.begin(), tokens.end());
  std::string characters;
  for (const std::uint32_t id : written)  // (A text may have fewer symbols than the model.)
    characters += id < text.symbols.size() ? text.symbols[id] : '?';
  return characters;
}

void train(const Options& options) {
  ls::MultiWorkerMirroredStrategy<> strategy(ls::cluster_from_environment(),
                                             {.replicas = options.replicas});
  const Text text(options.text);
  const std::span<const std::uint8_t> ids(text.ids);
  const std::size_t learned = ids.size() * 9 / 10;
  const std::int64_t global_batch = options.batch_size * strategy.num_workers();
  const auto samples = ls::from_source(
      pieces_all_over(ids.first(learned), options.iterations * global_batch, options.seed));
  const auto all_held_back =
      ls::from_source(pieces_in_order(ids.subspan(learned), 1)).batch(global_batch);
  const auto some_held_back =
      ls::from_source(pieces_in_order(ids.subspan(learned), 8)).batch(global_batch);

  const std::int64_t warmup = std::min<std::int64_t>(100, options.iterations / 2);
  ls::Synchronization synchronization;
  if (options.diloco > 0) synchronization = ls::DiLoCo{.steps = options.diloco};
  auto model = ls::compile<Gpt>(
      strategy, {.seed = options.seed, .synchronization = synchronization},
      ls::SparseCategoricalCrossentropy{.from_logits = true},
      ls::AdamW{.learning_rate = ls::CosineDecay{.initial_learning_rate = 1e-5,
                                                 .decay_steps = std::max<std::int64_t>(
                                                     options.iterations - warmup, 1),
                                                 .alpha = 0.1,
                                                 .warmup_target = 1e-3,
                                                 .warmup_steps = warmup},
                .weight_decay = 0.1,
                .beta_2 = 0.99,
                .epsilon = 1e-8,
                .global_clipnorm = 1.0,
                .exclude_from_weight_decay = ls::fewer_dimensions_than(2)});
  if (options.verbose > 0 && strategy.is_chief()) model.summary();
  options.load(model);
  // An epoch is as long as it takes from one look at what is held back to the next.
  const std::int64_t epoch = options.iterations % 250 == 0 ? 250 : options.iterations;
  ls::History history;
  if (options.iterations > 0)
    history = model.fit(samples.batch(global_batch),
                        {.epochs = static_cast<int>(options.iterations / epoch),
                         .verbose = options.verbose,
                         .validation_data = some_held_back,
                         .steps_per_epoch = epoch},
                        options.backup());
  options.save(model);
  const ls::Logs tested = model.evaluate(all_held_back, {.verbose = 0});
  std::string written;  // by each worker: all of them copy the variables at once
  if (options.generate > 0) written = generate(model, text, options.generate, options.seed);
  if (!strategy.is_chief()) return;
  if (options.generate > 0) std::printf("%s\n", written.c_str());
  std::printf("final: loss=%.6f val_loss=%.6f parameters_crc32c=%08x\n",
              examples::last(history, "loss"), tested.at("loss"),
              static_cast<unsigned>(model.parameters_crc32c()));
}

}  // namespace

int main(int argc, char** argv) {
  examples::CommandLine line("gpt");
  Options options;
  options.batch_size = 12;
  options.add_to(line);
  line.text("--text", options.text);
  line.number<std::int64_t>("--iterations", 0, 10'000'000, options.iterations);
  line.number<std::size_t>("--generate", 0, 1'000'000, options.generate);
  line.number<std::int64_t>("--diloco", 0, 10'000'000, options.diloco);
  const std::string usage =
      std::string(usage_of_gpt) + examples::TrainingOptions::usage + std::string(last_line);
  return examples::run(argc, argv, line, usage, [&] { train(options); });
}
