// What becomes of the numbers of tokens, and what StringLookup, IntegerLookup and Hashing share.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/tensor.hpp"
#include "lockstep/extra/text/texts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What becomes of the tokens of a sample: their numbers (a text's padded with 0 or cut); or, for
/// each number that there is, whether or how often it occurs, or how often times its weight, which
/// is the greater, the fewer samples have it; or, of each token, a 1 in the place of its number.
enum class TextOutput : std::uint8_t { int_, multi_hot, count, tf_idf, one_hot };

namespace detail {

/// Keras's words for the values of TextOutput.
inline constexpr std::string_view output_names[] = {"int", "multi_hot", "count", "tf_idf",
                                                    "one_hot"};

/// The number of a token that is masked: 0 with TextOutput::int_, else nothing.
inline constexpr std::size_t masked_number = static_cast<std::size_t>(-1);

/// How many numbers `values` tokens become, of `numbers` that there are.
[[nodiscard]] constexpr std::size_t encoded_size(TextOutput output, std::size_t numbers,
                                                 std::size_t values) {
  if (output == TextOutput::int_) return values;
  return output == TextOutput::one_hot ? values * numbers : numbers;
}

/// Calls of an object that turns one value, a text or a whole number, into output_size numbers.
/// `Self::write_values(EachText, std::span<T>)` makes those of several.
template <class Self, TextOutput Output, std::size_t Numbers>
class ValueEncoder {
 public:
  static constexpr std::size_t output_size = encoded_size(Output, Numbers, 1);  ///< for Input

  /// Writes the numbers of a value to `x`, of output_size. Throws ConfigurationError for another
  /// size and without a vocabulary, DataError for a value that has no number.
  template <TextValue Value>
  void operator()(const Value& value, std::span<float> x) const {
    encode(std::span<const Value>(&value, 1), x);
  }
  template <TextValue Value>
  void operator()(const Value& value, std::span<double> x) const {
    encode(std::span<const Value>(&value, 1), x);
  }
  /// The same for a line as a whole: the function of from_text_lines.
  template <class T>
  void operator()(std::string_view line, Sample<T>& sample) const {
    (*this)(line, sample.x);
  }
  /// What Predictor::predict_row takes.
  template <TextValue Value>
  [[nodiscard]] std::vector<float> operator()(const Value& value) const {
    std::vector<float> x(output_size);
    (*this)(value, std::span<float>(x));
    return x;
  }
  /// A row for each value of a range: what fit, predict and from_tensor_slices take.
  template <class Values = std::initializer_list<std::string_view>>
    requires(!TextValue<Values>)
  [[nodiscard]] Tensor<float> operator()(const Values& values) const {
    std::vector<float> rows;
    each_text(values, [&](std::string_view value) {
      rows.resize(rows.size() + output_size);
      (*this)(value, std::span(rows).last(output_size));
    });
    const std::size_t count = rows.size() / output_size;
    return {std::move(rows), {count, output_size}};
  }
  /// Several values that are one sample. `x` has a number for each with int_, output_size for each
  /// with one_hot, and else output_size.
  template <class Values = std::initializer_list<std::string_view>>
  void encode(const Values& values, std::span<float> x) const {
    self().write_values([&](FunctionRef<void(std::string_view)> add) { each_text(values, add); },
                        x);
  }
  template <class Values = std::initializer_list<std::string_view>>
  void encode(const Values& values, std::span<double> x) const {
    self().write_values([&](FunctionRef<void(std::string_view)> add) { each_text(values, add); },
                        x);
  }

  /// For from_text_lines; `target_size`: numbers of a target.
  [[nodiscard]] static SampleSizes sizes(std::size_t target_size = 0) {
    return {.sample_size = output_size, .target_size = target_size};
  }

 private:
  [[nodiscard]] const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace detail
}}  // namespace lockstep
