// A choice among a model's variables.
#pragma once

#include <fnmatch.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Chooses variables by name, by the number of their dimensions, or both; none by default.
///
/// A pattern with a slash is compared with the whole name ("dense_1/bias"), one without a slash
/// with each part of it ("dense_1" and "bias"). `*` stands for any text, slashes included, `?` for
/// one character and `[ab]` for one of these.
/// @code
/// AdamW{.exclude_from_weight_decay = {"bias", "layer_normalization*"}}
/// AdamW{.exclude_from_weight_decay = fewer_dimensions_than(2)}
/// AdamW{.exclude_from_weight_decay = fewer_dimensions_than(2) | VariableFilter{"embedding*"}}
/// @endcode
class VariableFilter {
 public:
  VariableFilter() = default;
  VariableFilter(std::initializer_list<std::string_view> patterns)
      : patterns_(patterns.begin(), patterns.end()) {}

  /// Those of either.
  [[nodiscard]] friend VariableFilter operator|(VariableFilter a, const VariableFilter& b) {
    a.patterns_.insert(a.patterns_.end(), b.patterns_.begin(), b.patterns_.end());
    a.dimensions_ = std::max(a.dimensions_, b.dimensions_);
    return a;
  }
  friend VariableFilter fewer_dimensions_than(std::size_t dimensions);

  [[nodiscard]] bool empty() const noexcept { return patterns_.empty() && dimensions_ == 0; }
  [[nodiscard]] const std::vector<std::string>& patterns() const noexcept { return patterns_; }

  /// `name` as "dense_1/bias"; `dimensions` of the variable's shape.
  [[nodiscard]] bool contains(std::string_view name, std::size_t dimensions) const {
    return dimensions < dimensions_ ||
           std::ranges::any_of(patterns_,
                               [&](const std::string& pattern) { return matches(pattern, name); });
  }

  [[nodiscard]] static bool matches(const std::string& pattern, std::string_view name) {
    if (pattern.find('/') != std::string::npos) return is_like(pattern, name);
    for (std::size_t begin = 0; begin <= name.size();) {
      const std::size_t end = std::min(name.find('/', begin), name.size());
      if (is_like(pattern, name.substr(begin, end - begin))) return true;
      begin = end + 1;
    }
    return false;
  }

  /// "bias|gamma|<2d".
  [[nodiscard]] std::string description() const {
    std::string text;
    for (const std::string& pattern : patterns_)
      text.append(text.empty() ? "" : "|").append(pattern);
    if (dimensions_ > 0)
      text.append(text.empty() ? "<" : "|<").append(std::to_string(dimensions_)).append("d");
    return text;
  }

 private:
  static bool is_like(const std::string& pattern, std::string_view name) {
    return fnmatch(pattern.c_str(), std::string(name).c_str(), 0) == 0;
  }

  std::vector<std::string> patterns_;
  std::size_t dimensions_ = 0;  // variables of fewer
};

/// fewer_dimensions_than(2): biases, and what normalisations scale and shift with.
[[nodiscard]] inline VariableFilter fewer_dimensions_than(std::size_t dimensions) {
  VariableFilter filter;
  filter.dimensions_ = dimensions;
  return filter;
}

}  // namespace lockstep::inline LOCKSTEP_ABI
