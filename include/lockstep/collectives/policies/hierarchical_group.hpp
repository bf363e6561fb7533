// What the threads of a process share, of which the first one speaks to other processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/collectives/threads/progress_thread.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <Collective Outer>
class Hierarchical;

namespace detail {

/// Throws ConfigurationError unless all workers give the same number of replicas.
void compare_local_sizes(
    int local_size, int worker, int workers,
    FunctionRef<void(std::span<const std::byte> mine, std::span<std::byte> all)> all_gather);

/// (Here, so that the library holds it.)
void append(std::vector<NumberSpan>& arrays, NumberSpan array);

}  // namespace detail

/// What the threads of a process share: a group of their own, and the first one's way to the other
/// processes.
template <Collective Outer>
class HierarchicalGroup {
 public:
  /// `outer` is the collective between processes; nullptr for a process that is alone. It must
  /// outlive the group. `worker`: this one's number in messages, where that is not its rank (see
  /// Rendezvous::workers). Throws ConfigurationError when local_size < 1 or when it is not the same
  /// in all processes.
  HierarchicalGroup(int local_size, Outer* outer, const CommunicationOptions& options = {},
                    int ranks_on_host = 0, int worker = -1);

  [[nodiscard]] int local_size() const noexcept { return inner_.size(); }
  /// Makes the threads' own group usable again after a failure (the outer collective may not be).
  /// No member may be in an operation.
  void reset() noexcept { inner_.reset(); }
  /// See InProcessGroup.
  void depart(int local_rank) noexcept { inner_.depart(local_rank); }
  void assemble() noexcept { inner_.assemble(); }
  /// Returns when no operation that has been begun is still under way, with what memory it has;
  /// after abort() that is soon.
  void drain() noexcept { progress_.drain(); }
  /// The collective of one thread. It refers to the group.
  [[nodiscard]] Hierarchical<Outer> member(int local_rank) noexcept {
    return Hierarchical<Outer>(*this, local_rank);
  }

 private:
  friend class Hierarchical<Outer>;

  InProcessGroup inner_;
  Outer* outer_;
  const Overlap overlap_;
  std::atomic<bool> first_is_outside_ = false;
  detail::ProgressThread progress_;  // of the first thread
};

template <Collective Outer>
HierarchicalGroup<Outer>::HierarchicalGroup(int local_size, Outer* outer,
                                            const CommunicationOptions& options, int ranks_on_host,
                                            int worker)
    : inner_(local_size, options, ranks_on_host), outer_(outer), overlap_(options.overlap) {
  if (outer_ == nullptr) return;
  inner_.belong_to(outer_->rank(), worker);
  if constexpr (ReportingCollective<Outer>) inner_.share_board(outer_->activity());
  detail::compare_local_sizes(local_size, outer_->rank(), outer_->size(),
                              [&](std::span<const std::byte> mine, std::span<std::byte> all) {
                                outer_->all_gather(mine, all);
                              });
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/policies/hierarchical_group.ipp"
#endif
