// A choice among a model's variables.
#pragma once

#include <fnmatch.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
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
  [[nodiscard]] bool contains(std::string_view name, std::size_t dimensions) const;

  [[nodiscard]] static bool matches(const std::string& pattern, std::string_view name);

  /// "bias|gamma|<2d".
  [[nodiscard]] std::string description() const;

 private:
  static bool is_like(const std::string& pattern, std::string_view name) {
    return fnmatch(pattern.c_str(), std::string(name).c_str(), 0) == 0;
  }

  std::vector<std::string> patterns_;
  std::size_t dimensions_ = 0;  // variables of fewer
};

/// fewer_dimensions_than(2): biases, and what normalisations scale and shift with.
[[nodiscard]] VariableFilter fewer_dimensions_than(std::size_t dimensions);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/optimizers/variable_filter.ipp"
#endif
