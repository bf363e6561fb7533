// The slots of all workers in one place, where the workers share out updates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/step/variables.hpp"
#include "lockstep/strategies/any_strategy.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What the chief saves of an optimizer whose slots are spread over the workers: whole arrays, as
/// of the last gathering. They count until the next update.
template <class T>
class GatheredSlots {
 public:
  /// Called by all replicas of all workers, between two steps.
  void gather(const Program<T>& program, const Variables<T>& variables, AnyReplica& replica) {
    auto& collective = replica.collective();
    const bool leader = replica.local_rank() == 0;
    const bool is_chief = collective.rank() == 0;
    if (leader) {
      whole_.clear();
      for (std::size_t i = 0; is_chief && i < program.layout().slots; ++i)
        whole_.emplace_back(program.layout().variables);
    }
    const Buffer passing(is_chief ? 0 : most * sizeof(T));
    for (std::size_t slot = 0; slot < program.layout().slots; ++slot)
      for (int worker = 0; worker < variables.shares().workers(); ++worker)
        for (const SharePiece& piece : variables.shares().of(worker))
          for (std::size_t done = 0; done < piece.size; done += most) {
            const std::size_t size = std::min(most, piece.size - done);
            std::span<T> values(reinterpret_cast<T*>(passing.data()), is_chief ? 0 : size);
            if (is_chief) values = whole_[slot].values().subspan(piece.begin + done, size);
            if (leader && worker == variables.worker()) {
              const auto mine = variables.slot_share(slot).subspan(piece.place + done, size);
              std::ranges::copy(mine, values.begin());
            }
            collective.broadcast(std::as_writable_bytes(values), worker * replica.local_size());
          }
    replica.team_barrier();
    if (leader) {
      iterations_ = variables.iterations;
      revision_ = variables.revision;
    }
    replica.team_barrier();
  }

  /// The same on all workers.
  [[nodiscard]] bool are_of(const Variables<T>& variables) const noexcept {
    return iterations_ == variables.iterations && revision_ == variables.revision;
  }
  /// Empty on other workers than the chief.
  [[nodiscard]] std::span<const Arena<T>> whole() const noexcept { return whole_; }
  void release() noexcept {
    iterations_ = -1;
    whole_ = std::vector<Arena<T>>();  // with its memory
  }

 private:
  static constexpr std::size_t most = std::size_t{1} << 16;  // elements that are sent at a time

  std::vector<Arena<T>> whole_;
  std::int64_t iterations_ = -1;
  std::int64_t revision_ = -1;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
