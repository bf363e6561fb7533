#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/rejection_resample.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Throws ConfigurationError unless these are shares of a whole.
inline void check_distribution(const char* name, const std::vector<double>& distribution) {
  double sum = 0;
  for (const double share : distribution) {
    if (!std::isfinite(share) || share < 0)
      throw ConfigurationError(concat(
          {"rejection_resample: ", name, " must have finite numbers of at least 0, got ", share}));
    sum += share;
  }
  if (!(sum > 0))
    throw ConfigurationError(concat({"rejection_resample: ", name, " must have a number above 0"}));
}

[[nodiscard]] inline std::string distribution_text(const std::vector<double>& distribution) {
  std::string text;
  for (const double share : distribution) text += concat({text.empty() ? "" : " ", share});
  return text.empty() ? "estimated" : text;
}

LOCKSTEP_INLINE ClassBalance::ClassBalance(RejectionResampleOptions options)
    : options_(std::move(options)) {
  check_distribution("target_dist", options_.target_dist);
  if (options_.initial_dist.empty()) return;
  check_distribution("initial_dist", options_.initial_dist);
  if (options_.initial_dist.size() != options_.target_dist.size())
    throw ConfigurationError(
        concat({"rejection_resample: initial_dist needs as many classes as target_dist, ",
                options_.target_dist.size(), ", got ", options_.initial_dist.size()}));
  for (std::size_t c = 0; c < options_.target_dist.size(); ++c)
    if (options_.target_dist[c] > 0 && !(options_.initial_dist[c] > 0))
      throw ConfigurationError(concat({"rejection_resample: class ", c,
                                       " is wanted, and initial_dist says that it never comes"}));
}

LOCKSTEP_INLINE void ClassBalance::begin(Pass pass, std::uint64_t depth) {
  key_ = options_.seed ? RandomKey(*options_.seed) : RandomKey(pass.seed).fold_in(depth);
  counts_ = options_.initial_dist;
  if (counts_.empty()) counts_.assign(options_.target_dist.size(), 10.0);
}

LOCKSTEP_INLINE void ClassBalance::throw_no_class(const std::string& name, double found) const {
  throw DataError(concat({"rejection_resample: ", name, " has the class ", found,
                          ", expected one of the ", counts_.size(), " of target_dist, from 0"}));
}

LOCKSTEP_INLINE bool ClassBalance::keeps(ElementSpan samples, std::size_t i,
                                         std::size_t its_class) {
  const RandomKey key =
      key_.fold_in(samples.passes[i]).fold_in(static_cast<std::uint64_t>(samples.indices[i]));
  const bool stays = RandomStream(key).uniform() < chance(its_class);
  if (options_.initial_dist.empty()) counts_[its_class] += 1;
  return stays;
}

LOCKSTEP_INLINE double ClassBalance::chance(std::size_t wanted) const {
  double largest = 0;
  for (std::size_t c = 0; c < counts_.size(); ++c)
    if (options_.target_dist[c] > 0)
      largest = std::max(largest, options_.target_dist[c] / counts_[c]);
  return counts_[wanted] > 0 ? options_.target_dist[wanted] / counts_[wanted] / largest : 0;
}

LOCKSTEP_INLINE void ClassBalance::describe(PipelineDescription& description) const {
  description.add({"rejection_resample(", distribution_text(options_.target_dist), " of ",
                   distribution_text(options_.initial_dist),
                   options_.seed ? concat({", seed ", *options_.seed}) : std::string(), ")"});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
