// Tells praise from complaint in sentences that the program makes, with two LSTMs or with
// attention. `text --help` lists the options.
#include <lockstep/lockstep.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

constexpr std::size_t length =
    32;  // words of a review; shorter ones end with zeros, which are masked
constexpr std::size_t vocabulary =
    128;  // ids: 0 no word, then the words below, then words that say nothing
constexpr std::size_t good_words = 20, bad_words = 20;
constexpr std::size_t negation = 1, first_good = 2, first_bad = first_good + good_words,
                      first_neutral = first_bad + bad_words;

constexpr ls::EmbeddingOptions masked{.mask_zero = true};

using Lstm = ls::Sequential<ls::Input<length>, ls::Embedding<vocabulary, 32, masked>,
                            ls::Bidirectional<ls::LSTM<32>>, ls::Dropout<0.2>, ls::Dense<2>>;

using Block =
    ls::Sequential<ls::Residual<ls::LayerNormalization<>, ls::MultiHeadAttention<2, 16>>,
                   ls::Residual<ls::LayerNormalization<>, ls::Dense<64, ls::GELU>, ls::Dense<32>>>;
using Attention =
    ls::Sequential<ls::Input<length>, ls::Embedding<vocabulary, 32, masked>,
                   ls::PositionEmbedding<length>, ls::Repeat<2, Block>, ls::LayerNormalization<>,
                   ls::GlobalAveragePooling1D, ls::Dropout<0.2>, ls::Dense<2>>;

constexpr std::string_view usage_of_text = R"(usage: text [options]
  --model NAME         lstm or attention (default lstm)
  --epochs N           (default 6)
  --samples N          reviews to learn from (default 16384)
)";
constexpr std::string_view last_line =
    "The last line is: final: loss=L accuracy=A val_accuracy=V parameters_crc32c=HEX\n";

struct Options : examples::TrainingOptions {
  std::string model = "lstm";
  int epochs = 6;
  std::int64_t samples = 16'384;
};

/// Reviews as ids, and whether they praise.
struct Reviews {
  ls::Tensor<float> words;
  ls::Tensor<std::int32_t> labels;
};

/// A review is a row of opinions among words that say nothing. An opinion is a good or a bad word,
/// turned into its contrary by a negation just before it; the majority of them decides. So no word
/// says anything by itself: a model has to know what stands where.
class Writer {
 public:
  explicit Writer(std::uint64_t seed) : seed_(seed) {}

  Reviews write(std::int64_t first, std::int64_t count) const {
    std::vector<float> words(static_cast<std::size_t>(count) * length);
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < count; ++i) {
      ls::RandomStream random(ls::RandomKey(seed_).fold_in(static_cast<std::uint64_t>(first + i)));
      std::array<std::size_t, length> review{};
      while (!one(random, review, labels)) review.fill(0);
      std::copy(review.begin(), review.end(),
                words.begin() + i * static_cast<std::int64_t>(length));
    }
    return {ls::Tensor<float>(std::move(words), {static_cast<std::size_t>(count), length}),
            ls::Tensor<std::int32_t>(std::move(labels))};
  }

 private:
  /// False: it neither praises nor complains.
  static bool one(ls::RandomStream& random, std::array<std::size_t, length>& review,
                  std::vector<std::int32_t>& labels) {
    const std::size_t end = length / 2 + random.below(length / 2 + 1);
    int verdict = 0;
    bool negated = false;
    for (std::size_t t = 0; t < end; ++t) {
      const std::uint64_t kind = negated ? 1 : random.below(8);
      if (kind == 0) {
        negated = true;
        review[t] = negation;
      } else if (kind < 4) {
        const bool good = random.below(2) == 0;
        review[t] =
            good ? first_good + random.below(good_words) : first_bad + random.below(bad_words);
        verdict += good != negated ? 1 : -1;
        negated = false;
      } else {
        review[t] = first_neutral + random.below(vocabulary - first_neutral);
      }
    }
    if (verdict == 0) return false;
    labels.push_back(verdict > 0 ? 1 : 0);
    return true;
  }

  std::uint64_t seed_;
};

template <class Net>
void train(const Options& options) {
  ls::MultiWorkerMirroredStrategy<> strategy(ls::cluster_from_environment(),
                                             {.replicas = options.replicas});
  const std::int64_t global_batch = options.batch_size * strategy.num_workers();
  const Writer writer(20'241'120);
  const Reviews learned = writer.write(0, options.samples),
                held_back = writer.write(1'000'000'000, 2'048);
  const auto samples =
      ls::from_tensor_slices(learned.words, learned.labels).shuffle(options.samples);
  const auto test = ls::from_tensor_slices(held_back.words, held_back.labels).batch(global_batch);

  auto model = ls::compile<Net>(strategy, {.seed = options.seed},
                                ls::SparseCategoricalCrossentropy{.from_logits = true},
                                ls::Adam{.learning_rate = 0.003}, ls::Accuracy{});
  if (options.verbose > 0 && strategy.is_chief()) model.summary();
  options.load(model);
  const ls::History history =
      model.fit(samples.batch(global_batch), {.epochs = options.epochs, .verbose = options.verbose},
                options.backup());
  options.save(model);
  const ls::Logs tested = model.evaluate(test, {.verbose = 0});
  if (strategy.is_chief())
    std::printf("final: loss=%.6f accuracy=%.4f val_accuracy=%.4f parameters_crc32c=%08x\n",
                examples::last(history, "loss"), examples::last(history, "accuracy"),
                tested.at("accuracy"), static_cast<unsigned>(model.parameters_crc32c()));
}

}  // namespace

int main(int argc, char** argv) {
  examples::CommandLine line("text");
  Options options;
  options.add_to(line);
  line.other("--model", [&](std::string_view name) {
    if (name != "lstm" && name != "attention")
      line.refuse("--model: '" + std::string(name) + "' is neither lstm nor attention");
    options.model = name;
  });
  line.number("--epochs", 1, 1'000'000, options.epochs);
  line.number<std::int64_t>("--samples", 1, 100'000'000, options.samples);
  const std::string usage =
      std::string(usage_of_text) + examples::TrainingOptions::usage + std::string(last_line);
  return examples::run(argc, argv, line, usage, [&] {
    options.model == "lstm" ? train<Lstm>(options) : train<Attention>(options);
  });
}
