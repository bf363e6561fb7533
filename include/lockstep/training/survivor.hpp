// What a worker keeps when another one is lost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/training/agreement.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The training state of a worker that has lost a peer, until all workers are together again. The
/// loss may have come when one had made a step and another had not: all go on from the state that
/// has come furthest.
class Survivor {
 public:
  /// Makes losses survivable.
  void enable(EncodeState encode) noexcept { encode_ = encode; }
  /// Whether waiting for the lost worker makes sense after this error.
  [[nodiscard]] bool survives(const CollectiveError& error) const noexcept {
    return is_enabled() && error.exit_code() == ExitCode::lost_peer;
  }
  [[nodiscard]] bool is_enabled() const noexcept { return encode_ != nullptr; }

  /// Keeps a state, unless one is kept already (then the loss came while all were coming together,
  /// and the model is new).
  template <class GetState>
  void keep(const GetState& state) {
    if (!bytes_.empty()) return;
    const TrainingState now = state();
    // Of two that have made as many updates, the one within the epoch has more to do that the other
    // has done.
    progress_ = 2 * now.iterations + (now.step > 0 ? 1 : 0);
    bytes_ = encode_(now);
  }

  /// Called by all ranks: the furthest state that one of them keeps, or nothing when none does.
  template <Collective C>
  [[nodiscard]] std::vector<std::byte> furthest(C& collective, bool leader) {
    const std::int64_t mine = leader && !bytes_.empty() ? progress_ : -1;
    std::vector<std::int64_t> all(static_cast<std::size_t>(collective.size()));
    collective.all_gather(std::as_bytes(std::span(&mine, 1)),
                          std::as_writable_bytes(std::span(all)));
    const auto best = std::max_element(all.begin(), all.end());
    if (*best < 0) return {};
    const int root = static_cast<int>(best - all.begin());
    return bytes_from(collective, root,
                      collective.rank() == root ? bytes_ : std::vector<std::byte>{});
  }

  /// All are together again.
  void forget() noexcept { bytes_ = {}; }

 private:
  EncodeState encode_ = nullptr;
  std::vector<std::byte> bytes_;
  std::int64_t progress_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
