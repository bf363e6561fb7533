// An encoder and a decoder with attention write dates in one form: "mar 3, 1987" becomes
// "1987-03-03". `seq2seq --help` lists the options.
#include <lockstep/lockstep.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

constexpr std::size_t source = 24, target = 10;                 // characters
constexpr std::size_t vocabulary = 128, width = 64, heads = 4;  // a token is a character

// The source and what the decoder has written so far are one sequence, one behind the other.
// InSource and InTarget are residual layers of one part, with zeros added to the other.
using Source = ls::Cropping1D<0, target>;
using Target = ls::Cropping1D<source, 0>;
using Norm = ls::LayerNormalization<>;
template <class... Layers>
using InSource = ls::Residual<Source, Norm, Layers..., ls::ZeroPadding1D<0, target>>;
template <class... Layers>
using InTarget = ls::Residual<Target, Norm, Layers..., ls::ZeroPadding1D<source, 0>>;

template <bool Causal>
using SelfAttention =
    ls::MultiHeadAttention<heads, width / heads,
                           ls::MultiHeadAttentionOptions{.use_causal_mask = Causal}>;
using LookAtSource =
    ls::Residual<ls::CrossAttention<heads, width / heads, ls::Sequential<Target, Norm>,
                                    ls::Sequential<Source, Norm>>,
                 ls::ZeroPadding1D<source, 0>>;

using Net = ls::Sequential<ls::Input<source + target>, ls::Embedding<vocabulary, width>,
                           ls::PositionEmbedding<source + target>, InSource<SelfAttention<false>>,
                           InSource<ls::Dense<2 * width, ls::GELU>, ls::Dense<width>>,
                           InTarget<SelfAttention<true>>, LookAtSource,
                           InTarget<ls::Dense<2 * width, ls::GELU>, ls::Dense<width>>, Target, Norm,
                           ls::Dense<vocabulary>>;

struct Date {
  std::string written, meant;
};

/// One of five ways to write a day between 1950 and 2049.
Date draw_date(ls::RandomKey key) {
  constexpr std::array<std::string_view, 12> months{
      "january", "february", "march",     "april",   "may",      "june",
      "july",    "august",   "september", "october", "november", "december"};
  ls::RandomStream random(key);
  const std::size_t y = 1950 + random.below(100), m = random.below(12), d = 1 + random.below(28);
  const std::string year = std::to_string(y), day = std::to_string(d), name(months[m]);
  const auto two = [](std::size_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  const std::array<std::string, 5> ways{
      day + ' ' + name + ' ' + year, name + ' ' + day + ", " + year,
      name.substr(0, 3) + ' ' + day + ", " + year, two(d) + '.' + two(m + 1) + '.' + year,
      two(m + 1) + '/' + two(d) + '/' + year.substr(2)};
  return {ways[random.below(ways.size())], year + '-' + two(m + 1) + '-' + two(d)};
}

/// The source, and the target one place later: the decoder is given the right character at each
/// place, whatever it has written before (teacher forcing). Place 0 is an empty character.
void draw(ls::Sample<float>& sample) {
  const Date date = draw_date(sample.key);
  std::ranges::copy(date.written, sample.x.begin());
  std::copy_n(date.meant.begin(), target - 1, sample.x.begin() + source + 1);
  std::ranges::copy(date.meant, sample.y.begin());
}

/// Greedy: of each place the most probable character, which the decoder then is given.
template <class Model>
std::vector<std::string> translate(Model& model, const std::vector<Date>& dates) {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Rows x = Rows::Zero(static_cast<Eigen::Index>(dates.size()), source + target);
  std::vector<std::string> results(dates.size());
  const auto place = [&](std::size_t i, std::size_t t) {
    return x.data() + i * (source + target) + t;
  };
  for (std::size_t i = 0; i < dates.size(); ++i) std::ranges::copy(dates[i].written, place(i, 0));
  for (std::size_t t = 0; t < target; ++t) {
    const Rows logits = model.predict(x, {.batch_size = 256});  // of all places
    for (std::size_t i = 0; i < dates.size(); ++i) {
      const float* const of_place = logits.data() + (i * target + t) * vocabulary;
      results[i] += static_cast<char>(std::max_element(of_place, of_place + vocabulary) - of_place);
      if (t + 1 < target) *place(i, source + t + 1) = results[i].back();
    }
  }
  return results;
}

void train(const examples::RunOptions& options, int epochs) {
  ls::MultiWorkerMirroredStrategy<> strategy({.replicas = options.replicas});
  constexpr std::int64_t size = 6'400;
  const std::int64_t batch = options.batch_size * strategy.num_workers();
  const auto dates = ls::from_generator(
      draw, {.size = size, .sample_size = source + target, .target_size = target});
  auto model = ls::compile<Net>(
      strategy, {.seed = options.seed}, ls::SparseCategoricalCrossentropy{.from_logits = true},
      ls::Adam{.learning_rate = ls::CosineDecay{.initial_learning_rate = 0.003,
                                                .decay_steps = epochs * (size / batch + 1)}},
      ls::Accuracy{});
  const auto history =
      model.fit(dates.batch(batch), {.epochs = epochs, .verbose = options.verbose});

  std::vector<Date> tests(500);
  for (std::size_t i = 0; i < tests.size(); ++i)
    tests[i] = draw_date(ls::RandomKey(options.seed).fold_in(1'000'000 + i));
  const std::vector<std::string> results = translate(model, tests);
  std::size_t exact = 0;
  for (std::size_t i = 0; i < tests.size(); ++i) exact += results[i] == tests[i].meant;
  if (!strategy.is_chief()) return;
  for (std::size_t i = 0; i < 5; ++i)
    std::printf("%-20s -> %s\n", tests[i].written.c_str(), results[i].c_str());
  std::printf("final: loss=%.4f exact=%.4f parameters_crc32c=%08x\n",
              examples::last(history, "loss"),
              static_cast<double>(exact) / static_cast<double>(tests.size()),
              static_cast<unsigned>(model.parameters_crc32c()));
}

}  // namespace

int main(int argc, char** argv) {
  examples::RunOptions options;
  int epochs = 5;
  examples::CommandLine line("seq2seq");
  options.add_to(line);
  line.number("--epochs", 1, 1'000'000, epochs);
  const std::string usage =
      std::string("usage: seq2seq [options]\n  --epochs N           (default 5)\n") + options.usage;
  return examples::run(argc, argv, line, usage, [&] { train(options, epochs); });
}
