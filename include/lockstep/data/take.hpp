// The first items of a pipeline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
    description.add({"take(", count_, ")"});
  }

 private:
  std::int64_t count_;
  std::int64_t taken_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
