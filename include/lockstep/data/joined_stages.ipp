#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/joined_stages.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Added to the `pass` of a sample where it leaves a branch, and taken off where it is read.
inline constexpr std::uint64_t joined_pass = 0x9E3779B97F4A7C15;

LOCKSTEP_INLINE JoinedStages::JoinedStages(const char* caller, std::vector<AnyStage> branches)
    : caller_(caller), branches_(std::move(branches)) {
  if (branches_.empty())
    throw ConfigurationError(concat({caller_, ": there are no datasets; give at least one"}));
}

LOCKSTEP_INLINE void JoinedStages::shard_files(int num_shards, int index) {
  for (AnyStage& branch : branches_) branch.shard_files(num_shards, index);
}

LOCKSTEP_INLINE std::string JoinedStages::sample_name(std::int64_t i) const {
  const auto count = static_cast<std::int64_t>(branches_.size());
  return concat({branches_[static_cast<std::size_t>(i % count)].sample_name(i / count),
                 " of dataset ", i % count});
}

LOCKSTEP_INLINE Pass JoinedStages::branch_pass(Pass pass, std::size_t branch) noexcept {
  constexpr std::uint64_t tag = 0x6272616E6368;  // "branch"
  return {RandomKey(pass.seed).fold_in(tag).fold_in(branch).value(), pass.path};
}

LOCKSTEP_INLINE std::int64_t JoinedStages::fewest_files(const std::vector<AnyStage>& branches) {
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (const AnyStage& branch : branches) fewest = std::min(fewest, branch.num_files());
  return fewest;
}

LOCKSTEP_INLINE SourceFingerprint
JoinedStages::joined_fingerprint(const std::vector<AnyStage>& branches) {
  SourceFingerprint joined{.samples = 0};
  for (const AnyStage& branch : branches) {
    const SourceFingerprint own = branch.fingerprint();
    joined.samples =
        joined.samples < 0 || own.samples < 0 ? unknown_cardinality : joined.samples + own.samples;
    joined.checked += own.checked;
    joined.checksum = crc32c(std::as_bytes(std::span(&own.checksum, 1)), joined.checksum);
  }
  return joined;
}

LOCKSTEP_INLINE std::string JoinedStages::describe_branches(const std::vector<AnyStage>& branches) {
  std::string text = "(";
  for (const AnyStage& branch : branches) {
    PipelineDescription own;
    branch.describe(own);
    text += (text.size() > 1 ? ", " : "") + own.text;
  }
  return text + ")";
}

LOCKSTEP_INLINE void JoinedStages::begin_branches(Pass pass) {
  const std::size_t samples = sample_size(), targets = target_size();
  for (std::size_t b = 0; b < branches_.size(); ++b) {
    if (branches_[b].weight_size() != weight_size())
      throw DataError(concat(
          {caller_, ": all datasets need samples with the same weights: dataset 0 has ",
           weight_size(), " for each sample, dataset ", b, " has ", branches_[b].weight_size()}));
    if (branches_[b].sample_size() != samples || branches_[b].target_size() != targets)
      throw DataError(concat({caller_, ": all datasets need samples of one size: dataset 0 has ",
                              samples, " elements and ", targets, " targets, dataset ", b, " has ",
                              branches_[b].sample_size(), " and ", branches_[b].target_size()}));
    branches_[b].begin(branch_pass(pass, b));
  }
}

LOCKSTEP_INLINE bool JoinedStages::next_of(std::size_t branch, Element& element) {
  if (!branches_[branch].next(element)) return false;
  const auto count = static_cast<std::int64_t>(branches_.size());
  if (element.index > std::numeric_limits<std::int64_t>::max() / count - 1)
    throw DataError(concat({caller_, ": sample number ", element.index, " is too large for ", count,
                            " datasets; join fewer datasets, or datasets of fewer files"}));
  element.index = element.index * count + static_cast<std::int64_t>(branch);
  element.pass += joined_pass;
  return true;
}

LOCKSTEP_INLINE std::int64_t JoinedStages::total_cardinality() const {
  std::int64_t total = 0;
  for (const AnyStage& branch : branches_) {
    const std::int64_t own = branch.cardinality();
    if (own == infinite_cardinality) return infinite_cardinality;
    if (own < 0 || total < 0)
      total = unknown_cardinality;
    else
      total = own > std::numeric_limits<std::int64_t>::max() - total ? unknown_cardinality
                                                                     : total + own;
  }
  return total;
}

template <class T>
void JoinedStages::read_branches(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
  const auto count = static_cast<std::int64_t>(branches_.size());
  for (std::int64_t b = 0; b < count; ++b) {
    selected_.clear();
    rows_.clear();
    for (std::size_t i = 0; i < samples.indices.size(); ++i)
      if (samples.indices[i] % count == b) {
        selected_.push_back(samples.indices[i] / count, samples.passes[i] - joined_pass,
                            samples.parts_of(i));
        rows_.push_back(i);
      }
    if (rows_.empty()) continue;
    AnyStage& branch = branches_[static_cast<std::size_t>(b)];
    if (rows_.size() == samples.indices.size()) {
      branch.read(selected_, x, y);
      return;
    }
    const TensorView<T> from_x = samples_.template view<T>(rows_.size(), x.features());
    const TensorView<T> from_y = targets_.template view<T>(rows_.size(), y.features());
    branch.read(selected_, from_x, from_y);
    for (std::size_t f = 0; f < x.features(); ++f)
      for (std::size_t i = 0; i < rows_.size(); ++i) x(rows_[i], f) = from_x(i, f);
    for (std::size_t f = 0; f < y.features(); ++f)
      for (std::size_t i = 0; i < rows_.size(); ++i) y(rows_[i], f) = from_y(i, f);
  }
}

LOCKSTEP_INLINE void JoinedStages::read(ElementSpan samples, TensorView<float> x,
                                        TensorView<float> y) {
  read_branches(samples, x, y);
}
LOCKSTEP_INLINE void JoinedStages::read(ElementSpan samples, TensorView<double> x,
                                        TensorView<double> y) {
  read_branches(samples, x, y);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
