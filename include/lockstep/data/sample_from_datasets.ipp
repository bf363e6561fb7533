#pragma once

#include <cmath>
#include <string>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/sample_from_datasets.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE SampleFromDatasets::SampleFromDatasets(std::vector<AnyStage> branches,
                                                       SampleFromDatasetsOptions options)
    : JoinedStages("sample_from_datasets", std::move(branches)), options_(std::move(options)) {
  if (options_.weights.empty()) options_.weights.assign(branches_.size(), 1.0);
  if (options_.weights.size() != branches_.size())
    throw ConfigurationError(
        concat({"sample_from_datasets: expected a weight for each of the ", branches_.size(),
                " datasets, got ", options_.weights.size()}));
  double sum = 0;
  for (const double weight : options_.weights) {
    if (!std::isfinite(weight) || weight < 0)
      throw ConfigurationError(
          concat({"sample_from_datasets: a weight must be finite and at least 0, got ", weight}));
    sum += weight;
  }
  if (!(sum > 0))
    throw ConfigurationError("sample_from_datasets: all weights are 0; one must be above");
  for (double& weight : options_.weights) weight /= sum;
}

LOCKSTEP_INLINE void SampleFromDatasets::begin(Pass pass) {
  begin_branches(pass);
  RandomKey key = options_.seed ? RandomKey(*options_.seed) : RandomKey(pass.seed).fold_in(depth);
  if (options_.rerandomize_each_iteration) key = key.fold_in(pass.path.value());
  random_ = RandomStream(key);
  left_ = options_.weights;
}

LOCKSTEP_INLINE std::size_t SampleFromDatasets::draw() {
  double sum = 0;
  for (const double weight : left_) sum += weight;
  std::size_t last = left_.size();
  if (!(sum > 0)) return last;
  double at = random_.uniform() * sum;
  for (std::size_t b = 0; b < left_.size(); ++b) {
    if (left_[b] == 0) continue;
    last = b;  // also where rounding leaves `at` above all weights
    if (at < left_[b]) break;
    at -= left_[b];
  }
  return last;
}

LOCKSTEP_INLINE void SampleFromDatasets::leave_out(std::size_t branch) {
  if (options_.stop_on_empty_dataset)
    left_.assign(left_.size(), 0.0);
  else
    left_[branch] = 0;
}

LOCKSTEP_INLINE bool SampleFromDatasets::next(Element& element) {
  for (std::size_t branch = draw(); branch < branches_.size(); branch = draw()) {
    if (next_of(branch, element)) return true;
    leave_out(branch);
  }
  return false;
}

LOCKSTEP_INLINE std::int64_t SampleFromDatasets::advance(std::int64_t n) {
  std::int64_t moved = 0;
  while (moved < n) {
    const std::size_t branch = draw();
    if (branch == branches_.size()) break;
    if (branches_[branch].advance(1) == 1)
      ++moved;
    else
      leave_out(branch);
  }
  return moved;
}

LOCKSTEP_INLINE std::int64_t SampleFromDatasets::cardinality() const {
  bool all = true, one = false;
  for (std::size_t b = 0; b < branches_.size(); ++b) {
    if (options_.weights[b] == 0) continue;
    const bool endless = branches_[b].cardinality() == infinite_cardinality;
    all = all && endless;
    one = one || endless;
  }
  return (options_.stop_on_empty_dataset ? all : one) ? infinite_cardinality : unknown_cardinality;
}

LOCKSTEP_INLINE void SampleFromDatasets::describe(PipelineDescription& description) const {
  std::string weights;
  for (const double weight : options_.weights)
    weights += concat({weights.empty() ? "" : ", ", weight});
  description.add({"sample_from_datasets", describe_branches(branches_), " with weights ", weights,
                   options_.seed ? concat({", seed ", *options_.seed}) : std::string(),
                   options_.stop_on_empty_dataset ? ", stop on an empty one" : "",
                   options_.rerandomize_each_iteration ? "" : ", the same choice each time"});
}

}  // namespace lockstep::inline LOCKSTEP_ABI
