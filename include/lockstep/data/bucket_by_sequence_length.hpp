// Batches of samples of like length.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/sample_reader.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct BucketOptions {
  /// Ascending: bucket i has the lengths in [boundaries[i - 1], boundaries[i]), the last one those
  /// that are longer.
  std::vector<std::int64_t> bucket_boundaries = {};
  /// One more than boundaries: the global batch size of each bucket.
  std::vector<std::int64_t> bucket_batch_sizes = {};
  bool drop_remainder = false;  ///< leaves out batches that are not full at the end
};

/// Batches samples of like length: a bucket that is full is a batch, and at the end those that are
/// not full come in the order of their lengths, as in tf.data. `length(sample)` is a whole number;
/// it is asked as the function of Filter is, and the remarks there hold. Padding is that of the
/// samples: all have the size of the model's input.
template <class Upstream, class F>
class BucketBySequenceLength : public Transform<Upstream> {
  static_assert(std::same_as<typename Upstream::item_type, Element>,
                "lockstep: bucket_by_sequence_length makes the batches itself: leave out .batch(n) "
                "before it");
  static_assert(
      detail::SampleFunction<F>,
      "lockstep: the function of bucket_by_sequence_length(f, options) must be callable as f(const "
      "lockstep::Sample<const T>&), T being float or double, and return a length");
  using Transform<Upstream>::upstream_;

 public:
  using item_type = ElementBatch;

  /// Throws ConfigurationError unless the boundaries ascend, and there is a batch size of at least
  /// 1 for each bucket.
  BucketBySequenceLength(Upstream upstream, F length, BucketOptions options)
      : Transform<Upstream>(std::move(upstream)),
        length_(std::move(length)),
        options_(std::move(options)) {
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
        throw ConfigurationError(concat(
            {"bucket_by_sequence_length: bucket_batch_sizes must be at least 1, got ", size}));
  }

  void begin(Pass pass) {
    upstream_.begin(pass);
    seen_.clear();
    used_ = 0;
    buckets_.assign(options_.bucket_batch_sizes.size(), {});
  }

  bool next(ElementBatch& batch) {
    while (used_ < seen_.size() || look()) {
      const std::size_t bucket = bucket_of_[used_];
      const ElementSpan seen = seen_;
      ElementBatch& filling = buckets_[bucket];
      filling.push_back(seen.indices[used_], seen.passes[used_], seen.parts_of(used_));
      ++used_;
      if (static_cast<std::int64_t>(filling.size()) < options_.bucket_batch_sizes[bucket]) continue;
      take(batch, filling);
      return true;
    }
    if (!options_.drop_remainder)
      for (ElementBatch& rest : buckets_)
        if (rest.size() > 0) {
          take(batch, rest);
          return true;
        }
    batch.clear();
    return false;
  }

  std::int64_t advance(std::int64_t n) {
    std::int64_t moved = 0;
    for (ElementBatch batch; moved < n && next(batch);) ++moved;
    return moved;
  }

  [[nodiscard]] std::int64_t cardinality() const {
    const std::int64_t samples = upstream_.cardinality();
    return samples > 0 ? unknown_cardinality : samples;
  }

  /// As Batch: the batch sizes are divided among the workers.
  void shard_files(int num_shards, int index) {
    for (const std::int64_t size : options_.bucket_batch_sizes)
      if (size < num_shards)
        throw ConfigurationError(concat(
            {"bucket_by_sequence_length: a global batch of ", size,
             " samples cannot be divided among ", num_shards,
             " workers with AutoShardPolicy::file; make it larger or use AutoShardPolicy::data"}));
    upstream_.shard_files(num_shards, index);
    for (std::int64_t& size : options_.bucket_batch_sizes)
      size = size / num_shards + (index < size % num_shards ? 1 : 0);
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
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

 private:
  static void take(ElementBatch& batch, ElementBatch& from) {
    std::swap(batch, from);
    from.clear();
  }

  /// Asks for the lengths of the next samples; false at the end.
  bool look() {
    seen_.clear();
    bucket_of_.clear();
    used_ = 0;
    Element element;
    while (seen_.size() < detail::looked_at && upstream_.next(element)) seen_.push_back(element);
    if (seen_.size() == 0) return false;
    const auto& boundaries = options_.bucket_boundaries;
    reader_.for_each(upstream_, seen_, BucketBySequenceLength::depth, *length_,
                     [&](std::size_t, auto length) {
                       const auto above = std::upper_bound(boundaries.begin(), boundaries.end(),
                                                           static_cast<std::int64_t>(length));
                       bucket_of_.push_back(static_cast<std::size_t>(above - boundaries.begin()));
                     });
    return true;
  }

  detail::Assignable<F> length_;
  BucketOptions options_;
  ElementBatch seen_;
  std::vector<std::size_t> bucket_of_;  ///< of the samples in seen_
  std::size_t used_ = 0;
  std::vector<ElementBatch> buckets_;
  detail::SampleReader reader_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
