#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/threads/detail/in_process_shared.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE InProcessShared::InProcessShared(int size, const CommunicationOptions& options,
                                                 int ranks_on_host)
    : size_(checked(size)),
      progress_limit_(options.progress_limit()),
      barrier_(size, ranks_on_host > 0 ? ranks_on_host : size) {
  options.validate();
  for (auto& parity : slots_) parity = std::make_unique<Slot[]>(static_cast<std::size_t>(size));
  begun_ = std::make_unique<Begun[]>(static_cast<std::size_t>(size));
}

LOCKSTEP_INLINE void InProcessShared::abort(CollectiveFailure failure) noexcept {
  try {
    const std::lock_guard lock(failure_mutex_);
    if (!failed_) failure_ = std::move(failure);
    failed_ = true;
  } catch (...) {  // out of memory: fail without a reason
  }
  barrier_.break_all();
}

LOCKSTEP_INLINE void InProcessShared::reset() noexcept {
  failed_ = false;
  failure_ = {};
  for (int rank = 0; rank < size_; ++rank) {
    slot(0, rank).operations = 0;
    begun(rank).progress = 0;
    begun(rank).reduced = 0;
  }
  barrier_.reset();
}

LOCKSTEP_INLINE int InProcessShared::checked(int size) {
  if (size < 1)
    throw ConfigurationError(concat({"a group of threads needs at least 1 member, got ", size}));
  return size;
}

LOCKSTEP_INLINE std::size_t InProcessShared::ready_on_all(int rank) const noexcept {
  constexpr std::uint64_t count_mask = (std::uint64_t{1} << Begun::count_bits) - 1;
  const Begun& mine = begun(rank);
  std::uint64_t least = count_mask;
  for (int r = 0; r < size_; ++r) {
    const Begun& other = begun(r);
    const std::uint64_t progress = other.progress.load(std::memory_order_acquire);
    if ((progress & ~count_mask) != mine.tag() || other.values.size() != mine.values.size() ||
        other.values.type() != mine.values.type() || other.status.size() != mine.status.size())
      return 0;
    least = std::min(least, progress & count_mask);
  }
  return static_cast<std::size_t>(least);
}

LOCKSTEP_INLINE unsigned InProcessShared::enter(int rank, const Slot& mine,
                                                const std::atomic<bool>* patient) {
  const auto begin = std::chrono::steady_clock::now();
  if (barrier_.is_broken()) fail(mine.call.operation, begin);
  const unsigned parity = slot(0, rank).operations++ % 2;
  Slot& shared = slot(parity, rank);
  const unsigned operations = shared.operations;
  shared = mine;
  shared.operations = operations;

  const auto report = [&](std::chrono::milliseconds waited) {
    this->report(rank, mine.call.operation, waited);
  };
  if (barrier_.arrive_and_wait(rank, progress_limit_, patient, report) !=
      ThreadBarrier::Outcome::released)
    fail(mine.call.operation, begin);
  for (int other = 1; other < size_; ++other)
    if (slot(parity, other).call != slot(parity, 0).call) {
      abort({.failed_rank = rank_,
             .worker = worker_,
             .reason = concat({"replicas are out of step: replica 0 is in ",
                               to_string(slot(parity, 0).call), ", replica ", other, " in ",
                               to_string(slot(parity, other).call)}),
             .code = ExitCode::failure});
      fail(mine.call.operation, begin);
    }
  return parity;
}

LOCKSTEP_INLINE void InProcessShared::report(int rank, Operation operation,
                                             std::chrono::milliseconds waited) const {
  const int missing = barrier_.first_missing();
  if (missing < 0 || barrier_.first_arrived() != rank) return;
  const Activity activity = board_->get();
  log_line(concat(
      {"replica ", rank, " ", in_operation(operation), " waits since ", waited.count() / 1000,
       " s for replica ", missing, activity == Activity{} ? "" : "; this worker is in ",
       activity == Activity{} ? std::string() : to_string(activity), "; it counts as lost after ",
       duration_text(progress_limit_), " (CommunicationOptions::progress_timeout)"}));
}

LOCKSTEP_INLINE void InProcessShared::fail(Operation operation,
                                           std::chrono::steady_clock::time_point begin) {
  // Broken without a reason: a thread has departed, or its time is over, and it may not have said
  // so yet.
  if (const int departed = barrier_.departed(); departed >= 0)
    abort(departed, replica_has_left(to_string(operation)), ExitCode::failure);
  abort(barrier_.first_missing(), replica_did_not_come(to_string(operation), progress_limit_),
        ExitCode::lost_peer);
  CollectiveFailure failure;
  {
    const std::lock_guard lock(failure_mutex_);
    failure = failure_;
  }
  if (failure.operation.empty()) failure.operation = to_string(operation);
  if (failure.seconds == 0)
    failure.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  throw CollectiveError(std::move(failure));
}

LOCKSTEP_INLINE void InProcessShared::sum_status(unsigned parity,
                                                 std::span<double> sums) const noexcept {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = slot(parity, 0).status[i];
    for (int r = 1; r < size_; ++r) sums[i] += slot(parity, r).status[i];
  }
}

LOCKSTEP_INLINE void InProcessShared::reduce_status(unsigned parity, std::size_t count,
                                                    bool to_all) const noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    double sum = slot(parity, 0).status[i];
    for (int r = 1; r < size_; ++r) sum += slot(parity, r).status[i];
    for (int r = 0; r < (to_all ? size_ : 1); ++r) slot(parity, r).status[i] = sum;
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
