// Which part of the parameters each worker updates.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A range of elements of the arena, and where the slots of a worker have the first of them.
struct SharePiece {
  std::size_t begin = 0;
  std::size_t size = 0;
  std::size_t place = 0;
};

/// How workers share out the updates of a model: each updates its pieces of the arena, and has the
/// optimizer's slots of these alone, one piece after the other (stage 1 of Rajbhandari et al.,
/// "ZeRO: memory optimizations toward training trillion parameter models", 2020). The same on all
/// workers. Pieces begin at multiples of 64 bytes, in the arena and in the slots.
class UpdateShares {
 public:
  /// One worker has all.
  UpdateShares() = default;

  /// Adds the share of the next worker. `begins` and sizes of its pieces ascend.
  void add(const std::vector<std::pair<std::size_t, std::size_t>>& begins_and_sizes);
  /// Says that they are the own blocks of each worker (see ShardingCollective).
  void set_of_blocks() noexcept { is_of_blocks_ = true; }

  [[nodiscard]] bool is_of_blocks() const noexcept { return is_of_blocks_; }
  [[nodiscard]] int workers() const noexcept {
    return of_workers_.empty() ? 1 : static_cast<int>(of_workers_.size());
  }
  [[nodiscard]] std::span<const SharePiece> of(int worker) const noexcept {
    return of_workers_[static_cast<std::size_t>(worker)];
  }
  /// Elements of a worker's share.
  [[nodiscard]] std::size_t size(int worker) const noexcept;
  /// Where the slots of a worker have an element of its share.
  [[nodiscard]] std::size_t place(int worker, std::size_t element) const noexcept;

 private:
  std::vector<std::vector<SharePiece>> of_workers_;
  bool is_of_blocks_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/step/update_shares.ipp"
#endif
