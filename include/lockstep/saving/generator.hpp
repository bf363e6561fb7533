// Generator: a trained language model that writes, with a cache of keys and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/decoding.hpp"
#include "lockstep/saving/constant_variables.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/step/program.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// How Generator::generate goes on with a text. The next token is drawn from softmax(logits /
/// temperature). top_k keeps the k largest probabilities; top_p then keeps the fewest whose sum is
/// at least top_p of theirs.
struct GenerateOptions {
  /// Most tokens to add to each text. 0: as many as the model's sequence has room for.
  std::size_t max_new_tokens = 0;
  double temperature = 0;                ///< 0: greedy, always the most probable token
  std::size_t top_k = 0;                 ///< 0: all; only with a temperature
  double top_p = 1;                      ///< above 0, at most 1 (all); only with a temperature
  std::uint64_t seed = 0;                ///< the same seed, the same text
  std::vector<std::uint32_t> stop = {};  ///< tokens that end a text; they are no part of it
  /// For a text longer than the model's sequence: whenever the sequence is full, this many of its
  /// last tokens are recomputed from position 0, and the text goes on. 0: such a text is an error,
  /// before anything is written.
  std::size_t keep_when_full = 0;
  /// Called with each new token and the number of its prompt. False ends this text.
  std::function<bool(std::uint32_t token, std::size_t prompt)> on_token = {};
};

namespace detail {

/// Draws tokens as GenerateOptions says.
template <class T>
class Sampler {
 public:
  /// Throws ConfigurationError for options that make no sense.
  Sampler(const GenerateOptions& options, std::size_t vocabulary);
  /// Throws DataError where the logits are not finite.
  [[nodiscard]] std::uint32_t draw(std::span<const T> logits, RandomKey key);

 private:
  struct Candidate {
    double logit;
    std::uint32_t token;
  };
  double temperature_, top_p_;
  std::size_t top_k_;
  std::vector<Candidate> candidates_;
};

/// The memory of some texts.
template <class T>
class TextMemory {
 public:
  /// With room for passes of `rows` rows.
  TextMemory(const Decoder<T>& decoder, std::size_t texts, std::size_t rows);
  void make_room(const Decoder<T>& decoder, std::size_t for_rows);

  Buffer work{};
  std::vector<Buffer> caches{};
  std::vector<std::size_t> lengths{};  ///< tokens in each cache
  std::vector<T> logits{};             ///< [text][vocabulary]
  std::vector<DecodedText<T>> passes{};
  std::size_t rows = 0;
};

/// Writes with a Decoder and constant variables: Generator, but for its types. Any number of
/// threads may call it at once.
template <class T>
class TextWriter {
 public:
  TextWriter(const Decoder<T>& decoder, ConstantVariables<T> variables)
      : decoder_(decoder), variables_(std::move(variables)) {}

  [[nodiscard]] std::vector<std::vector<std::uint32_t>> generate(
      std::span<const std::span<const std::uint32_t>> prompts,
      const GenerateOptions& options) const;
  /// Goes on with a text, whose logits are then those after the last token.
  void append(TextMemory<T>& memory, std::size_t text, std::span<const std::uint32_t> tokens) const;
  /// A token for each of these texts.
  void append_one(TextMemory<T>& memory, std::span<const std::size_t> texts,
                  std::span<const std::uint32_t> tokens) const;
  [[nodiscard]] const Decoder<T>& decoder() const noexcept { return decoder_; }

 private:
  void run(TextMemory<T>& memory, std::span<const std::size_t> texts,
           std::span<const std::uint32_t> tokens) const;

  Decoder<T> decoder_;
  ConstantVariables<T> variables_;
};

/// The conditions of messages.
template <class Output>
concept LogitsOfPositions = is_sequence<Output> && Output::rank == 2;
template <std::size_t Vocabulary, std::size_t Ids>
concept IdsForAllLogits = Vocabulary <= Ids;

/// Whether the last layer is a Softmax.
template <class Net>
inline constexpr bool ends_with_softmax = [] {
  const auto& layers = Net::template layers<typename Net::InputShape>;
  return layers.back().name == std::string_view("softmax");
}();

}  // namespace detail

/// A trained language model that writes texts: a model of token ids whose output is a sequence of
/// logits, position t's those of token t + 1. It keeps what its layers need of the tokens before
/// (of an attention keys and values), so that each new token costs one pass of one row; the prompt
/// is computed in one pass. Logits are those of Model::predict up to rounding. Its variables stay
/// as they are: any number of threads may call one object at once, and each call computes on its
/// thread alone.
///
///     const ls::Generator<Gpt> gpt("gpt.safetensors");
///     const std::vector<std::uint32_t> tokens =
///         gpt.generate(prompt, {.max_new_tokens = 100, .temperature = 0.8, .top_k = 40});
///
/// Layers: what is applied to each token, Embedding, PositionEmbedding, MultiHeadAttention and
/// GroupQueryAttention with use_causal_mask, LSTM, GRU and SimpleRNN with return_sequences, the
/// containers Sequential, Residual, Parallel, Repeat, Recompute, TiedHead and Frozen, and a layer
/// of your own with `decode` (see DecodingLayer). Others are refused by the compiler. Of a model
/// that was trained with MixedBFloat16, take the same network and its file.
///
/// Memory: of a text, for each attention 2 * heads of keys and values * their features * P numbers,
/// where P is the number of positions of the model's Input, or of the sliding window, rounded up to
/// a multiple of 16 (cache_bytes); for an LSTM 2 * units. And of a call what a forward pass of its
/// prompt needs. After the prompt nothing is allocated.
///
/// A text has at most as many tokens, with its prompt, as the model's Input has positions, unless
/// GenerateOptions::keep_when_full lets it slide. Where each attention has a sliding window, and
/// there is no PositionEmbedding, it has any length: max_positions is then the largest number.
///
/// P is the scalar type of all arrays, or Int8Weights (saving/int8_weights.hpp).
///
/// Neither copied nor moved: a std::shared_ptr<const Generator> is what threads share.
/// Use: `Generator<Gpt>("gpt.safetensors")`. Keras: KerasHub's `CausalLM`.
template <class Net, class P = float>
class Generator {
  using Under = detail::InInference<Net, P>;
  using T = typename Under::Scalar;

 public:
  using InputShape = typename Net::InputShape;
  using OutputShape = typename Net::template Output<InputShape>;

 private:
  static_assert(
      !requires { Net::device(); },
      "lockstep: a Generator computes on the processor: give it the network without On; files fit "
      "both");
  static_assert(
      !requires { Under::Network::policy; },
      "lockstep: this model has a policy of precision (MixedBFloat16): call save_weights(file), "
      "and give the file to a Generator<Net> of the network without it");
  static_assert(detail::LogitsOfPositions<OutputShape>,
                "lockstep: Generator needs a model whose output is a sequence of logits, one for "
                "each id: ls::Input<positions>, ls::Embedding, layers, and at the end "
                "ls::Dense<vocabulary>; or ls::TiedHead");
  static_assert(detail::DecodingCheck<Net, InputShape, T>::check());
  static_assert(!detail::ends_with_softmax<Net>,
                "lockstep: Generator needs logits: leave out the Softmax at the model's end, and "
                "train with SparseCategoricalCrossentropy{.from_logits = true}");
  static constexpr detail::Decoder<T> decoder = detail::decoder_of<Net, T>();
  static_assert(detail::IdsForAllLogits<decoder.vocabulary, decoder.ids>,
                "lockstep: Generator needs an id for each logit: the Embedding has fewer ids than "
                "the output has logits");

 public:
  static constexpr std::size_t vocabulary = decoder.vocabulary;
  static constexpr std::size_t max_positions = decoder.positions;
  static constexpr std::size_t cache_bytes = sizeof(T) * decoder.cache;  ///< of a text

  /// With the variables of any file that Model::load_weights reads. Throws as Predictor does.
  explicit Generator(const std::string& path)
      : writer_(decoder, Under::prepared(*program_, {*program_, path, nullptr, loaded_})) {}
  /// From a file of another program, with its names and layout.
  Generator(const std::string& path, const LoadWeightsOptions& options)
      : writer_(decoder, Under::prepared(*program_, {*program_, path, &options, loaded_})) {}
  /// With copies of a model's present variables. Where Model::predict may be called.
  template <class S, class Loss, class Optimizer, class... Metrics>
  explicit Generator(const Model<Net, T, S, Loss, Optimizer, Metrics...>& model)
      : writer_(decoder,
                Under::prepared(
                    *program_,
                    {*program_,
                     detail::ModelFiles<std::remove_cvref_t<decltype(model)>>::trainer(model)})) {}

  /// What became of each variable, where there were options.
  /// Use: `generator.loaded()`. Keras: none.
  [[nodiscard]] const LoadedWeights& loaded() const noexcept { return loaded_; }

  /// The tokens that follow the prompt. Throws ConfigurationError for an empty prompt, options that
  /// make no sense and a text that is too long; DataError for an id that is not in the vocabulary
  /// and for logits that are not finite.
  /// Use: `generator.generate(tokens, {.max_new_tokens = 20})`. Keras: `generate`.
  std::vector<std::uint32_t> generate(std::span<const std::uint32_t> prompt,
                                      const GenerateOptions& options = {}) const {
    return writer_.generate({&prompt, 1}, options)[0];
  }
  /// Continues several prompts, which share each pass over the weights. Each text is, bit for bit,
  /// what the prompt alone would get with the seed of its number; prompt 0 has the seed of
  /// `generate`.
  std::vector<std::vector<std::uint32_t>> generate(
      const std::vector<std::vector<std::uint32_t>>& prompts,
      const GenerateOptions& options = {}) const {
    const std::vector<std::span<const std::uint32_t>> spans(prompts.begin(), prompts.end());
    return writer_.generate(spans, options);
  }

  /// One text, for a program that chooses tokens by itself. Used by one thread at a time; the
  /// Generator must outlive it.
  class Text {
   public:
    /// Goes on with the text. Returns the logits after its last token, which hold until the next
    /// call; they may not be finite. Throws as generate does for tokens, with the text as it was.
    std::span<const T> append(std::span<const std::uint32_t> tokens) {
      writer_.append(memory_, 0, tokens);
      return memory_.logits;
    }
    /// Its number of tokens.
    [[nodiscard]] std::size_t size() const noexcept { return memory_.lengths[0]; }
    /// A new text in the same memory.
    void clear() noexcept { memory_.lengths[0] = 0; }

   private:
    friend Generator;
    explicit Text(const detail::TextWriter<T>& writer)
        : writer_(writer), memory_(writer.decoder(), 1, 1) {}
    const detail::TextWriter<T>& writer_;
    detail::TextMemory<T> memory_;
  };
  /// Use: `generator.text()`. Keras: none.
  [[nodiscard]] Text text() const { return Text(writer_); }

 private:
  using Program = detail::Compiled<Net, T, NoLoss, NoOptimizer>;

  const std::unique_ptr<const Program> program_ =
      std::make_unique<const Program>(NoLoss{}, NoOptimizer{}, std::tuple<>());
  LoadedWeights loaded_{};
  detail::TextWriter<T> writer_;
};

template <class Net, class T, class S, class Loss, class Optimizer, class... Metrics>
Generator(const Model<Net, T, S, Loss, Optimizer, Metrics...>&) -> Generator<Net, T>;

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/saving/generator.ipp"
#endif
