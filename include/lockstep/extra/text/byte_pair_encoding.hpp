// BytePairEncoding: texts as the tokens of GPT-2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/extra/text/texts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Options of BytePairEncoding::train, with the names of tokenizers' BpeTrainer where it has them.
struct BytePairTrainingOptions {
  std::size_t vocabulary_size = 30'000;          ///< ids, the special tokens and 256 bytes included
  std::uint64_t min_frequency = 0;               ///< pairs that occur less often are not merged
  std::vector<std::string> special_tokens = {};  ///< the first ids, as <|endoftext|>
  bool add_prefix_space = false;  ///< a text's first word is encoded as one within it
};

namespace detail {

struct BytePairs;
[[nodiscard]] std::shared_ptr<const BytePairs> train_byte_pairs(
    EachText texts, const BytePairTrainingOptions& options);

}  // namespace detail

/// The tokenizer of GPT-2: byte-pair encoding of the words that its regular expression finds. Any
/// bytes can be encoded, and decode gives them back; those that are no UTF-8 are like punctuation.
/// @code
/// const BytePairEncoding tokenizer("tokenizer.json");  // of Hugging Face's gpt2
/// const std::vector<std::uint32_t> ids = tokenizer.encode("Hello world");
/// @endcode
/// Reads and writes the `tokenizer.json` of Hugging Face's tokenizers: a model BPE with the
/// pre-tokenizer ByteLevel, added tokens, no normalizer. Ids are those that tokenizers gives, and
/// training makes the vocabulary that its BpeTrainer makes with the alphabet of ByteLevel. Letters,
/// numbers and white space are those of Unicode 16.
///
/// Copies share the vocabulary, which is constant; any number of threads may call one object.
/// Use: `BytePairEncoding::train(std::vector<std::string>{"a text"}, {.vocabulary_size = 300})`.
/// Keras: none (KerasHub's `BytePairTokenizer`).
class BytePairEncoding {
 public:
  /// Reads a tokenizer.json. Throws DataError, naming file and place, when it cannot be read, is
  /// damaged, or describes a tokenizer of another kind.
  explicit BytePairEncoding(const std::string& path);

  /// Makes a vocabulary from a range of texts (a std::vector, a LineFile) or a range of those;
  /// `text_of` gives the part of each that is the text. Stops early when no pair is left to merge.
  /// Throws ConfigurationError for a vocabulary_size without room for the 256 bytes, and for
  /// special tokens that are empty, repeated, a single character, or no UTF-8.
  template <class Texts = std::initializer_list<std::string_view>, class TextOf = detail::WholeText>
  [[nodiscard]] static BytePairEncoding train(const Texts& texts,
                                              const BytePairTrainingOptions& options,
                                              TextOf text_of = {}) {
    return BytePairEncoding(detail::train_byte_pairs(
        [&](FunctionRef<void(std::string_view)> add) {
          detail::each_text(texts, [&](std::string_view text) { add(text_of(text)); });
        },
        options));
  }

  /// Writes a tokenizer.json, whole or not at all. Throws Error when it cannot be written.
  void save(const std::string& path) const;

  /// The ids of a text. An added token is matched literally, before the text is split. Throws
  /// DataError for a byte that has no token in a vocabulary read from a file.
  [[nodiscard]] std::vector<std::uint32_t> encode(std::string_view text) const;
  /// Appends them.
  void encode(std::string_view text, std::vector<std::uint32_t>& ids) const;

  /// The bytes that ids stand for. Throws DataError for an id that there is not.
  [[nodiscard]] std::string decode(std::span<const std::uint32_t> ids,
                                   bool skip_special_tokens = true) const;

  /// Ids are less than this: what Embedding wants to know.
  [[nodiscard]] std::size_t vocabulary_size() const noexcept;
  /// The id of an added token, or of one in the file ("\u0120world" for " world").
  [[nodiscard]] std::optional<std::uint32_t> token_to_id(std::string_view token) const;

 private:
  explicit BytePairEncoding(std::shared_ptr<const detail::BytePairs> pairs)
      : pairs_(std::move(pairs)) {}

  std::shared_ptr<const detail::BytePairs> pairs_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/text/byte_pair_encoding.ipp"
#endif
