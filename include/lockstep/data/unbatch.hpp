// Batches taken apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The samples of batches, one after the other.
template <class Upstream>
class Unbatch : public Transform<Upstream> {
  using Transform<Upstream>::upstream_;

 public:
  using item_type = Element;

  explicit Unbatch(Upstream upstream) : Transform<Upstream>(std::move(upstream)) {}

  void begin(Pass pass) {
    upstream_.begin(pass);
    batch_.clear();
    used_ = 0;
  }

  bool next(Element& element) {
    if (used_ == batch_.size() && !next_batch()) return false;
    element.index = batch_.indices[used_];
    element.pass = batch_.passes[used_];
    element.parts.clear();
    if (!batch_.parts.empty()) element.parts = std::move(batch_.parts[used_]);
    ++used_;
    return true;
  }

  std::int64_t advance(std::int64_t n) {
    std::int64_t moved = 0;
    while (moved < n && (used_ < batch_.size() || next_batch())) {
      const std::int64_t step =
          std::min(n - moved, static_cast<std::int64_t>(batch_.size() - used_));
      used_ += static_cast<std::size_t>(step);
      moved += step;
    }
    return moved;
  }

  /// Unknown unless it is 0 or infinite: batches may differ in size.
  [[nodiscard]] std::int64_t cardinality() const {
    const std::int64_t batches = upstream_.cardinality();
    return batches > 0 ? unknown_cardinality : batches;
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add({"unbatch"});
  }

 private:
  bool next_batch() {
    used_ = 0;
    if (upstream_.next(batch_)) return true;
    batch_.clear();
    return false;
  }

  ElementBatch batch_;
  std::size_t used_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
