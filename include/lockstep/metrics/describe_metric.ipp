#pragma once

#include "lockstep/metrics/describe_metric.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
