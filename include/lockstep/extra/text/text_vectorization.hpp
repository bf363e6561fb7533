// TextVectorization: texts as the numbers of their words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/tensor.hpp"
#include "lockstep/extra/text/lookup.hpp"
#include "lockstep/extra/text/texts.hpp"
#include "lockstep/extra/text/token_output.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What happens to a text first. Lower case and punctuation are those of ASCII; punctuation is
/// removed, not replaced.
enum class TextStandardize : std::uint8_t {
  lower_and_strip_punctuation,
  lower,
  strip_punctuation,
  none
};
/// The tokens of a text: what stands between white space (of ASCII), each character of its UTF-8,
/// or the text as a whole.
enum class TextSplit : std::uint8_t { whitespace, character, none };

/// Options of TextVectorization, with Keras's names and defaults.
struct TextVectorizationOptions {
  std::size_t max_tokens = 0;  ///< numbers that there are, with those of padding and [UNK]
  TextStandardize standardize = TextStandardize::lower_and_strip_punctuation;
  TextSplit split = TextSplit::whitespace;
  TextOutput output_mode = TextOutput::int_;  ///< not one_hot
  std::size_t output_sequence_length = 0;     ///< numbers of a text; with int_ only
};

namespace detail {

/// TextVectorization, but for what its type says. Copies share the vocabulary, which is constant.
class TextLookup {
 public:
  explicit TextLookup(const TextVectorizationOptions& options);

  void adapt(EachText texts);
  [[nodiscard]] LookupTable& table() noexcept { return table_; }
  [[nodiscard]] const LookupTable& table() const noexcept { return table_; }
  void load(const std::string& path);
  void save(const std::string& path) const;
  void write(std::string_view text, std::span<float> x) const;
  void write(std::string_view text, std::span<double> x) const;
  [[nodiscard]] std::string description() const;

 private:
  template <class T>
  void write_numbers(std::string_view text, std::span<T> x) const;

  TextVectorizationOptions options_;
  LookupTable table_;
};

}  // namespace detail

/// Turns a text into numbers: standardises it, splits it into tokens, and looks each up in a
/// vocabulary, which `adapt` learns. With TextOutput::int_, 0 is padding (for `.mask_zero`), 1 any
/// other token, [UNK], and the most frequent token is 2; of equally frequent ones, the one whose
/// bytes are greater comes first. Otherwise there is no padding, 0 is [UNK], and an output has
/// max_tokens numbers (Keras's `pad_to_max_tokens`).
/// @code
/// using Text = TextVectorization<
///     TextVectorizationOptions{.max_tokens = 10'000, .output_sequence_length = 64}>;
/// Text text;
/// text.adapt(LineFile("reviews.txt"));
/// auto reviews = from_text_lines({"reviews.txt"}, text, text.sizes());
/// text.save("text.json");  // for the program that predicts: Text text("text.json")
/// @endcode
/// It is a function of from_text_lines, or called by yours, and a CsvColumn's `.text`. Copies share
/// the vocabulary; any number of threads may call one object. Workers must have the same
/// vocabulary: let all read the same lines, or the same file.
/// Use: `TextVectorization<TextVectorizationOptions{.max_tokens = 10'000, .output_sequence_length =
/// 64}>{}`.
template <TextVectorizationOptions Options>
class TextVectorization {
  static constexpr bool is_int = Options.output_mode == TextOutput::int_;
  static_assert(Options.max_tokens > (is_int ? 2 : 1),
                "lockstep: TextVectorization needs .max_tokens, which counts padding and [UNK]");
  static_assert(Options.output_mode != TextOutput::one_hot,
                "lockstep: the output of TextVectorization is int_, multi_hot, count or tf_idf");
  static_assert(!is_int || Options.output_sequence_length > 0,
                "lockstep: TextVectorization needs .output_sequence_length, the numbers of a text");
  static_assert(is_int || Options.output_sequence_length == 0,
                "lockstep: .output_sequence_length belongs to TextOutput::int_: with the "
                "others a text has max_tokens numbers");

 public:
  static constexpr std::size_t max_tokens = Options.max_tokens;  ///< for Embedding
  static constexpr std::size_t output_size =
      is_int ? Options.output_sequence_length : max_tokens;  ///< for Input

  /// Without a vocabulary.
  TextVectorization() : lookup_(Options) {}
  /// With that of a file. Throws DataError when it cannot be read or is damaged, ConfigurationError
  /// when it was saved with other options.
  explicit TextVectorization(const std::string& path) : lookup_(Options) { lookup_.load(path); }

  /// Learns the vocabulary, in place of one that there is, from a range of texts (a std::vector, a
  /// LineFile, CsvTable::texts(column)) or a range of those. `text_of` gives the part of each that
  /// is the text: `[](std::string_view line) { return line.substr(2); }`. Throws ConfigurationError
  /// when there is no token.
  template <class Texts = std::initializer_list<std::string_view>, class TextOf = detail::WholeText>
  void adapt(const Texts& texts, TextOf text_of = {}) {
    lookup_.adapt([&](FunctionRef<void(std::string_view)> add) {
      detail::each_text(texts, [&](std::string_view text) { add(text_of(text)); });
    });
  }

  /// Takes tokens as they are, the first as the most frequent one, with or without the special ones
  /// before them; for tf_idf, with a weight for each. Throws ConfigurationError for none, too many,
  /// an empty or a repeated one.
  void set_vocabulary(std::vector<std::string> vocabulary, std::vector<float> idf_weights = {}) {
    lookup_.table().set_vocabulary(std::move(vocabulary), std::move(idf_weights));
  }
  /// The token of each number: "", "[UNK]", and the others.
  [[nodiscard]] std::vector<std::string> get_vocabulary(bool include_special_tokens = true) const {
    return lookup_.table().get_vocabulary(include_special_tokens);
  }
  /// At most max_tokens.
  [[nodiscard]] std::size_t vocabulary_size() const noexcept {
    return lookup_.table().vocabulary_size();
  }

  /// Writes options and vocabulary as JSON, whole or not at all. Throws DataError for a token that
  /// is no UTF-8, Error when the file cannot be written.
  void save(const std::string& path) const { lookup_.save(path); }

  /// Writes the numbers of a text to `x`, of output_size. Throws ConfigurationError for another
  /// size and without a vocabulary.
  void operator()(std::string_view text, std::span<float> x) const { lookup_.write(text, x); }
  void operator()(std::string_view text, std::span<double> x) const { lookup_.write(text, x); }
  /// The same for a line as a whole: the function of from_text_lines.
  template <class T>
  void operator()(std::string_view line, Sample<T>& sample) const {
    lookup_.write(line, sample.x);
  }
  /// What Predictor::predict_row takes.
  [[nodiscard]] std::vector<float> operator()(std::string_view text) const {
    std::vector<float> x(output_size);
    lookup_.write(text, std::span<float>(x));
    return x;
  }
  /// A row for each text of a range: what fit, predict and from_tensor_slices take.
  template <class Texts = std::initializer_list<std::string_view>>
    requires(!std::convertible_to<const Texts&, std::string_view>)
  [[nodiscard]] Tensor<float> operator()(const Texts& texts) const {
    std::vector<float> rows;
    detail::each_text(texts, [&](std::string_view text) {
      rows.resize(rows.size() + output_size);
      lookup_.write(text, std::span(rows).last(output_size));
    });
    const std::size_t count = rows.size() / output_size;
    return {std::move(rows), {count, output_size}};
  }

  /// For from_text_lines; `target_size`: numbers of a target.
  [[nodiscard]] static SampleSizes sizes(std::size_t target_size = 0) {
    return {.sample_size = output_size, .target_size = target_size};
  }
  /// What workers compare: the options, and a checksum of the vocabulary.
  [[nodiscard]] std::string description() const { return lookup_.description(); }

 private:
  detail::TextLookup lookup_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/text/text_vectorization.ipp"
#endif
