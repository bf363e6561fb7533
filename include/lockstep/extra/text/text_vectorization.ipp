#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/text/detail/number_writer.hpp"
#include "lockstep/extra/text/detail/unicode.hpp"
#include "lockstep/extra/text/text_vectorization.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Keras's words for the options' values.
inline constexpr std::string_view standardize_names[] = {"lower_and_strip_punctuation", "lower",
                                                         "strip_punctuation", "none"};
inline constexpr std::string_view split_names[] = {"whitespace", "character", "none"};

/// Calls f(token) for each token of a text.
template <class F>
void each_token(const TextVectorizationOptions& options, std::string_view text, const F& f) {
  using enum TextStandardize;
  std::string standardized;
  if (options.standardize != none) {
    const bool lowers = options.standardize != strip_punctuation;
    const bool strips = options.standardize != lower;
    standardized.reserve(text.size());
    for (const char c : text) {
      const bool is_upper = c >= 'A' && c <= 'Z';
      const bool is_word = is_upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
      if (strips && c > ' ' && c < '\x7f' && !is_word) continue;
      standardized += lowers && is_upper ? static_cast<char>(c - 'A' + 'a') : c;
    }
    text = standardized;
  }
  if (options.split == TextSplit::none) return f(text);
  while (!text.empty()) {
    if (options.split == TextSplit::character) {
      const Character first = first_character(text);
      const bool is_replaced = first.code == 0xFFFD;
      f(is_replaced ? std::string_view("\xEF\xBF\xBD") : text.substr(0, first.size));
      text.remove_prefix(first.size);
    } else {
      constexpr std::string_view blanks = " \t\n\v\f\r";
      text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
      const std::size_t end = std::min(text.find_first_of(blanks), text.size());
      if (end > 0) f(text.substr(0, end));
      text.remove_prefix(end);
    }
  }
}

LOCKSTEP_INLINE TextLookup::TextLookup(const TextVectorizationOptions& options)
    : options_(options),
      table_({.owner = "TextVectorization",
              .options = {.max_tokens = options.max_tokens, .output_mode = options.output_mode},
              .mask_token = ""}) {}

LOCKSTEP_INLINE void TextLookup::adapt(EachText texts) {
  table_.adapt([&](FunctionRef<void(EachText)> sample) {
    texts([&](std::string_view text) {
      sample([&](FunctionRef<void(std::string_view)> add) { each_token(options_, text, add); });
    });
  });
}

template <class T>
void TextLookup::write_numbers(std::string_view text, std::span<T> x) const {
  const bool is_int = options_.output_mode == TextOutput::int_;
  const std::size_t size = is_int ? options_.output_sequence_length : options_.max_tokens;
  if (x.size() != size)
    throw ConfigurationError(concat(
        {"TextVectorization: expected room for output_size = ", size, " numbers, got ", x.size()}));
  table_.check();
  if (!is_int) {
    NumberWriter<T> writer("TextVectorization", options_.output_mode, size, table_.idf_weights(),
                           x);
    return each_token(options_, text,
                      [&](std::string_view token) { writer.add(table_.number(token)); });
  }
  std::fill(x.begin(), x.end(), T(0));
  std::size_t place = 0;
  each_token(options_, text, [&](std::string_view token) {
    if (place == size) return;
    const std::size_t number = table_.number(token);
    x[place++] = static_cast<T>(number == masked_number ? 0 : number);
  });
}

LOCKSTEP_INLINE void TextLookup::write(std::string_view text, std::span<float> x) const {
  write_numbers(text, x);
}
LOCKSTEP_INLINE void TextLookup::write(std::string_view text, std::span<double> x) const {
  write_numbers(text, x);
}

/// The options as members of a JSON object, one a line.
inline LookupTable::Members config_of(const TextVectorizationOptions& options) {
  const auto name = [](const auto& names, auto value) {
    return json_text(names[static_cast<std::size_t>(value)]);
  };
  return {{"max_tokens", concat({options.max_tokens})},
          {"standardize", name(standardize_names, options.standardize)},
          {"split", name(split_names, options.split)},
          {"output_mode", name(output_names, options.output_mode)},
          {"output_sequence_length", concat({options.output_sequence_length})}};
}

LOCKSTEP_INLINE void TextLookup::save(const std::string& path) const {
  table_.save(path, config_of(options_));
}
LOCKSTEP_INLINE void TextLookup::load(const std::string& path) {
  table_.load(path, config_of(options_));
}
LOCKSTEP_INLINE std::string TextLookup::description() const {
  return table_.description(config_of(options_));
}

}  // namespace detail
}}  // namespace lockstep
