#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/bucket_by_sequence_length.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
