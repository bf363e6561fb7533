// Batches of samples of like length.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
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

namespace detail {

/// The buckets of bucket_by_sequence_length, as they fill.
class Buckets {
 public:
  /// Throws ConfigurationError unless the boundaries ascend, and there is a batch size of at least
  /// 1 for each bucket.
  explicit Buckets(BucketOptions options);

  void clear();
  /// The number of the bucket for samples of that length.
  [[nodiscard]] std::size_t of(std::int64_t length) const noexcept;
  /// Puts sample i into a bucket. True when that is then full: it becomes the batch.
  bool add(std::size_t bucket, ElementSpan samples, std::size_t i, ElementBatch& batch);
  /// At the end, makes a batch of the first bucket that is not empty; false when none is left.
  bool take_rest(ElementBatch& batch);
  /// Divides the batch sizes among the workers.
  void shard(int num_shards, int index);
  void describe(PipelineDescription& description) const;

 private:
  BucketOptions options_;
  std::vector<ElementBatch> filled_;
};

}  // namespace detail

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
        buckets_(std::move(options)) {}

  void begin(Pass pass) {
    upstream_.begin(pass);
    seen_.clear();
    used_ = 0;
    buckets_.clear();
  }

  bool next(ElementBatch& batch) {
    while (used_ < seen_.size() || look()) {
      const std::size_t i = used_++;
      if (buckets_.add(bucket_of_[i], seen_, i, batch)) return true;
    }
    return buckets_.take_rest(batch);
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
    buckets_.shard(num_shards, index);
    upstream_.shard_files(num_shards, index);
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    buckets_.describe(description);
  }

 private:
  /// Asks for the lengths of the next samples; false at the end.
  bool look() {
    seen_.clear();
    bucket_of_.clear();
    used_ = 0;
    Element element;
    while (seen_.size() < detail::looked_at && upstream_.next(element)) seen_.push_back(element);
    if (seen_.size() == 0) return false;
    reader_.for_each(upstream_, seen_, BucketBySequenceLength::depth, *length_,
                     [&](std::size_t, auto length) {
                       bucket_of_.push_back(buckets_.of(static_cast<std::int64_t>(length)));
                     });
    return true;
  }

  detail::Assignable<F> length_;
  detail::Buckets buckets_;
  ElementBatch seen_;
  std::vector<std::size_t> bucket_of_;  ///< of the samples in seen_
  std::size_t used_ = 0;
  detail::SampleReader reader_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/bucket_by_sequence_length.ipp"
#endif
