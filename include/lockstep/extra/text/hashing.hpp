// Hashing, HashedCrossing: values as one of some bins, without a vocabulary.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/tensor.hpp"
#include "lockstep/extra/text/texts.hpp"
#include "lockstep/extra/text/token_output.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The key of a hash: Keras's `salt`, a number or two.
struct HashSalt {
  std::uint64_t first, second;

  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr HashSalt(std::uint64_t salt) : HashSalt(salt, salt) {}
  constexpr HashSalt(std::uint64_t one, std::uint64_t other) : first(one), second(other) {}
};

/// Compile-time options of Hashing and HashedCrossing, with Keras's names.
struct HashingOptions {
  std::size_t num_bins = 0;
  TextOutput output_mode = TextOutput::int_;  ///< not tf_idf
};

/// The other options of Hashing.
struct HashingValues {
  /// The value of bin 0, which no other then has; "0" is the number 0, too.
  std::optional<std::string> mask_value = {};
  std::optional<HashSalt> salt = {};  ///< Keras's hash with a key in place of the one without
};

namespace detail {

/// FarmHash's Fingerprint64.
[[nodiscard]] std::uint64_t fingerprint(std::string_view text);
/// The same of two fingerprints (TensorFlow's FingerprintCat64).
[[nodiscard]] std::uint64_t fingerprint(std::uint64_t one, std::uint64_t other);
/// The bin of a text: its fingerprint, or with a salt its SipHash, modulo `bins`.
[[nodiscard]] std::size_t hash_bin(std::string_view text, std::size_t bins,
                                   const std::optional<HashSalt>& salt);

/// Hashing, but for what its type says.
class TextHash {
 public:
  TextHash(const HashingOptions& options, HashingValues values)
      : options_(options), values_(std::move(values)) {}

  template <class T>
  void write(EachText values, std::span<T> x) const;
  [[nodiscard]] std::string description() const;

 private:
  HashingOptions options_;
  HashingValues values_;
};

/// What features have in common so far.
inline constexpr std::uint64_t no_features = 0xDECAFCAFFE;

/// Throws ConfigurationError for ranges of different lengths.
void check_crossed(std::span<const std::size_t> sizes);
/// Writes the bin of crossed features.
template <class T>
void write_bin(const HashingOptions& options, std::uint64_t crossed, std::span<T> x);

}  // namespace detail

/// Turns a text or a whole number, which is hashed as its digits, into the number of a bin: for
/// names of which there are too many for a vocabulary, or new ones later on. Different values may
/// have the same bin. Nothing is learned, so nothing is to be saved; bins are Keras's. For an
/// Embedding of num_bins, or with TextOutput::one_hot (of several values, multi_hot and count) for
/// a Dense.
/// @code
/// const Hashing<HashingOptions{.num_bins = 64}> hashing({.mask_value = ""});
/// const auto visits = from_csv({"visits.csv"}, {.features = {{.name = "city", .text = hashing}}});
/// @endcode
/// It is called like a StringLookup. Any number of threads may call one object.
/// Use: `Hashing<HashingOptions{.num_bins = 64}>({.mask_value = ""})`. Keras: `Hashing(num_bins=64,
/// mask_value="")`.
template <HashingOptions Options>
class Hashing
    : public detail::ValueEncoder<Hashing<Options>, Options.output_mode, Options.num_bins> {
  static_assert(Options.num_bins > 0, "lockstep: Hashing needs .num_bins");
  static_assert(Options.output_mode != TextOutput::tf_idf,
                "lockstep: Hashing learns nothing, hence no weights: take TextOutput::count");

 public:
  explicit Hashing(HashingValues values = {}) : hash_(Options, std::move(values)) {}

  /// What workers compare.
  [[nodiscard]] std::string description() const { return hash_.description(); }

 private:
  friend detail::ValueEncoder<Hashing<Options>, Options.output_mode, Options.num_bins>;
  template <class T>
  void write_values(detail::EachText values, std::span<T> x) const {
    hash_.write(values, x);
  }

  detail::TextHash hash_;
};

/// The bin of two or more values together, texts or whole numbers, in their order: what a linear
/// model needs to know of "young, in the city" that neither says alone. Bins are Keras's.
/// @code
/// const HashedCrossing<HashingOptions{.num_bins = 100, .output_mode = TextOutput::one_hot}> cross;
/// const std::vector<float> row = cross("Lyon", 37);
/// const Tensor<float> rows = cross(table.texts("city"), table.texts("job"));
/// @endcode
/// Any number of threads may call one object.
/// Use: `HashedCrossing<HashingOptions{.num_bins = 100}>{}`. Keras: `HashedCrossing(100)`.
template <HashingOptions Options>
class HashedCrossing {
  static_assert(Options.num_bins > 0, "lockstep: HashedCrossing needs .num_bins");
  static_assert(Options.output_mode == TextOutput::int_ ||
                    Options.output_mode == TextOutput::one_hot,
                "lockstep: the output of HashedCrossing is TextOutput::int_ or one_hot");

 public:
  static constexpr std::size_t output_size =
      detail::encoded_size(Options.output_mode, Options.num_bins, 1);  ///< for Input

  /// Writes the bin of the values together to `x`, of output_size. Throws ConfigurationError for
  /// another size.
  template <class T, detail::TextValue... Values>
  static void write(std::span<T> x, const Values&... values) {
    static_assert(sizeof...(Values) >= 2, "lockstep: HashedCrossing crosses two values or more");
    std::uint64_t crossed = detail::no_features;
    ((crossed = detail::fingerprint(crossed, feature(values))), ...);
    detail::write_bin(Options, crossed, x);
  }
  template <detail::TextValue... Values>
  [[nodiscard]] std::vector<float> operator()(const Values&... values) const {
    std::vector<float> x(output_size);
    write(std::span(x), values...);
    return x;
  }
  /// A row for each place of ranges with [] and size(). Throws ConfigurationError for ranges of
  /// different lengths.
  template <class... Ranges>
    requires(!(detail::TextValue<Ranges> || ...))
  [[nodiscard]] Tensor<float> operator()(const Ranges&... ranges) const {
    const std::size_t sizes[] = {ranges.size()...};
    detail::check_crossed(sizes);
    std::vector<float> rows(sizes[0] * output_size);
    for (std::size_t i = 0; i < sizes[0]; ++i)
      write(std::span(rows).subspan(i * output_size, output_size), ranges[i]...);
    return {std::move(rows), {sizes[0], output_size}};
  }

 private:
  template <class Value>
  [[nodiscard]] static std::uint64_t feature(const Value& value) {
    if constexpr (std::integral<Value>)
      return static_cast<std::uint64_t>(value);
    else
      return detail::fingerprint(std::string_view(value));
  }
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/text/hashing.ipp"
#endif
