#pragma once

#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/f_beta_score.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string FBetaScore::description() const {
  return detail::describe_metric(
      "fbeta_score", {{"average", std::string(to_string(average)), std::string("none")},
                      {"beta", beta, 1.0},
                      {"threshold", detail::optional_text(threshold), std::string("none")}});
}

LOCKSTEP_INLINE void FBetaScore::validate() const {
  if (!(beta > 0)) throw ConfigurationError(concat({name, ": beta must be above 0, got ", beta}));
  if (threshold && !(*threshold > 0 && *threshold <= 1))
    throw ConfigurationError(concat({name, ": threshold must be in (0, 1], got ", *threshold}));
}

LOCKSTEP_INLINE double FBetaScore::result(std::span<const double> state) const {
  const std::size_t classes = state.size() / 4;
  double sum[4] = {}, mean = 0, weighted = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    for (std::size_t i = 0; i < 4; ++i) sum[i] += state[4 * c + i];
    mean += score_of(state.subspan(4 * c, 4)) / static_cast<double>(classes);
  }
  if (average == ClassAverage::micro) return score_of(sum);
  if (average != ClassAverage::weighted) return mean;
  for (std::size_t c = 0; c < classes; ++c)
    weighted += score_of(state.subspan(4 * c, 4)) * state[4 * c + 3] / (sum[3] + least);
  return weighted;
}

LOCKSTEP_INLINE double FBetaScore::score_of(std::span<const double> counts) const {
  const double precision = counts[0] / (counts[0] + counts[1] + least);
  const double recall = counts[0] / (counts[0] + counts[2] + least);
  return (1 + beta * beta) * precision * recall / (beta * beta * precision + recall + least);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
