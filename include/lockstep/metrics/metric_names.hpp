// The keys of a model's metrics in the logs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Adds a key to those that are taken: the name or, where that is taken, "weighted_" and the name
/// for a weighted metric, and else the name with a number ("auc_1"), as in Keras.
void add_metric_name(std::vector<std::string>& names, std::string_view name, bool is_weighted);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/metric_names.ipp"
#endif
