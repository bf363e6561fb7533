#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/text/detail/json_tree.hpp"
#include "lockstep/extra/text/detail/number_writer.hpp"
#include "lockstep/extra/text/lookup.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A text of a whole number.
inline std::optional<std::int64_t> whole_number(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  text = text.substr(0, text.find_last_not_of(blanks) + 1);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || last != end) return {};
  return number;
}

LOCKSTEP_INLINE std::vector<std::string> decimals(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> texts;
  for (const std::int64_t number : numbers) texts.push_back(decimal(number));
  return texts;
}

LOCKSTEP_INLINE std::vector<std::int64_t> numbers_of(const std::vector<std::string>& decimals) {
  std::vector<std::int64_t> numbers;
  for (const std::string& text : decimals) numbers.push_back(whole_number(text).value_or(0));
  return numbers;
}

struct LookupTable::Words {
  std::vector<std::string> tokens;
  std::unordered_map<std::string_view, std::size_t> numbers = {};
  std::vector<float> idf_weights = {};
};

LOCKSTEP_INLINE std::vector<std::string> LookupTable::special_tokens() const {
  std::vector<std::string> tokens;
  if (config_.mask_token && config_.options.output_mode == TextOutput::int_)
    tokens.push_back(*config_.mask_token);
  tokens.insert(tokens.end(), config_.options.num_oov_indices, config_.oov_token);
  return tokens;
}

LOCKSTEP_INLINE std::size_t LookupTable::special_count() const noexcept {
  const bool has_mask = config_.mask_token && config_.options.output_mode == TextOutput::int_;
  return config_.options.num_oov_indices + (has_mask ? 1 : 0);
}

/// The form in which a vocabulary has a token: for IntegerLookup, the decimal number.
inline std::string known_form(const LookupTable::Config& config, std::string_view token) {
  if (!config.is_integer) return std::string(token);
  if (config.mask_token && token.empty()) return *config.mask_token;
  const auto number = whole_number(token);
  if (!number)
    throw DataError(
        concat({config.owner, ": expected a whole number of 64 bits, got ", in_quotes(token)}));
  return decimal(*number);
}

LOCKSTEP_INLINE void LookupTable::adapt(
    FunctionRef<void(FunctionRef<void(EachText)>)> each_sample) {
  struct Count {
    std::uint64_t tokens = 0, samples = 0, last_sample = 0;
  };
  std::unordered_map<std::string, Count> counts;
  std::uint64_t samples = 0;
  each_sample([&](EachText tokens) {
    ++samples;
    tokens([&](std::string_view token) {
      Count& count = counts[known_form(config_, token)];
      ++count.tokens;
      if (std::exchange(count.last_sample, samples) != samples) ++count.samples;
    });
  });
  if (config_.mask_token) counts.erase(*config_.mask_token);
  counts.erase(config_.oov_token);
  std::vector<std::pair<std::string, Count>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted, [&](const auto& one, const auto& other) {
    if (one.second.tokens != other.second.tokens) return one.second.tokens > other.second.tokens;
    if (config_.is_integer) return *whole_number(one.first) > *whole_number(other.first);
    return one.first > other.first;
  });
  const std::size_t most =
      config_.options.max_tokens - std::min(config_.options.max_tokens, special_count());
  sorted.resize(std::min(sorted.size(), most));
  std::vector<std::string> vocabulary;
  std::vector<float> weights;
  for (auto& [token, count] : sorted) {
    vocabulary.push_back(std::move(token));
    if (config_.options.output_mode != TextOutput::tf_idf) continue;
    const double share = static_cast<double>(samples) / static_cast<double>(1 + count.samples);
    weights.push_back(static_cast<float>(std::log(1 + share)));
  }
  set_vocabulary(std::move(vocabulary), std::move(weights));
}

LOCKSTEP_INLINE void LookupTable::set_vocabulary(std::vector<std::string> vocabulary,
                                                 std::vector<float> idf_weights) {
  const auto refuse = [&](std::initializer_list<TextPiece> why) {
    throw ConfigurationError(concat({config_.owner, ": ", concat(why)}));
  };
  const std::vector<std::string> special = special_tokens();
  const std::size_t given = vocabulary.size();
  const bool has_special = vocabulary.size() >= special.size() &&
                           std::equal(special.begin(), special.end(), vocabulary.begin());
  if (has_special) vocabulary.erase(vocabulary.begin(), vocabulary.begin() + std::ssize(special));
  const LookupOptions& options = config_.options;
  if (vocabulary.empty())
    refuse(
        {"the vocabulary is empty: the ", config_.is_integer ? "data" : "texts", " have no token"});
  const std::size_t size = vocabulary.size() + special.size();
  if (size > options.max_tokens)
    refuse({"the vocabulary has ", size,
            " tokens, the special ones included, expected at most .max_tokens = ",
            options.max_tokens});
  const auto words = std::make_shared<Words>(Words{.tokens = std::move(vocabulary)});
  for (std::string& token : words->tokens) {
    if (config_.is_integer && !whole_number(token))
      refuse({in_quotes(token), " in the vocabulary is no whole number"});
    token = known_form(config_, token);
    if (token == config_.oov_token || token == config_.mask_token)
      refuse({"the special token ", in_quotes(token),
              " stands within the vocabulary: put the special tokens first (", special.size(),
              " of them), or leave them out"});
    if (!words->numbers.emplace(token, words->numbers.size() + special.size()).second)
      refuse({in_quotes(token), " stands twice in the vocabulary"});
  }
  if (options.output_mode == TextOutput::tf_idf) {
    if (idf_weights.size() != given)
      refuse({"expected a weight for each of the ", given, " tokens (tf_idf), got ",
              idf_weights.size()});
    if (!has_special || special.empty()) {
      const float mean = std::accumulate(idf_weights.begin(), idf_weights.end(), 0.0F) /
                         static_cast<float>(idf_weights.size());
      idf_weights.insert(idf_weights.begin(), special.size(), mean);
    }
    idf_weights.resize(options.max_tokens);
    words->idf_weights = std::move(idf_weights);
  } else if (!idf_weights.empty()) {
    refuse({"weights of tokens belong to TextOutput::tf_idf"});
  }
  words_ = words;
}

LOCKSTEP_INLINE std::vector<std::string> LookupTable::get_vocabulary(
    bool include_special_tokens) const {
  std::vector<std::string> all;
  if (include_special_tokens) all = special_tokens();
  if (words_) all.insert(all.end(), words_->tokens.begin(), words_->tokens.end());
  return all;
}

LOCKSTEP_INLINE std::size_t LookupTable::vocabulary_size() const noexcept {
  return special_count() + (words_ ? words_->tokens.size() : 0);
}

LOCKSTEP_INLINE std::span<const float> LookupTable::idf_weights() const noexcept {
  return words_ ? std::span<const float>(words_->idf_weights) : std::span<const float>();
}

LOCKSTEP_INLINE void LookupTable::check() const {
  if (!words_)
    throw ConfigurationError(concat(
        {config_.owner, ": there is no vocabulary: call adapt or set_vocabulary, or load a file"}));
}

LOCKSTEP_INLINE std::size_t LookupTable::number(std::string_view token) const {
  check();
  std::string form;
  if (config_.is_integer) token = form = known_form(config_, token);
  if (token == config_.mask_token) return masked_number;
  const auto found = words_->numbers.find(token);
  if (found != words_->numbers.end()) return found->second;
  const std::size_t others = config_.options.num_oov_indices;
  if (others == 0)
    throw DataError(concat({config_.owner, ": ", in_quotes(token),
                            " is not in the vocabulary: let .num_oov_indices be 1 or more"}));
  std::size_t other = 0;
  if (others > 1 && config_.is_integer) {
    const auto modulus = static_cast<std::int64_t>(others);
    other = static_cast<std::size_t>((*whole_number(token) % modulus + modulus) % modulus);
  } else if (others > 1) {
    other = hash_bin(token, others, config_.salt);
  }
  return special_count() - others + other;
}

LOCKSTEP_INLINE std::string LookupTable::invert(std::size_t number) const {
  const std::size_t special = special_count();
  if (number == 0 && special > config_.options.num_oov_indices) return *config_.mask_token;
  if (!words_ || number < special || number - special >= words_->tokens.size())
    return config_.oov_token;
  return words_->tokens[number - special];
}

template <class T>
void LookupTable::write(EachText tokens, std::span<T> x) const {
  check();
  NumberWriter<T> writer(config_.owner, config_.options.output_mode, config_.options.max_tokens,
                         idf_weights(), x);
  tokens([&](std::string_view token) { writer.add(number(token)); });
  writer.finish();
}
LOCKSTEP_INSTANCE_ONCE(void LookupTable::write(EachText, std::span<float>) const);
LOCKSTEP_INSTANCE_ONCE(void LookupTable::write(EachText, std::span<double>) const);

LOCKSTEP_INLINE void LookupTable::save(const std::string& path, const Members& config) const {
  std::string json =
      concat({"{\n  \"class_name\": ", json_text(config_.owner), ",\n  \"config\": {"});
  std::string_view comma = "\n    ";
  for (const auto& [name, value] : config)
    json += concat({std::exchange(comma, ",\n    "), json_text(name), ": ", value});
  json += "\n  },\n  \"vocabulary\": [";
  comma = "\n    ";
  const std::vector<std::string> vocabulary = get_vocabulary(true);
  for (const std::string& token : vocabulary) {
    if (!is_utf8(token))
      throw DataError(concat({config_.owner, ": the token ", in_quotes(token),
                              " is no UTF-8: convert the texts (iconv), and adapt again"}));
    json += std::exchange(comma, ",\n    ");
    json += json_text(token);
  }
  json += "\n  ]";
  if (config_.options.output_mode == TextOutput::tf_idf && words_) {
    json += ",\n  \"idf_weights\": [";
    comma = "\n    ";
    for (const float weight : idf_weights().first(vocabulary.size()))
      json += concat({std::exchange(comma, ",\n    "), json_number(static_cast<double>(weight))});
    json += "\n  ]";
  }
  json += "\n}\n";
  write_file_atomically(path, std::as_bytes(std::span(json)));
}

/// A value as JSON text.
inline std::string json_value(const JsonTree& value) {
  return value.text() != nullptr ? json_text(*value.text()) : value.described();
}

LOCKSTEP_INLINE void LookupTable::load(const std::string& path, const Members& config) {
  const JsonFile file(config_.owner, path);
  const JsonTree& saved_config = file.root()["config"];
  for (const auto& [name, value] : config) {
    const JsonTree& saved = saved_config[name];
    if (saved.kind != JsonTree::Kind::scalar) file.refuse(concat({"config.", name}), value, saved);
    const std::string got = json_value(saved);
    if (got != value)
      throw ConfigurationError(
          concat({config_.owner, " ", in_quotes(path), " was saved with ", name, " = ", got,
                  "; this type has ", value, ": make them equal"}));
  }
  const auto list = [&](std::string_view name) -> const JsonTree& {
    const JsonTree& found = file.root()[name];
    if (found.kind != JsonTree::Kind::array) file.refuse(name, "a list", found);
    return found;
  };
  std::vector<std::string> tokens;
  for (const JsonTree& token : list("vocabulary").children) {
    if (!token.text()) file.refuse(concat({"vocabulary[", tokens.size(), "]"}), "a text", token);
    tokens.push_back(*token.text());
  }
  std::vector<float> weights;
  if (config_.options.output_mode == TextOutput::tf_idf) {
    for (const JsonTree& weight : list("idf_weights").children) {
      const double* const number = std::get_if<double>(&weight.scalar);
      if (number == nullptr && weight.number() == nullptr)
        file.refuse(concat({"idf_weights[", weights.size(), "]"}), "a number", weight);
      weights.push_back(
          static_cast<float>(number != nullptr ? *number : static_cast<double>(*weight.number())));
    }
  }
  try {
    set_vocabulary(std::move(tokens), std::move(weights));
  } catch (const ConfigurationError& error) {
    throw DataError(concat({in_quotes(path), ": ", error.what()}));
  }
}

LOCKSTEP_INLINE LookupTable::Members LookupTable::members() const {
  const LookupOptions& options = config_.options;
  return {
      {"max_tokens", concat({options.max_tokens})},
      {"num_oov_indices", concat({options.num_oov_indices})},
      {"output_mode", json_text(output_names[static_cast<std::size_t>(options.output_mode)])},
      {"mask_token", config_.mask_token ? json_text(*config_.mask_token) : "null"},
      {"oov_token", json_text(config_.oov_token)},
      {"salt", config_.salt ? json_text(concat({config_.salt->first, " ", config_.salt->second}))
                            : "null"}};
}

LOCKSTEP_INLINE void LookupTable::save(const std::string& path) const { save(path, members()); }

LOCKSTEP_INLINE void LookupTable::load(const std::string& path) {
  const JsonFile file(config_.owner, path);
  const JsonTree& config = file.root()["config"];
  const auto text = [&](std::string_view name) -> std::optional<std::string> {
    const JsonTree& value = config[name];
    if (value.text() != nullptr) {
      if (config_.is_integer && !whole_number(*value.text()))
        file.refuse(concat({"config.", name}), "a whole number", value);
      return *value.text();
    }
    if (value.kind != JsonTree::Kind::scalar ||
        !std::holds_alternative<std::nullptr_t>(value.scalar))
      file.refuse(concat({"config.", name}), "a text or null", value);
    return {};
  };
  config_.mask_token = text("mask_token");
  config_.oov_token = text("oov_token").value_or("");
  config_.salt = {};
  if (config_.is_integer) return load(path, members());
  if (const auto salt = text("salt")) {
    const std::size_t blank = salt->find(' ');
    std::uint64_t numbers[2] = {};
    const char* const end = salt->data() + salt->size();
    const auto one = std::from_chars(salt->data(), end, numbers[0]);
    const bool is_first = one.ec == std::errc() && one.ptr == salt->data() + blank;
    const auto other = is_first ? std::from_chars(one.ptr + 1, end, numbers[1]) : one;
    if (!is_first || other.ec != std::errc() || other.ptr != end)
      file.refuse("config.salt", "two numbers", config["salt"]);
    config_.salt = HashSalt(numbers[0], numbers[1]);
  }
  load(path, members());
}

LOCKSTEP_INLINE std::string LookupTable::description(const Members& config) const {
  std::string all;
  for (const auto& [name, value] : config) all += value + ", ";
  std::uint32_t crc = 0;
  for (const std::string& token : get_vocabulary(true))
    crc = crc32c(std::as_bytes(std::span(token.c_str(), token.size() + 1)), crc);
  crc = crc32c(std::as_bytes(idf_weights()), crc);
  return concat({config_.owner, " ", all, "vocabulary ", hex_text(crc, 8)});
}
LOCKSTEP_INLINE std::string LookupTable::description() const { return description(members()); }

}}}  // namespace lockstep::detail
