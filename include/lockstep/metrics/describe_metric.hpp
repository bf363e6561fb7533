// Texts of metrics: descriptions, with the options that are not the defaults, and keys in the logs.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// An option of a metric and its default.
struct MetricOption {
  Option option;
  Option standard;

  template <class V>
  MetricOption(std::string_view name, V value, V by_default)
      : option(name, std::move(value)), standard(name, std::move(by_default)) {}
};

/// "precision(top_k=3)"; "precision" where nothing is changed, which is what files of the time
/// before options were described have.
[[nodiscard, gnu::cold]] std::string describe_metric(std::string_view name,
                                                     std::initializer_list<MetricOption> options);

/// The text of an option that need not be given.
template <class V>
[[nodiscard]] std::string optional_text(const V& value) {
  return value ? number_text(static_cast<double>(*value)) : std::string("none");
}

/// Adds a key to those that are taken: the name or, where that is taken, "weighted_" and the name
/// for a weighted metric, and else the name with a number ("auc_1"), as in Keras.
void add_metric_name(std::vector<std::string>& names, std::string_view name, bool is_weighted);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/metrics/describe_metric.ipp"
#endif
