#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/filter.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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

LOCKSTEP_INLINE Buckets::Buckets(BucketOptions options) : options_(std::move(options)) {
  const auto& boundaries = options_.bucket_boundaries;
  const auto& sizes = options_.bucket_batch_sizes;
  if (sizes.size() != boundaries.size() + 1)
    throw ConfigurationError(
        concat({"bucket_by_sequence_length: ", boundaries.size(), " bucket_boundaries need ",
                boundaries.size() + 1, " bucket_batch_sizes, got ", sizes.size()}));
  if (std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) !=
      boundaries.end())
    throw ConfigurationError("bucket_by_sequence_length: bucket_boundaries must ascend");
  for (const std::int64_t size : sizes)
    if (size < 1)
      throw ConfigurationError(
          concat({"bucket_by_sequence_length: bucket_batch_sizes must be at least 1, got ", size}));
}

LOCKSTEP_INLINE std::size_t Buckets::of(std::int64_t length) const noexcept {
  const auto& boundaries = options_.bucket_boundaries;
  return static_cast<std::size_t>(std::upper_bound(boundaries.begin(), boundaries.end(), length) -
                                  boundaries.begin());
}

LOCKSTEP_INLINE void Buckets::clear() { filled_.assign(options_.bucket_batch_sizes.size(), {}); }

LOCKSTEP_INLINE bool Buckets::add(std::size_t bucket, ElementSpan samples, std::size_t i,
                                  ElementBatch& batch) {
  ElementBatch& filling = filled_[bucket];
  filling.push_back(samples.indices[i], samples.passes[i], samples.parts_of(i));
  if (static_cast<std::int64_t>(filling.size()) < options_.bucket_batch_sizes[bucket]) return false;
  std::swap(batch, filling);
  filling.clear();
  return true;
}

LOCKSTEP_INLINE bool Buckets::take_rest(ElementBatch& batch) {
  batch.clear();
  if (options_.drop_remainder) return false;
  for (ElementBatch& rest : filled_)
    if (rest.size() > 0) {
      std::swap(batch, rest);
      return true;
    }
  return false;
}

LOCKSTEP_INLINE void Buckets::shard(int num_shards, int index) {
  for (const std::int64_t size : options_.bucket_batch_sizes)
    if (size < num_shards)
      throw ConfigurationError(concat(
          {"bucket_by_sequence_length: a global batch of ", size,
           " samples cannot be divided among ", num_shards,
           " workers with AutoShardPolicy::file; make it larger or use AutoShardPolicy::data"}));
  for (std::int64_t& size : options_.bucket_batch_sizes)
    size = size / num_shards + (index < size % num_shards ? 1 : 0);
}

LOCKSTEP_INLINE void Buckets::describe(PipelineDescription& description) const {
  std::string text;
  for (std::size_t i = 0; i < options_.bucket_batch_sizes.size(); ++i) {
    if (i > 0) text += concat({" below ", options_.bucket_boundaries[i - 1], ", "});
    text += concat({options_.bucket_batch_sizes[i]});
  }
  description.add(
      {"bucket_by_sequence_length(", text, options_.drop_remainder ? ", drop_remainder)" : ")"});
  description.batch_size =
      *std::max_element(options_.bucket_batch_sizes.begin(), options_.bucket_batch_sizes.end());
}

}}}  // namespace lockstep::detail
