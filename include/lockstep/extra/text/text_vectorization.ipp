#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/text/detail/json_tree.hpp"
#include "lockstep/extra/text/detail/unicode.hpp"
#include "lockstep/extra/text/text_vectorization.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline constexpr std::string_view unknown_token = "[UNK]";

/// Keras's words for the options' values.
inline constexpr std::string_view standardize_names[] = {"lower_and_strip_punctuation", "lower",
                                                         "strip_punctuation", "none"};
inline constexpr std::string_view split_names[] = {"whitespace", "character", "none"};
inline constexpr std::string_view output_names[] = {"int", "multi_hot", "count"};

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

LOCKSTEP_INLINE void TextLookup::adapt(EachText texts) {
  std::unordered_map<std::string, std::uint64_t> counts;
  texts([&](std::string_view text) {
    each_token(options_, text, [&](std::string_view token) { ++counts[std::string(token)]; });
  });
  counts.erase("");
  counts.erase(std::string(unknown_token));
  std::vector<std::pair<std::uint64_t, std::string>> sorted;
  for (const auto& [token, count] : counts) sorted.emplace_back(count, token);
  std::ranges::sort(sorted, std::greater<>());
  sorted.resize(std::min(sorted.size(), options_.max_tokens - special_tokens()));
  std::vector<std::string> tokens;
  for (auto& [count, token] : sorted) tokens.push_back(std::move(token));
  set_vocabulary(std::move(tokens));
}

struct TextLookup::Words {
  std::vector<std::string> tokens;
  std::unordered_map<std::string_view, std::size_t> numbers = {};
};

LOCKSTEP_INLINE void TextLookup::set_vocabulary(std::vector<std::string> vocabulary) {
  const auto special = static_cast<std::ptrdiff_t>(special_tokens());
  if (std::ssize(vocabulary) >= special &&
      vocabulary[static_cast<std::size_t>(special) - 1] == unknown_token &&
      (special == 1 || vocabulary[0].empty()))
    vocabulary.erase(vocabulary.begin(), vocabulary.begin() + special);
  if (vocabulary.empty())
    throw ConfigurationError("TextVectorization: the vocabulary is empty: the texts have no token");
  const std::size_t size = vocabulary.size() + special_tokens();
  if (size > options_.max_tokens)
    throw ConfigurationError(concat({"TextVectorization: the vocabulary has ", size,
                                     " tokens, the special ones included, expected at most "
                                     ".max_tokens = ",
                                     options_.max_tokens}));
  const auto words = std::make_shared<Words>(Words{.tokens = std::move(vocabulary)});
  for (const std::string& token : words->tokens) {
    if (token.empty())
      throw ConfigurationError(
          "TextVectorization: the vocabulary has an empty token, which stands for padding: leave "
          "out the special tokens, or put \"\" (not for multi_hot and count) and \"[UNK]\" first");
    if (token == unknown_token)
      throw ConfigurationError(
          "TextVectorization: \"[UNK]\" stands within the vocabulary: put the special tokens "
          "first, or leave them out");
    if (!words->numbers.emplace(token, words->numbers.size() + special_tokens()).second)
      throw ConfigurationError(
          concat({"TextVectorization: ", in_quotes(token), " stands twice in the vocabulary"}));
  }
  words_ = words;
}

LOCKSTEP_INLINE std::vector<std::string> TextLookup::get_vocabulary(
    bool include_special_tokens) const {
  std::vector<std::string> all;
  if (include_special_tokens && special_tokens() == 2) all.emplace_back();
  if (include_special_tokens) all.emplace_back(unknown_token);
  if (words_) all.insert(all.end(), words_->tokens.begin(), words_->tokens.end());
  return all;
}

LOCKSTEP_INLINE std::size_t TextLookup::vocabulary_size() const noexcept {
  return special_tokens() + (words_ ? words_->tokens.size() : 0);
}

template <class T>
void TextLookup::write_numbers(std::string_view text, std::span<T> x) const {
  const bool is_int = options_.output_mode == TextOutput::int_;
  const std::size_t size = is_int ? options_.output_sequence_length : options_.max_tokens;
  if (x.size() != size)
    throw ConfigurationError(concat(
        {"TextVectorization: expected room for output_size = ", size, " numbers, got ", x.size()}));
  if (!words_)
    throw ConfigurationError(
        "TextVectorization: there is no vocabulary: call adapt or set_vocabulary, or load a file");
  std::fill(x.begin(), x.end(), T(0));
  std::size_t place = 0;
  each_token(options_, text, [&](std::string_view token) {
    if (is_int && place == size) return;
    const auto found = words_->numbers.find(token);
    const std::size_t number = found != words_->numbers.end() ? found->second
                               : token.empty() && is_int      ? 0
                                                              : special_tokens() - 1;
    if (is_int)
      x[place++] = static_cast<T>(number);
    else
      x[number] = options_.output_mode == TextOutput::count ? x[number] + 1 : T(1);
  });
}

LOCKSTEP_INLINE void TextLookup::write(std::string_view text, std::span<float> x) const {
  write_numbers(text, x);
}
LOCKSTEP_INLINE void TextLookup::write(std::string_view text, std::span<double> x) const {
  write_numbers(text, x);
}

/// The options as members of a JSON object, one a line.
inline std::vector<std::pair<std::string_view, std::string>> config_of(
    const TextVectorizationOptions& options) {
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
  std::string json = "{\n  \"class_name\": \"TextVectorization\",\n  \"config\": {";
  std::string_view comma = "\n    ";
  for (const auto& [name, value] : config_of(options_)) {
    json += concat({std::exchange(comma, ",\n    "), json_text(name), ": ", value});
  }
  json += "\n  },\n  \"vocabulary\": [";
  comma = "\n    ";
  for (const std::string& token : get_vocabulary(true)) {
    if (!is_utf8(token))
      throw DataError(concat({"TextVectorization: the token ", in_quotes(token),
                              " is no UTF-8: convert the texts (iconv), and adapt again"}));
    json += std::exchange(comma, ",\n    ");
    json += json_text(token);
  }
  json += "\n  ]\n}\n";
  write_file_atomically(path, std::as_bytes(std::span(json)));
}

LOCKSTEP_INLINE void TextLookup::load(const std::string& path) {
  const JsonFile file("TextVectorization", path);
  const JsonTree& config = file.root()["config"];
  for (const auto& [name, value] : config_of(options_)) {
    const JsonTree& saved = config[name];
    if (saved.kind != JsonTree::Kind::scalar) file.refuse(concat({"config.", name}), value, saved);
    const std::string got = saved.text() ? json_text(*saved.text()) : saved.described();
    if (got != value)
      throw ConfigurationError(
          concat({"TextVectorization ", in_quotes(path), " was saved with ", name, " = ", got,
                  "; this type has ", value, ": make them equal"}));
  }
  const JsonTree& vocabulary = file.root()["vocabulary"];
  if (vocabulary.kind != JsonTree::Kind::array) file.refuse("vocabulary", "a list", vocabulary);
  std::vector<std::string> tokens;
  for (const JsonTree& token : vocabulary.children) {
    if (!token.text()) file.refuse(concat({"vocabulary[", tokens.size(), "]"}), "a text", token);
    tokens.push_back(*token.text());
  }
  try {
    set_vocabulary(std::move(tokens));
  } catch (const ConfigurationError& error) {
    throw DataError(concat({in_quotes(path), ": ", error.what()}));
  }
}

LOCKSTEP_INLINE std::string TextLookup::description() const {
  std::string all;
  for (const auto& [name, value] : config_of(options_)) all += value + ", ";
  std::uint32_t crc = 0;
  for (const std::string& token : get_vocabulary(true))
    crc = crc32c(std::as_bytes(std::span(token.c_str(), token.size() + 1)), crc);
  return concat({"TextVectorization ", all, "vocabulary ", hex_text(crc, 8)});
}

}  // namespace detail
}}  // namespace lockstep
