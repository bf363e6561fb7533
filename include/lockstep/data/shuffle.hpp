// Shuffling through a buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Fills a buffer from upstream, then again and again hands out one of it, picked uniformly, and
/// refills its place. A buffer that holds all items gives a uniform permutation. Memory: 40 bytes
/// for each sample in the buffer.
///
/// The order is a function of the seed (of the run's seed and the position in the pipeline, where
/// there is none of its own), and, with `reshuffle_each_iteration`, of the iteration and of the
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

}  // namespace lockstep::inline LOCKSTEP_ABI
