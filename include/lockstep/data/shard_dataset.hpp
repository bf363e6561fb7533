// Every so many-th item.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/data/shard.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The items index, index + num_shards, ... of a pass. For data that are divided by hand; fit
/// divides each batch among the workers by itself.
template <class Upstream>
class ShardDataset : public Transform<Upstream> {
  using Transform<Upstream>::upstream_;

 public:
  using item_type = typename Upstream::item_type;

  /// Throws ConfigurationError unless num_shards is at least 1 and index in [0, num_shards).
  ShardDataset(Upstream upstream, std::int64_t num_shards, std::int64_t index)
      : Transform<Upstream>(std::move(upstream)),
        num_shards_(num_shards),
        index_(index),
        skip_(index) {
    check_shard(num_shards, index);
  }

  void begin(Pass pass) {
    upstream_.begin(pass);
    skip_ = index_;
  }

  bool next(item_type& item) {
    if (upstream_.advance(skip_) < skip_) return false;
    skip_ = num_shards_ - 1;
    return upstream_.next(item);
  }

  std::int64_t advance(std::int64_t n) {
    if (n < 1) return 0;
    const std::int64_t most =
        std::numeric_limits<std::int64_t>::max() / 2;  // leaves room for sums upstream
    const std::int64_t others =
        n - 1 > (most - skip_) / num_shards_ ? most - skip_ : (n - 1) * num_shards_;
    const std::int64_t moved = upstream_.advance(skip_ + 1 + others);
    const std::int64_t before = std::exchange(skip_, num_shards_ - 1);
    return moved <= before ? 0 : (moved - before - 1) / num_shards_ + 1;
  }

  [[nodiscard]] std::int64_t cardinality() const {
    const std::int64_t items = upstream_.cardinality();
    return items < 0 ? items : shard_size(items, num_shards_, index_);
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add({"shard(", num_shards_, ", ", index_, ")"});
  }

 private:
  std::int64_t num_shards_;
  std::int64_t index_;
  std::int64_t skip_;  ///< items before the next one
};

}  // namespace lockstep::inline LOCKSTEP_ABI
