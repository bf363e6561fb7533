#include "lockstep/saving/generator.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/float32.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/lora.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/recompute.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/swiglu.hpp"
#include "lockstep/network/tied_head.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/saving/model_files.hpp"
#include "support/captured_stderr.hpp"
#include "support/instruction_sets.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr std::size_t vocabulary = 21, positions = 40, width = 12;
using Tokens = std::vector<std::uint32_t>;

// GPT-2's parts.
constexpr ls::MultiHeadAttentionOptions causal{.value_dim = 5, .use_causal_mask = true};
using Norm = ls::LayerNormalization<>;
using GptBlock =
    ls::Sequential<ls::Residual<Norm, ls::MultiHeadAttention<3, 4, causal>, ls::Dropout<0.1>>,
                   ls::Residual<Norm, ls::Dense<19, ls::GELU>, ls::Dense<width>>>;
using Gpt =
    ls::Sequential<ls::Input<positions>,
                   ls::TiedHead<ls::Embedding<vocabulary, width>,
                                ls::PositionEmbedding<positions + 3>, ls::SpatialDropout1D<0.2>,
                                ls::Repeat<3, ls::Recompute<GptBlock>>, ls::Float32<Norm>>>;

// Llama's, and Mistral's with a window.
template <std::size_t Positions, std::size_t Window>
struct LlamaOf {
  static constexpr ls::MultiHeadAttentionOptions rotary{
      .use_bias = false, .use_causal_mask = true, .sliding_window = Window, .rope_theta = 100};
  using RmsNorm = ls::RMSNormalization<>;
  using Block = ls::Sequential<ls::Residual<RmsNorm, ls::GroupQueryAttention<6, 4, 2, rotary>>,
                               ls::Residual<RmsNorm, ls::SwiGLU<20, width>>>;
  using Type =
      ls::Sequential<ls::Input<Positions>, ls::Embedding<vocabulary, width>, ls::Repeat<2, Block>,
                     RmsNorm,
                     ls::Dense<vocabulary, ls::Linear, ls::DenseOptions{.use_bias = false}>>;
};
using Llama = LlamaOf<positions, 0>::Type;
using Mistral = LlamaOf<positions, 7>::Type;

using Recurrent =
    ls::Sequential<ls::Input<positions>, ls::Embedding<vocabulary, width>,
                   ls::LSTM<9, ls::LSTMOptions{.return_sequences = true}>,
                   ls::GRU<20, ls::GRUOptions{.return_sequences = true}>,
                   ls::GRU<7, ls::GRUOptions{.return_sequences = true, .reset_after = false}>,
                   ls::SimpleRNN<10, ls::SimpleRNNOptions{.return_sequences = true}>,
                   ls::Dense<vocabulary>>;

/// A program's own layer, applied to each token.
struct Doubled {
  static constexpr std::string_view name = "doubled";
  template <class In>
  using Output = In;
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& p) {
    p.y.matrix() = 2 * p.x.matrix();
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& p) {
    p.dx.matrix() = 2 * p.dy.matrix();
  }
};

/// And one that sees the positions before: y[t] = x[0] + ... + x[t].
struct Sums {
  static constexpr std::string_view name = "sums";
  static constexpr bool takes_sequences = true;
  template <class In>
  using Output = In;
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& p) {
    for (std::size_t f = 0; f < In::Token::size; ++f)
      for (std::size_t row = 0; row < p.x.samples(); ++row)
        p.y(row, f) = p.x(row, f) + (row % In::positions == 0 ? T(0) : p.y(row - 1, f));
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>&) {}

  template <class In>
  static constexpr std::size_t decode_cache = In::Token::size;
  template <class In>
  static constexpr std::size_t decode_memory(std::size_t) {
    return 0;
  }
  template <class In, class T>
  static void decode(const ls::DecodePass<T>& p) {
    std::size_t row = 0;
    for (const ls::DecodedText<T>& text : p.texts)
      for (std::size_t i = 0; i < text.rows; ++i, ++row)
        for (std::size_t f = 0; f < In::Token::size; ++f) {
          T& sum = text.cache[p.cache + f];
          if (text.first + i == 0) sum = 0;
          p.y(row, f) = sum += p.x(row, f);
        }
  }
};

using Mixed =
    ls::Sequential<ls::Input<positions>, ls::Embedding<vocabulary, width>, Doubled,
                   ls::Frozen<GptBlock>,
                   ls::Parallel<ls::Concatenate, ls::Dense<5, ls::Tanh>, ls::Identity,
                                ls::Sequential<Norm, ls::MultiHeadAttention<2, 3, causal>>>,
                   ls::Dense<width>, ls::BatchNormalization<>, ls::Activation<ls::ReLU>,
                   ls::Residual<ls::Sequential<ls::Dense<8>, ls::MultiHeadAttention<2, 4, causal>>,
                                ls::Sequential<ls::Dense<8>>>,
                   ls::Activation<ls::ReLU>, Sums, ls::LoRA<ls::Dense<vocabulary>, 2>>;

const ls::SparseCategoricalCrossentropy loss{.from_logits = true};

std::uint32_t token_at(std::size_t text, std::size_t position) {
  return static_cast<std::uint32_t>(
      ls::RandomStream(ls::RandomKey(text).fold_in(position)).below(vocabulary));
}

Tokens tokens_of(std::size_t text, std::size_t count) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = token_at(text, i);
  return tokens;
}

/// The logits after each position, by one forward pass of the whole.
template <class T>
Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> whole(auto& model, const Tokens& tokens,
                                                       std::size_t length) {
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> x =
      Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>::Zero(1, static_cast<Eigen::Index>(length));
  for (std::size_t i = 0; i < std::min(length, tokens.size()); ++i)
    x(0, static_cast<Eigen::Index>(i)) = static_cast<T>(tokens[i]);
  const auto y = model.predict(x);
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> logits(length, vocabulary);
  for (std::size_t i = 0; i < length * vocabulary; ++i)
    logits(static_cast<Eigen::Index>(i / vocabulary), static_cast<Eigen::Index>(i % vocabulary)) =
        y(0, static_cast<Eigen::Index>(i));
  return logits;
}

template <class T>
double difference(std::span<const T> logits,
                  const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>& all,
                  std::size_t position) {
  double worst = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double distance = std::abs(static_cast<double>(
        logits[i] - all(static_cast<Eigen::Index>(position), static_cast<Eigen::Index>(i))));
    worst = std::isnan(distance) ? 1e9 : std::max(worst, distance);
  }
  return worst;
}

/// A prompt of each of some lengths, then one token after the other; and pieces of all lengths.
template <class T>
void check_logits(auto& model, const auto& generator, std::size_t model_length,
                  std::size_t length) {
  const Tokens tokens = tokens_of(5, length);
  const auto expected = whole<T>(model, tokens, model_length);
  auto text = generator.text();
  double worst = 0;
  for (const std::size_t prompt : {std::size_t{1}, std::size_t{2}, std::size_t{15}, std::size_t{16},
                                   std::size_t{17}, length}) {
    text.clear();
    for (std::size_t at = 0; at < length;) {
      const std::size_t count = at == 0 ? prompt : 1;
      const auto logits = text.append(std::span(tokens).subspan(at, count));
      at += count;
      worst = std::max(worst, difference<T>(logits, expected, at - 1));
    }
    CHECK(text.size() == length);
  }
  text.clear();
  for (std::size_t at = 0, count = 1; at < length; at += count, ++count) {
    count = std::min(count, length - at);
    worst = std::max(worst, difference<T>(text.append(std::span(tokens).subspan(at, count)),
                                          expected, at + count - 1));
  }
  CHECK(worst < (sizeof(T) == 8 ? 1e-13 : 1e-5));
}

}  // namespace

TEST_CASE_TEMPLATE("Generator: the logits of each position are those of the whole pass", Net, Gpt,
                   Llama, Mistral, Recurrent, Mixed) {
  for_each_instruction_set([] {
    auto model = ls::compile<Net>({.seed = 3}, loss, ls::Adam{});
    const ls::Generator<Net> generator(model);
    check_logits<float>(model, generator, positions, positions);
  });
  auto model = ls::compile<Net, double>({.seed = 3}, loss, ls::Adam{});
  const ls::Generator<Net, double> generator(model);
  check_logits<double>(model, generator, positions, positions);
}

TEST_CASE("Generator: a model whose attentions all have a window goes on for ever") {
  using Long = LlamaOf<150, 7>::Type;
  const TemporaryFolder folder;
  auto model = ls::compile<Long>({.seed = 3}, loss, ls::Adam{});
  model.save_weights(folder.path("mistral.safetensors"));
  const ls::Generator<Mistral> generator(folder.path("mistral.safetensors"));
  static_assert(ls::Generator<Mistral>::max_positions == std::size_t(-1));
  static_assert(ls::Generator<Mistral>::cache_bytes == 2 * 2 * 2 * 6 * 16 * sizeof(float));
  static_assert(ls::Generator<Llama>::max_positions == positions);
  static_assert(ls::Generator<Recurrent>::max_positions == std::size_t(-1));
  check_logits<float>(model, generator, 150, 150);
}

TEST_CASE("Generator: sliding, each time the sequence is full") {
  auto model = ls::compile<Gpt>({.seed = 4}, loss, ls::Adam{});
  const ls::Generator<Gpt> generator(model);
  const Tokens prompt = tokens_of(1, 10);
  const Tokens written = generator.generate(prompt, {.max_new_tokens = 95, .keep_when_full = 20});
  REQUIRE(written.size() == 95);
  Tokens all = prompt, seen = prompt;
  for (const std::uint32_t token : written) {
    const Eigen::MatrixXf logits = whole<float>(model, seen, positions);
    const auto row = logits.row(static_cast<Eigen::Index>(seen.size() - 1));
    CHECK(row[token] > row.maxCoeff() - 1e-4F);
    all.push_back(token);
    seen.push_back(token);
    if (seen.size() > positions) seen.assign(all.end() - 20, all.end());
  }
  // A prompt that does not fit is used as far as it is kept.
  const Tokens longer = tokens_of(2, 77);
  const ls::GenerateOptions slides{.max_new_tokens = 30, .keep_when_full = 12};
  CHECK(generator.generate(longer, slides) ==
        generator.generate(std::span(longer).last(12), slides));
}

TEST_CASE_TEMPLATE("Generator: prompts together give the texts that each gives alone, bit for bit",
                   Net, Gpt, Llama, Mistral, Recurrent, Mixed) {
  for_each_instruction_set([] {
    auto model = ls::compile<Net>({.seed = 6}, loss, ls::Adam{});
    const ls::Generator<Net> generator(model);
    std::vector<Tokens> prompts;
    for (std::size_t i = 0; i < 70; ++i) prompts.push_back(tokens_of(i, 1 + i % 9));
    const ls::GenerateOptions options{
        .max_new_tokens = 20, .temperature = 1.2, .seed = 8, .stop = {3}};
    const auto together = generator.generate(prompts, options);
    REQUIRE(together.size() == prompts.size());
    std::size_t shorter = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      std::vector<std::vector<std::uint32_t>> alone(i + 1, Tokens{1});
      alone[i] = prompts[i];  // (with the seed of its number)
      if (i % 23 == 0) CHECK(generator.generate(alone, options)[i] == together[i]);
      shorter += together[i].size() < 20 ? 1U : 0U;
    }
    CHECK(shorter > 10);
    CHECK(generator.generate(prompts[0], options) == together[0]);
  });
}

TEST_CASE("Generator: a seed gives one text, on any number of threads") {
  auto model = ls::compile<Llama>({.seed = 6}, loss, ls::Adam{});
  const ls::Generator<Llama> generator(model);
  const Tokens prompt{1, 2, 3};
  const ls::GenerateOptions options{.max_new_tokens = 30, .temperature = 1, .seed = 8};
  const Tokens first = generator.generate(prompt, options);
  CHECK(first.size() == 30);
  std::array<Tokens, 4> texts;
  std::vector<std::thread> threads;
  for (Tokens& text : texts)
    threads.emplace_back([&] { text = generator.generate(prompt, options); });
  for (std::thread& thread : threads) thread.join();
  for (const Tokens& text : texts) CHECK(text == first);
  ls::GenerateOptions other = options;
  other.seed = 9;
  CHECK(generator.generate(prompt, other) != first);
  // Of one candidate, the choice is that of greedy.
  other.top_k = 1;
  CHECK(generator.generate(prompt, other) == generator.generate(prompt, {.max_new_tokens = 30}));
  other.temperature = 0;
  const lockstep_test::CapturedStderr output;
  CHECK(generator.generate(prompt, other) == generator.generate(prompt, {.max_new_tokens = 30}));
  CHECK(output.text().find("give a .temperature above 0") != std::string::npos);
  CHECK(generator.generate(prompt).size() == positions - 3);
}

TEST_CASE("Generator: tokens are drawn as the options say") {
  const std::vector<float> logits{0.3F, -1.0F, 2.0F, 1.1F, 0.2F, 1.0F, -0.5F, -30.0F};
  struct Case {
    ls::GenerateOptions options;
    std::vector<std::uint32_t> tokens;  // those that may be drawn
    double limit;                       // of chi squared at 0.1 %, one degree less than tokens
  };
  // In the order of their logits: 2, 3, 5, 0, 4, 6, 1, 7, at temperature 1 of probabilities 0.444,
  // 0.180, 0.163, 0.081, ...
  for (const Case& c :
       std::vector<Case>{{{.temperature = 1}, {0, 1, 2, 3, 4, 5, 6}, 22.46},
                         {{.temperature = 0.6}, {0, 1, 2, 3, 4, 5, 6}, 22.46},
                         {{.temperature = 2, .top_k = 3}, {2, 3, 5}, 13.82},
                         {{.temperature = 1, .top_k = 100, .top_p = 0.59}, {2, 3}, 10.83},
                         {{.temperature = 1, .top_p = 0.7}, {2, 3, 5}, 13.82},
                         {{.temperature = 1, .top_p = 0.8}, {0, 2, 3, 5}, 16.27},
                         // Of the three largest, whose probabilities are 0.564, 0.229 and 0.207.
                         {{.temperature = 1, .top_k = 3, .top_p = 0.78}, {2, 3}, 10.83},
                         {{.temperature = 1, .top_p = 1e-9}, {2}, 1e-9}}) {
    CAPTURE(c.options.temperature);
    CAPTURE(c.options.top_k);
    CAPTURE(c.options.top_p);
    ls::detail::Sampler<float> sampler(c.options, logits.size());
    constexpr int draws = 40'000;
    std::array<int, 8> counts{};
    for (int i = 0; i < draws; ++i)
      ++counts[sampler.draw(logits, ls::RandomKey(7).fold_in(static_cast<std::uint64_t>(i)))];
    double sum = 0, chi_squared = 0;
    int drawn = 0;
    for (const std::uint32_t token : c.tokens)
      sum += std::exp(static_cast<double>(logits[token]) / c.options.temperature);
    for (const std::uint32_t token : c.tokens) {
      const double expected =
          draws * std::exp(static_cast<double>(logits[token]) / c.options.temperature) / sum;
      chi_squared += (counts[token] - expected) * (counts[token] - expected) / expected;
      drawn += counts[token];
    }
    CHECK(drawn == draws);
    CHECK(chi_squared < c.limit);
  }
  // Of equal logits greedy takes the first, and top_k the first ones.
  const std::vector<float> equal(9, 1.5F);
  ls::detail::Sampler<float> greedy({}, 9);
  CHECK(greedy.draw(equal, ls::RandomKey(1)) == 0);
  ls::detail::Sampler<float> two({.temperature = 1, .top_k = 2}, 9);
  for (std::uint64_t i = 0; i < 50; ++i) CHECK(two.draw(equal, ls::RandomKey(i)) < 2);
}

TEST_CASE("Generator: stop, on_token, and a text token by token") {
  auto model = ls::compile<Gpt>({.seed = 6}, loss, ls::Adam{});
  const ls::Generator<Gpt> generator(model);
  const Tokens prompt{4};
  ls::GenerateOptions options{.max_new_tokens = 30, .temperature = 1, .seed = 2};
  const Tokens text = generator.generate(prompt, options);
  Tokens seen;
  options.on_token = [&](std::uint32_t token, std::size_t number) {
    CHECK(number == 0);
    seen.push_back(token);
    return seen.size() < 12;
  };
  CHECK(generator.generate(prompt, options) == Tokens(text.begin(), text.begin() + 12));
  CHECK(seen == Tokens(text.begin(), text.begin() + 12));
  options.on_token = {};
  const std::uint32_t end = text[7];
  const auto first = std::find(text.begin(), text.end(), end);
  options.stop = {vocabulary + 5, end};
  CHECK(generator.generate(prompt, options) == Tokens(text.begin(), first));
  options.stop = {text[0]};
  CHECK(generator.generate(prompt, options).empty());
  CHECK(generator.generate(std::vector<Tokens>{}, options).empty());

  // What generate draws, by a program.
  ls::detail::Sampler<float> sampler({.temperature = 1}, vocabulary);
  auto by_hand = generator.text();
  Tokens next = prompt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    next = {sampler.draw(by_hand.append(next), ls::RandomKey(2).fold_in(0).fold_in(i))};
    CHECK(next[0] == text[i]);
  }
}

TEST_CASE("Generator: what cannot be generated is said before anything is written") {
  auto model = ls::compile<Gpt>({.seed = 6}, loss, ls::Adam{});
  const ls::Generator<Gpt> generator(model);
  const auto message = [&](const Tokens& prompt, const ls::GenerateOptions& options) {
    return message_of<ls::ConfigurationError>([&] { generator.generate(prompt, options); });
  };
  CHECK(contains(message({}, {}), "the prompt has no tokens"));
  CHECK(contains(message(tokens_of(1, 41), {}), "a prompt of 41 tokens and 1 new ones do not fit"));
  CHECK(contains(message(tokens_of(1, 40), {}), "sequence has 40"));
  CHECK(contains(message(tokens_of(1, 10), {.max_new_tokens = 31}), ".keep_when_full = 20"));
  CHECK(generator.generate(tokens_of(1, 10), {.max_new_tokens = 30}).size() == 30);
  CHECK(contains(message({1}, {.keep_when_full = 40}), "expected fewer tokens"));
  CHECK(contains(message({1}, {.temperature = -1}), "temperature is -1"));
  CHECK(contains(message({1}, {.temperature = NAN}), "temperature"));
  CHECK(contains(message({1}, {.temperature = 1, .top_p = 0}), "top_p is 0"));
  CHECK(contains(message({1}, {.temperature = 1, .top_p = 1.5}), "top_p is 1.5"));
  CHECK(contains(message_of<ls::DataError>([&] {
                   generator.generate(Tokens{1, vocabulary});
                 }),
                 "the token 21 is not in the vocabulary; expected ids from 0 to 20"));
  auto text = generator.text();
  text.append(tokens_of(1, 39));
  CHECK(contains(message_of<ls::ConfigurationError>([&] {
                   text.append(Tokens{1, 2});
                 }),
                 "the text has 39 tokens, and 2 more do not fit"));
  CHECK(
      contains(message_of<ls::ConfigurationError>([&] { text.append({}); }), "at least one token"));
  CHECK(text.size() == 39);
  CHECK_NOTHROW(text.append(Tokens{1}));

  auto endless = ls::compile<Mistral>({.seed = 6}, loss, ls::Adam{});
  const ls::Generator<Mistral> mistral(endless);
  CHECK(contains(message_of<ls::ConfigurationError>([&] { mistral.generate(Tokens{1}); }),
                 "texts of this model have any length: give .max_new_tokens"));
  CHECK(mistral.generate(tokens_of(1, 99), {.max_new_tokens = 100}).size() == 100);
}

TEST_CASE("Generator: padding is neither read nor written") {
  using Padded = ls::Sequential<
      ls::Input<8>, ls::Embedding<6, 4, ls::EmbeddingOptions{.mask_zero = true}>,
      ls::MultiHeadAttention<2, 2, ls::MultiHeadAttentionOptions{.use_causal_mask = true}>,
      ls::Dense<6>>;
  auto model = ls::compile<Padded>({.seed = 6}, loss, ls::Adam{});
  const ls::Generator<Padded> generator(model);
  CHECK(contains(message_of<ls::DataError>([&] {
                   generator.generate(Tokens{1, 0});
                 }),
                 "the token 0 is padding (mask_zero)"));
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const std::uint32_t token :
         generator.generate(Tokens{1}, {.temperature = 100, .seed = seed}))
      CHECK((token > 0 && token < 6));
}

TEST_CASE("Generator: weights that are no numbers are reported") {
  auto model = ls::compile<Gpt>({.seed = 6}, loss, ls::Adam{});
  auto weights = model.get_weights();
  std::fill(weights[0].values.begin(), weights[0].values.end(),
            std::numeric_limits<float>::quiet_NaN());
  model.set_weights(weights);
  const ls::Generator<Gpt> generator(model);
  CHECK(contains(message_of<ls::DataError>([&] { generator.generate(Tokens{1}); }),
                 "the model's output is not finite"));
}
