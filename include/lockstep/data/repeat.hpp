// Repetition.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

}  // namespace lockstep::inline LOCKSTEP_ABI
