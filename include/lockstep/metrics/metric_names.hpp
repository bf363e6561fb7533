// The keys of a model's metrics in the logs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Adds a key to those that are taken: the name or, where that is taken, "weighted_" and the name
/// for a weighted metric, and else the name with a number ("auc_1"), as in Keras.
[[gnu::cold]] inline void add_metric_name(std::vector<std::string>& names, std::string_view name, bool is_weighted) {
  const auto is_taken = [&](const std::string& key) {
    return std::find(names.begin(), names.end(), key) != names.end();
  };
  std::string key(name);
  if (is_weighted && is_taken(key)) key = "weighted_" + key;
  const std::string first = key;
  for (std::size_t number = 1; is_taken(key); ++number) key = concat({first, "_", number});
  names.push_back(std::move(key));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
