// StringLookup, IntegerLookup: values as their numbers in a vocabulary.
#pragma once

#include <concepts>
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
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/text/hashing.hpp"
#include "lockstep/extra/text/texts.hpp"
#include "lockstep/extra/text/token_output.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of StringLookup and IntegerLookup, with Keras's names and defaults.
struct LookupOptions {
  std::size_t max_tokens = 0;       ///< numbers that there are, with those of mask and other values
  std::size_t num_oov_indices = 1;  ///< of values that are not in the vocabulary; 0: an error
  TextOutput output_mode = TextOutput::int_;
};

/// The other options of StringLookup.
struct StringLookupValues {
  std::vector<std::string> vocabulary = {};    ///< in place of adapt
  std::optional<std::string> mask_token = {};  ///< number 0; with other outputs than int_ nothing
  std::string oov_token = "[UNK]";             ///< what invert makes of other numbers
  std::optional<HashSalt> salt = {};           ///< of the hash that chooses among oov indices
};

/// The other options of IntegerLookup.
struct IntegerLookupValues {
  std::vector<std::int64_t> vocabulary = {};
  std::optional<std::int64_t> mask_token = {};
  std::int64_t oov_token = -1;
};

namespace detail {

/// A vocabulary and the numbers of its tokens: first 0 for the mask, where there is one and the
/// output is int_, then `num_oov_indices` for other tokens, then those of the vocabulary. Copies
/// share it, which is constant. Whole numbers are their decimal digits.
class LookupTable {
 public:
  struct Config {
    std::string_view owner;  ///< for errors
    LookupOptions options;
    bool is_integer = false;
    std::optional<std::string> mask_token = {};
    std::string oov_token = "[UNK]";
    std::optional<HashSalt> salt = {};
  };
  /// Names and JSON values of further options.
  using Members = std::vector<std::pair<std::string_view, std::string>>;

  explicit LookupTable(Config config) : config_(std::move(config)) {}

  [[nodiscard]] const Config& config() const noexcept { return config_; }
  /// `each_sample` calls its function for each sample with the tokens.
  void adapt(FunctionRef<void(FunctionRef<void(EachText)>)> each_sample);
  void set_vocabulary(std::vector<std::string> vocabulary, std::vector<float> idf_weights = {});
  [[nodiscard]] std::vector<std::string> get_vocabulary(bool include_special_tokens) const;
  [[nodiscard]] std::size_t vocabulary_size() const noexcept;
  /// Of tf_idf: max_tokens numbers.
  [[nodiscard]] std::span<const float> idf_weights() const noexcept;
  /// Throws ConfigurationError without a vocabulary.
  void check() const;
  /// The same, and DataError for a token that has no number.
  [[nodiscard]] std::size_t number(std::string_view token) const;
  [[nodiscard]] std::string invert(std::size_t number) const;
  template <class T>
  void write(EachText tokens, std::span<T> x) const;

  /// As JSON, with the members of the class that owns it.
  void save(const std::string& path, const Members& config) const;
  void load(const std::string& path, const Members& config);
  /// The same with its options: load takes mask, oov_token and salt of the file.
  void save(const std::string& path) const;
  void load(const std::string& path);
  [[nodiscard]] std::string description(const Members& config) const;
  [[nodiscard]] std::string description() const;

 private:
  struct Words;
  [[nodiscard]] std::vector<std::string> special_tokens() const;
  [[nodiscard]] std::size_t special_count() const noexcept;
  [[nodiscard]] Members members() const;

  Config config_;
  std::shared_ptr<const Words> words_;  // null without a vocabulary
};

/// Calls `sample` for each sample of a range: a text, or a range of texts.
template <class Samples, class F>
void each_sample(const Samples& samples, const F& sample) {
  const auto one = [&](const auto& texts) {
    sample([&](FunctionRef<void(std::string_view)> add) { each_text(texts, add); });
  };
  if constexpr (requires { samples.begin() != samples.end(); }) {
    for (const auto& texts : samples) one(texts);
  } else {
    for (std::size_t i = 0; i < samples.size(); ++i) one(samples[i]);
  }
}

[[nodiscard]] inline std::string decimal(std::int64_t number) { return concat({number}); }
[[nodiscard]] std::vector<std::string> decimals(const std::vector<std::int64_t>& numbers);
/// Back from what `decimals` has made.
[[nodiscard]] std::vector<std::int64_t> numbers_of(const std::vector<std::string>& decimals);

/// What StringLookup and IntegerLookup have in common.
template <class Self, LookupOptions Options>
class Lookup : public ValueEncoder<Self, Options.output_mode, Options.max_tokens> {
  static_assert(Options.max_tokens > Options.num_oov_indices,
                "lockstep: StringLookup and IntegerLookup need .max_tokens, which counts the "
                "numbers of the mask and of other values");

 public:
  static constexpr std::size_t max_tokens = Options.max_tokens;  ///< for Embedding

  /// Learns the vocabulary, in place of one that there is, from a range of values (a std::vector, a
  /// CsvTable::texts(column)) or a range of samples of several values. The most frequent value
  /// comes first; of equally frequent ones, the greater one, as in Keras. Throws ConfigurationError
  /// when there is none.
  template <class Samples = std::initializer_list<std::string_view>>
  void adapt(const Samples& samples) {
    table_.adapt([&](FunctionRef<void(EachText)> sample) { each_sample(samples, sample); });
  }
  /// At most max_tokens.
  [[nodiscard]] std::size_t vocabulary_size() const noexcept { return table_.vocabulary_size(); }
  /// Writes options and vocabulary as JSON, whole or not at all. Throws DataError for a value that
  /// is no UTF-8, Error when the file cannot be written.
  void save(const std::string& path) const { table_.save(path); }
  /// What workers compare: the options, and a checksum of the vocabulary.
  [[nodiscard]] std::string description() const { return table_.description(); }

 protected:
  explicit Lookup(LookupTable::Config config) : table_(std::move(config)) {}
  LookupTable table_;

 private:
  friend ValueEncoder<Self, Options.output_mode, Options.max_tokens>;
  template <class T>
  void write_values(EachText values, std::span<T> x) const {
    table_.write(values, x);
  }
};

}  // namespace detail

/// Turns a text into its number in a vocabulary, which `adapt` learns: from num_oov_indices on the
/// vocabulary, the most frequent text first, below them any other text, and with a mask_token all
/// of them one higher, as it is number 0. Outputs beside int_ have max_tokens numbers (Keras's
/// `pad_to_max_tokens`), and nothing for the mask; of tf_idf, weights are those of the samples that
/// adapt has seen.
/// @code
/// using City = StringLookup<LookupOptions{.max_tokens = 100, .output_mode = TextOutput::one_hot}>;
/// City city;
/// city.adapt(read_csv("visits.csv").texts("city"));
/// const auto visits = from_csv({"visits.csv"}, {.features = {{.name = "city", .text = city}}});
/// city.save("city.json");  // for the program that predicts: City city("city.json")
/// city("Lyon");            // 100 numbers
/// @endcode
/// `lookup(text, x)` writes numbers, `lookup(text)` gives them, `lookup(texts)` a row for each, and
/// `encode(texts, x)` those of several texts that are one sample. Copies share the vocabulary; any
/// number of threads may call one object. Workers must have the same vocabulary: let all read the
/// same texts, or the same file.
/// Use: `StringLookup<LookupOptions{.max_tokens = 3}>({.vocabulary = {"red", "green"}})`. Keras:
/// `StringLookup(vocabulary=["red", "green"])`.
template <LookupOptions Options>
class StringLookup : public detail::Lookup<StringLookup<Options>, Options> {
  using Base = detail::Lookup<StringLookup<Options>, Options>;

 public:
  /// Throws ConfigurationError as set_vocabulary does.
  explicit StringLookup(StringLookupValues values = {})
      : Base({.owner = "StringLookup",
              .options = Options,
              .mask_token = std::move(values.mask_token),
              .oov_token = std::move(values.oov_token),
              .salt = values.salt}) {
    if (!values.vocabulary.empty()) set_vocabulary(std::move(values.vocabulary));
  }
  /// With the vocabulary, mask_token, oov_token and salt of a file. Throws DataError when it cannot
  /// be read or is damaged, ConfigurationError when it was saved with other LookupOptions.
  template <std::convertible_to<std::string> Path>  // (not deduced from braces)
  explicit StringLookup(const Path& path) : StringLookup() {
    this->table_.load(path);
  }

  /// Takes texts as they are, with or without the special ones before them; for tf_idf, with a
  /// weight for each. Throws ConfigurationError for none, too many, or a repeated one, and for a
  /// special one within.
  void set_vocabulary(std::vector<std::string> vocabulary, std::vector<float> idf_weights = {}) {
    this->table_.set_vocabulary(std::move(vocabulary), std::move(idf_weights));
  }
  /// The text of each number: mask_token, oov_token, and the others.
  [[nodiscard]] std::vector<std::string> get_vocabulary(bool include_special_tokens = true) const {
    return this->table_.get_vocabulary(include_special_tokens);
  }
  /// The text of a number; oov_token of one that has none. Keras's `invert=True`.
  [[nodiscard]] std::string invert(std::size_t number) const { return this->table_.invert(number); }
};

/// Turns a whole number, or a text of its digits, into its number in a vocabulary, as StringLookup
/// does with texts: for numbers that are names (postcodes, numbers of articles), which a network of
/// floats could not tell apart above 2^24. With several oov indices the number modulo them chooses.
/// Throws DataError for a text that is no whole number; the empty text is the mask_token, if there
/// is one.
/// @code
/// using Article = IntegerLookup<LookupOptions{.max_tokens = 1'000}>;
/// Article article;
/// article.adapt(table.texts("article"));  // or a std::vector of whole numbers
/// article(std::int64_t{1'827'364});
/// @endcode
/// Use: `IntegerLookup<LookupOptions{.max_tokens = 3}>({.vocabulary = {12, 36}})`. Keras:
/// `IntegerLookup(vocabulary=[12, 36])`.
template <LookupOptions Options>
class IntegerLookup : public detail::Lookup<IntegerLookup<Options>, Options> {
  using Base = detail::Lookup<IntegerLookup<Options>, Options>;

 public:
  /// Throws ConfigurationError as set_vocabulary does.
  explicit IntegerLookup(IntegerLookupValues values = {})
      : Base({.owner = "IntegerLookup",
              .options = Options,
              .is_integer = true,
              .mask_token = values.mask_token ? std::optional(detail::decimal(*values.mask_token))
                                              : std::nullopt,
              .oov_token = detail::decimal(values.oov_token)}) {
    if (!values.vocabulary.empty()) set_vocabulary(values.vocabulary);
  }
  /// As StringLookup's.
  template <std::convertible_to<std::string> Path>  // (not deduced from braces)
  explicit IntegerLookup(const Path& path) : IntegerLookup() {
    this->table_.load(path);
  }

  /// As StringLookup::set_vocabulary.
  void set_vocabulary(const std::vector<std::int64_t>& vocabulary,
                      std::vector<float> idf_weights = {}) {
    this->table_.set_vocabulary(detail::decimals(vocabulary), std::move(idf_weights));
  }
  /// The whole number of each number: mask_token, oov_token, and the others.
  [[nodiscard]] std::vector<std::int64_t> get_vocabulary(bool include_special_tokens = true) const {
    return detail::numbers_of(this->table_.get_vocabulary(include_special_tokens));
  }
  /// The whole number of a number; oov_token of one that has none. Keras's `invert=True`.
  [[nodiscard]] std::int64_t invert(std::size_t number) const {
    return detail::numbers_of({this->table_.invert(number)})[0];
  }
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/text/lookup.ipp"
#endif
