// All but the first items of a pipeline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
    description.add({"skip(", count_, ")"});
  }

 private:
  std::int64_t count_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
