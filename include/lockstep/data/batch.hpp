// Batching.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Joins `size` samples to a batch. The last batch may be smaller; with `drop_remainder` it is then
/// left out.
template <class Upstream>
class Batch : public Transform<Upstream> {
  static_assert(std::is_same_v<typename Upstream::item_type, Element>,
                "lockstep: a batch of batches");
  using Transform<Upstream>::upstream_;

 public:
  using item_type = ElementBatch;

  /// Throws ConfigurationError when size is below 1.
  Batch(Upstream upstream, std::int64_t size, bool drop_remainder)
      : Transform<Upstream>(std::move(upstream)), size_(size), drop_remainder_(drop_remainder) {
    if (size < 1)
      throw ConfigurationError(concat({"batch: the batch size must be at least 1, got ", size}));
  }

  bool next(ElementBatch& batch) {
    batch.clear();
    Element element;
    for (std::int64_t i = 0; i < size_ && upstream_.next(element); ++i) batch.push_back(element);
    if (drop_remainder_ && static_cast<std::int64_t>(batch.size()) < size_) batch.clear();
    return batch.size() > 0;
  }

  std::int64_t advance(std::int64_t n) {
    const std::int64_t most =
        std::numeric_limits<std::int64_t>::max() / 2;  // leaves room for sums upstream
    return batches_of(upstream_.advance(n > most / size_ ? most : n * size_));
  }

  [[nodiscard]] std::int64_t cardinality() const {
    const std::int64_t samples = upstream_.cardinality();
    return samples < 0 ? samples : batches_of(samples);
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add({"batch(", size_, drop_remainder_ ? ", drop_remainder)" : ")"});
    description.batch_size = size_;
  }

  /// From here on this copy delivers a worker's part: batches of size / num_shards samples (the
  /// first size % num_shards workers have one more) from its own files. Throws ConfigurationError
  /// when a worker would get no samples.
  void shard_files(int num_shards, int index) {
    if (size_ < num_shards)
      throw ConfigurationError(concat({"batch: a global batch of ", size_,
                                       " samples cannot be divided among ", num_shards,
                                       " workers with AutoShardPolicy::file; make the batch larger "
                                       "or use AutoShardPolicy::data"}));
    upstream_.shard_files(num_shards, index);
    size_ = size_ / num_shards + (index < size_ % num_shards ? 1 : 0);
  }

 private:
  [[nodiscard]] std::int64_t batches_of(std::int64_t samples) const {
    return samples / size_ + (!drop_remainder_ && samples % size_ != 0 ? 1 : 0);
  }

  std::int64_t size_;
  bool drop_remainder_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
