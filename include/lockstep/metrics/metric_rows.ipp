#pragma once

#include <algorithm>

#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE std::string describe_metric(std::string_view name,
                                            std::initializer_list<MetricOption> options) {
  std::string text(name);
  const char* separator = "(";
  for (const MetricOption& entry : options) {
    if (entry.option.value == entry.standard.value) continue;
    text.append(separator).append(entry.option.name).append("=").append(entry.option.value);
    separator = ", ";
  }
  return separator[0] == '(' ? text : text + ")";
}

LOCKSTEP_INLINE void add_metric_name(std::vector<std::string>& names, std::string_view name,
                                     bool is_weighted) {
  const auto is_taken = [&](const std::string& key) {
    return std::find(names.begin(), names.end(), key) != names.end();
  };
  std::string key(name);
  if (is_weighted && is_taken(key)) key = "weighted_" + key;
  const std::string first = key;
  for (std::size_t number = 1; is_taken(key); ++number) key = concat({first, "_", number});
  names.push_back(std::move(key));
}

}}}  // namespace lockstep::detail
