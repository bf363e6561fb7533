// Which items come, and in which order: Take, Skip, RepeatDataset, Shuffle, ShardDataset.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The first `count` items; -1 is all of them. After batch, items are batches.
template <class Upstream>
class Take : public Transform<Upstream> {
  using Transform<Upstream>::upstream_;

 public:
  using item_type = typename Upstream::item_type;

  /// Throws ConfigurationError when count is below -1.
  Take(Upstream upstream, std::int64_t count)
      : Transform<Upstream>(std::move(upstream)), count_(count) {
    if (count < -1)
      throw ConfigurationError(concat({"take: count must be -1 (all) or at least 0, got ", count}));
  }

  void begin(Pass pass) {
    upstream_.begin(pass);
    taken_ = 0;
  }

  bool next(item_type& item) {
    if (taken_ == count_ || !upstream_.next(item)) return false;
    ++taken_;
    return true;
  }

  std::int64_t advance(std::int64_t n) {
    const std::int64_t moved = upstream_.advance(count_ < 0 ? n : std::min(n, count_ - taken_));
    taken_ += moved;
    return moved;
  }

  [[nodiscard]] std::int64_t cardinality() const {
    const std::int64_t available = upstream_.cardinality();
    if (count_ < 0 || available == 0) return available;
    if (available == infinite_cardinality || count_ == 0) return count_;
    if (available == unknown_cardinality) return unknown_cardinality;
    return std::min(available, count_);
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add_part({"take(", count_, ")"}, count_ >= 0);
  }

 private:
  std::int64_t count_;
  std::int64_t taken_ = 0;
};

/// Leaves out the first `count` items; -1 leaves out all of them. After batch, items are batches.
template <class Upstream>
class Skip : public Transform<Upstream> {
  using Transform<Upstream>::upstream_;

 public:
  using item_type = typename Upstream::item_type;

  /// Throws ConfigurationError when count is below -1.
  Skip(Upstream upstream, std::int64_t count)
      : Transform<Upstream>(std::move(upstream)), count_(count) {
    if (count < -1)
      throw ConfigurationError(concat({"skip: count must be -1 (all) or at least 0, got ", count}));
  }

  void begin(Pass pass) {
    upstream_.begin(pass);
    if (count_ > 0) upstream_.advance(count_);
  }

  bool next(item_type& item) { return count_ >= 0 && upstream_.next(item); }

  std::int64_t advance(std::int64_t n) { return count_ < 0 ? 0 : upstream_.advance(n); }

  [[nodiscard]] std::int64_t cardinality() const {
    const std::int64_t available = upstream_.cardinality();
    if (count_ < 0) return 0;
    return available < 0 ? available : std::max(available - count_, std::int64_t{0});
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add_part({"skip(", count_, ")"}, count_ > 0);
  }

 private:
  std::int64_t count_;
};

/// Goes through upstream `count` times; -1 is without end, 0 is empty. An endless repetition of
/// nothing ends.
template <class Upstream>
class RepeatDataset : public Transform<Upstream> {
  using Transform<Upstream>::upstream_;

 public:
  using item_type = typename Upstream::item_type;

  /// Throws ConfigurationError when count is below -1.
  RepeatDataset(Upstream upstream, std::int64_t count)
      : Transform<Upstream>(std::move(upstream)), count_(count) {
    if (count < -1)
      throw ConfigurationError(
          concat({"repeat: count must be -1 (without end) or at least 0, got ", count}));
  }

  void begin(Pass pass) {
    pass_ = pass;
    length_ = upstream_.cardinality();
    start(0);
  }

  bool next(item_type& item) {
    while (!ended_) {
      if (upstream_.next(item)) {
        ++consumed_;
        return true;
      }
      start_next();
    }
    return false;
  }

  std::int64_t advance(std::int64_t n) {
    std::int64_t moved = 0;
    while (moved < n && !ended_) {
      // Whole repetitions are left out where their length is known.
      const std::int64_t whole = length_ > 0 ? (consumed_ + (n - moved)) / length_ : 0;
      if (whole > 0) {
        const std::int64_t left = count_ < 0 ? whole : std::min(whole, count_ - repetition_);
        moved += left * length_ - consumed_;
        start(repetition_ + left);
        continue;
      }
      const std::int64_t step = upstream_.advance(n - moved);
      consumed_ += step;
      moved += step;
      if (moved < n) start_next();
    }
    return moved;
  }

  [[nodiscard]] std::int64_t cardinality() const {
    const std::int64_t length = upstream_.cardinality();
    if (count_ == 0 || length == 0) return 0;
    if (length < 0) return count_ < 0 ? infinite_cardinality : length;
    if (count_ < 0 || length > std::numeric_limits<std::int64_t>::max() / count_)
      return infinite_cardinality;
    return length * count_;
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    if (count_ < 0)
      description.add({"repeat"});
    else
      description.add({"repeat(", count_, ")"});
  }

 private:
  void start(std::int64_t repetition) {
    repetition_ = repetition;
    consumed_ = 0;
    ended_ = repetition == count_;
    if (!ended_) upstream_.begin(pass_.repetition(repetition));
  }

  void start_next() {
    if (consumed_ == 0)
      ended_ = true;
    else
      start(repetition_ + 1);
  }

  std::int64_t count_;
  Pass pass_{};
  std::int64_t length_ = 0;      ///< of one repetition
  std::int64_t repetition_ = 0;  ///< the running one
  std::int64_t consumed_ = 0;    ///< items of it
  bool ended_ = true;
};

/// Fills a buffer from upstream, then again and again hands out one of it, picked uniformly, and
/// refills its place. A buffer that holds all items gives a uniform permutation. Memory: 40 bytes
/// for each sample in the buffer.
///
/// The order is a function of the seed (without one, of the run's seed and the position in the
/// pipeline), and, with `reshuffle_each_iteration`, of the iteration and of the
/// repetition. So `shuffle().repeat()` shuffles every repetition anew and keeps them apart;
/// `repeat().shuffle()` blends them.
template <class Upstream>
class Shuffle : public Transform<Upstream> {
  using Transform<Upstream>::upstream_;

 public:
  using item_type = typename Upstream::item_type;

  /// Throws ConfigurationError when buffer_size is below 1.
  Shuffle(Upstream upstream, std::int64_t buffer_size, std::optional<std::uint64_t> seed,
          bool reshuffle_each_iteration)
      : Transform<Upstream>(std::move(upstream)),
        capacity_(buffer_size),
        seed_(seed),
        reshuffle_(reshuffle_each_iteration) {
    if (buffer_size < 1)
      throw ConfigurationError(concat({"shuffle: buffer_size must be at least 1, got ", buffer_size,
                                       "; for a perfect shuffle pass the number of samples"}));
  }

  void begin(Pass pass) {
    upstream_.begin(pass);
    RandomKey key = seed_ ? RandomKey(*seed_) : RandomKey(pass.seed).fold_in(Shuffle::depth);
    if (reshuffle_) key = key.fold_in(pass.path.value());
    random_ = RandomStream(key);
    filled_ = 0;
    filling_ = true;
  }

  bool next(item_type& item) {
    if (filling_) fill();
    if (filled_ == 0) return false;
    item_type& picked = buffer_[pick()];
    std::swap(item, picked);
    refill(picked);
    return true;
  }

  std::int64_t advance(std::int64_t n) {
    if (filling_ && n > 0) fill();
    std::int64_t moved = 0;
    for (; moved < n && filled_ > 0; ++moved) refill(buffer_[pick()]);
    return moved;
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    const std::string seed = seed_ ? concat({", seed ", *seed_}) : std::string();
    description.add(
        {"shuffle(", capacity_, seed, reshuffle_ ? ")" : ", the same order each time)"});
    description.is_reshuffled = description.is_reshuffled || reshuffle_;
  }

 private:
  std::size_t pick() { return static_cast<std::size_t>(random_.below(filled_)); }

  void fill() {
    filling_ = false;
    while (filled_ < static_cast<std::uint64_t>(capacity_)) {
      // Items above filled_ stay: a batch keeps the memory of its vectors.
      if (filled_ == buffer_.size()) {
        if (buffer_.empty()) reserve();
        buffer_.resize(buffer_.size() + 1);
      }
      if (!upstream_.next(buffer_[filled_])) break;
      ++filled_;
    }
  }

  void reserve() {
    const std::int64_t expected = upstream_.cardinality();
    if (expected >= 0) buffer_.reserve(static_cast<std::size_t>(std::min(capacity_, expected)) + 1);
  }

  void refill(item_type& place) {
    if (upstream_.next(place)) return;
    --filled_;
    if (&place != &buffer_[filled_]) std::swap(place, buffer_[filled_]);
  }

  std::int64_t capacity_;
  std::optional<std::uint64_t> seed_;
  bool reshuffle_;
  RandomStream random_{RandomKey(0)};
  std::vector<item_type> buffer_;
  std::size_t filled_ = 0;
  bool filling_ = false;
};

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
    description.add_part({"shard(", num_shards_, ", ", index_, ")"});
  }

 private:
  std::int64_t num_shards_;
  std::int64_t index_;
  std::int64_t skip_;  ///< items before the next one
};

}}  // namespace lockstep
