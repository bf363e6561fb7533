// LoRA: a GPT has learned plain sentences; a few narrow factors beside its frozen weights teach it
// Yoda's word order. `lora --help` lists the options.
#include <lockstep/lockstep.hpp>
#include <lockstep/saving/adapters.hpp>
#include <lockstep/saving/generator.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <vector>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

constexpr std::size_t length = 64, width = 64, vocabulary = 128;  // a token is a character

// Keep<L> is a layer that fine-tuning leaves alone, Adapt<L> one to which it adds factors.
template <template <class> class Keep, template <class> class Adapt>
struct Gpt {
  static constexpr ls::MultiHeadAttentionOptions causal{.use_causal_mask = true};
  using Norm = Keep<ls::LayerNormalization<>>;
  using Attention = Adapt<ls::MultiHeadAttention<4, width / 4, causal>>;
  using Expand = Adapt<ls::Dense<4 * width, ls::GELU>>;
  using Contract = Adapt<ls::Dense<width>>;
  using Block = ls::Sequential<ls::Residual<Norm, Attention>, ls::Residual<Norm, Expand, Contract>>;
  using Net = ls::Sequential<ls::Input<length>, Keep<ls::Embedding<vocabulary, width>>,
                             Keep<ls::PositionEmbedding<length>>, ls::Repeat<2, Block>, Norm,
                             Adapt<ls::Dense<vocabulary>>>;
};
template <class Layer>
using Plain = Layer;
template <class Layer>
using Rank4 = ls::LoRA<Layer, 4>;
using Base = Gpt<Plain, Plain>::Net;
using Tuned = Gpt<ls::Frozen, Rank4>::Net;

/// "the old cat sees a dog. my king ...", or in Yoda's order "a dog the old cat sees. ..."
std::string sentences(ls::RandomKey key, bool yoda, std::size_t characters) {
  ls::RandomStream random(key);
  const auto one_of = [&](std::initializer_list<const char*> words) {
    return std::string(words.begin()[random.below(words.size())]);
  };
  std::string text;
  while (text.size() < characters) {
    std::string who[2];
    for (std::string& name : who) {
      name = one_of({"the ", "a ", "my "});
      name += one_of({"", "old ", "small "});
      name += one_of({"cat", "dog", "bird", "king", "child"});
    }
    const std::string verb = one_of({" sees", " knows", " likes", " follows"});
    text += yoda ? who[1] + ' ' + who[0] + verb : who[0] + verb + ' ' + who[1];
    text += ". ";
  }
  return text.substr(0, characters);
}

/// The target of each character is the next one. Each pass writes other sentences.
auto samples(bool yoda, std::int64_t count) {
  return ls::from_generator(
      [yoda](ls::Sample<float>& sample) {
        const std::string text = sentences(sample.key, yoda, length + 1);
        for (std::size_t t = 0; t < length; ++t) {
          sample.x[t] = static_cast<float>(text[t]);
          sample.y[t] = static_cast<float>(text[t + 1]);
        }
      },
      {.size = count, .sample_size = length, .target_size = length});
}

struct Options : examples::RunOptions {
  int epochs = 3;
  std::string adapters_in, adapters_out;
};

void train(const Options& options) {
  ls::MultiWorkerMirroredStrategy<> strategy({.replicas = options.replicas});
  const std::int64_t batch = options.batch_size * strategy.num_workers();
  const auto plain = samples(false, 3'200).batch(batch), yoda = samples(true, 3'200).batch(batch);
  const auto held_back = samples(true, 512).batch(batch);
  const auto loss_of = [&](auto& model) {
    return model.evaluate(held_back, {.verbose = 0}).at("loss");
  };
  const ls::SparseCategoricalCrossentropy loss{.from_logits = true};
  const ls::FitOptions fit{.epochs = options.epochs, .verbose = options.verbose};

  auto model = ls::compile<Base>(strategy, {.seed = options.seed}, loss,
                                 ls::Adam{.learning_rate = 0.003}, ls::Accuracy{});
  model.fit(plain, fit);
  const double before = loss_of(model);

  // The layers have the same names in both models. (From a file: tuned.load_weights("base...",
  // {.by_name = true}).)
  auto tuned = ls::compile<Tuned>(strategy, {.seed = options.seed}, loss,
                                  ls::Adam{.learning_rate = 0.01}, ls::Accuracy{});
  auto weights = tuned.get_weights();
  for (const auto& known : model.get_weights())
    for (auto& weight : weights)
      if (weight.name == known.name) weight.values = known.values;
  tuned.set_weights(weights);
  if (options.adapters_in.empty())
    tuned.fit(yoda, fit);
  else
    tuned.load_weights(options.adapters_in, {.by_name = true});
  if (!options.adapters_out.empty()) ls::save_adapters(tuned, options.adapters_out);

  // Merged, the factors cost nothing: this is the model without LoRA, with other weights.
  const double after = loss_of(tuned);
  model.set_weights(ls::merged_weights(tuned.get_weights()));
  const double merged = loss_of(model);
  const std::string begin = "my old ";
  const auto written = ls::Generator<Base>(model).generate(
      std::vector<std::uint32_t>(begin.begin(), begin.end()), {.temperature = 0.5, .seed = 1});
  if (!strategy.is_chief()) return;
  std::printf("%s%s\n", begin.c_str(), std::string(written.begin(), written.end()).c_str());
  std::printf("trained: %zu of %zu parameters\n", Tuned::parameter_count, Base::parameter_count);
  std::printf("final: before=%.4f after=%.4f merged=%.4f parameters_crc32c=%08x\n", before, after,
              merged, static_cast<unsigned>(tuned.parameters_crc32c()));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine line("lora");
  options.add_to(line);
  line.number("--epochs", 1, 1'000'000, options.epochs);
  line.text("--adapters-in", options.adapters_in);
  line.text("--adapters-out", options.adapters_out);
  const std::string usage = std::string(R"(usage: lora [options]
  --epochs N           of the base, and of the factors (default 3)
  --adapters-in FILE   take the factors from there, instead of training them
  --adapters-out FILE  save the factors alone, to .safetensors or .npz
)") + options.usage;
  return examples::run(argc, argv, line, usage, [&] { train(options); });
}
