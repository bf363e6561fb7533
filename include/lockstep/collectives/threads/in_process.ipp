#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "lockstep/collectives/argument_checks.hpp"
#include "lockstep/collectives/reduction/reduce_share.hpp"
#include "lockstep/collectives/threads/detail/in_process_shared.hpp"
#include "lockstep/collectives/threads/in_process.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE InProcessGroup::InProcessGroup(int size, const CommunicationOptions& options,
                                               int ranks_on_host)
    : size_(size),
      shared_(std::make_unique<detail::InProcessShared>(size, options, ranks_on_host)) {}
LOCKSTEP_INLINE InProcessGroup::~InProcessGroup() = default;

LOCKSTEP_INLINE void InProcessGroup::share_board(ActivityBoard& board) noexcept {
  shared_->share_board(board);
}
LOCKSTEP_INLINE void InProcessGroup::belong_to(int rank, int worker) noexcept {
  shared_->belong_to(rank, worker);
}
LOCKSTEP_INLINE void InProcessGroup::abort(CollectiveFailure failure) noexcept {
  shared_->abort(std::move(failure));
}
LOCKSTEP_INLINE void InProcessGroup::reset() noexcept { shared_->reset(); }
LOCKSTEP_INLINE void InProcessGroup::depart(int rank) noexcept { shared_->depart(rank); }
LOCKSTEP_INLINE void InProcessGroup::assemble() noexcept { shared_->assemble(); }

LOCKSTEP_INLINE ActivityBoard& InProcess::activity() noexcept { return shared_->board(); }

LOCKSTEP_INLINE unsigned InProcess::enter(Operation operation, std::span<double> status,
                                          NumberSpan values, ReduceOp op) {
  detail::InProcessShared::Slot mine;
  mine.call = {.operation = operation,
               .type = values.type(),
               .op = op,
               .bytes = values.size_bytes(),
               .status_count = status.size()};
  mine.data = values.data();
  mine.status = status.data();
  return shared_->enter(rank_, mine);
}

LOCKSTEP_INLINE void InProcess::reduce(std::span<double> status, NumberSpan values, ReduceOp op,
                                       bool to_all) {
  if (size() == 1) return;
  const unsigned parity = enter(Operation::all_reduce, status, values, op);
  if (rank_ == 0) shared_->reduce_status(parity, status.size(), to_all);
  const detail::Combination how{values.type(), op};
  const auto arrays = [&](int r) { return shared_->slot(parity, r).data; };
  if (to_all)
    detail::reduce_share_for_all(how, rank_, size(), 0, values.size(), arrays);
  else
    detail::reduce_share(how, rank_, size(), 0, values.size(), arrays,
                         [&](std::size_t offset, ConstNumberSpan sums) {
                           std::memcpy(arrays(0) + offset * size_of(how.type), sums.data(),
                                       sums.size_bytes());
                         });
  shared_->leave(rank_);
}

LOCKSTEP_INLINE void InProcess::begin_reduce_scatter(std::span<const double> status,
                                                     ConstNumberSpan values) {
  detail::InProcessShared::Begun& begun = shared_->begun(rank_);
  begun.reduced = 0;
  begun.values = values;
  begun.status.assign(status.begin(), status.end());
  begun.number = shared_->slot(0, rank_).operations + 1;
  begun.advance(0);
}

LOCKSTEP_INLINE void InProcess::advance_reduce_scatter(std::size_t ready, TakeSums f) {
  if (size() == 1) return;
  detail::InProcessShared::Begun& mine = shared_->begun(rank_);
  mine.advance(ready);
  const std::size_t end = shared_->ready_on_all(rank_);
  if (end < mine.reduced + window()) return;
  status_sums_ = shared_->begun(0).status;
  for (int r = 1; r < size(); ++r)
    for (std::size_t i = 0; i < status_sums_.size(); ++i)
      status_sums_[i] += shared_->begun(r).status[i];
  reduce_windows(
      mine.values.type(), end / window() * window(),
      [&](int r) { return shared_->begun(r).values.data(); }, f);
}

LOCKSTEP_INLINE void InProcess::reduce_scatter(std::span<double> status, NumberSpan values,
                                               TakeSums f) {
  if (size() == 1) return f(status, 0, values);
  status_sums_.resize(status.size());
  const unsigned parity = enter(Operation::reduce_scatter, status, values, ReduceOp::sum);
  std::exception_ptr failure;
  shared_->sum_status(parity, status_sums_);
  try {
    reduce_windows(
        values.type(), values.size(), [&](int r) { return shared_->slot(parity, r).data; }, f);
  } catch (...) {  // the others still use this thread's memory
    failure = std::current_exception();
  }
  shared_->begun(rank_).reduced = 0;
  shared_->leave(rank_);
  if (failure != nullptr) std::rethrow_exception(failure);
  std::copy(status_sums_.begin(), status_sums_.end(), status.begin());
}

LOCKSTEP_INLINE void InProcess::reduce_windows(DataType type, std::size_t end,
                                               detail::ConstRankArrays arrays, TakeSums f) {
  std::size_t& reduced = shared_->begun(rank_).reduced;
  while (reduced < end) {
    const std::size_t begin = reduced, count = std::min(window(), end - begin);
    detail::reduce_share(
        {type, ReduceOp::sum}, rank_, size(), begin, count,
        [&](int r) { return arrays(r) + begin * size_of(type); },
        [&](std::size_t offset, ConstNumberSpan sums) { f(status_sums_, begin + offset, sums); });
    reduced += count;
  }
}

LOCKSTEP_INLINE void InProcess::broadcast(std::span<std::byte> bytes, int root,
                                          const std::atomic<bool>* patient) {
  detail::check_root(root, size());
  if (size() == 1) return;
  detail::InProcessShared::Slot mine;
  mine.call = {.operation = Operation::broadcast, .root = root, .bytes = bytes.size()};
  mine.data = bytes.data();
  const unsigned parity = shared_->enter(rank_, mine, patient);
  if (rank_ != root && !bytes.empty())
    std::memcpy(bytes.data(), shared_->slot(parity, root).data, bytes.size());
  shared_->leave(rank_);
}

LOCKSTEP_INLINE void InProcess::all_gather(std::span<const std::byte> mine,
                                           std::span<std::byte> all) {
  detail::check_lengths(mine.size(), all.size(), size());
  detail::InProcessShared::Slot slot;
  slot.call = {.operation = Operation::all_gather, .bytes = mine.size()};
  slot.data = const_cast<std::byte*>(mine.data());  // only read
  const unsigned parity = shared_->enter(rank_, slot);
  for (int r = 0; r < size() && !mine.empty(); ++r) {
    std::byte* target = all.data() + mine.size() * static_cast<std::size_t>(r);
    const void* source = shared_->slot(parity, r).data;
    if (target != source) std::memcpy(target, source, mine.size());
  }
  shared_->leave(rank_);
}

LOCKSTEP_INLINE void InProcess::barrier() {
  if (size() == 1) return;
  detail::InProcessShared::Slot mine;
  mine.call = {.operation = Operation::barrier};
  (void)shared_->enter(rank_, mine);
}

LOCKSTEP_INLINE void InProcess::abort(std::string_view reason, ExitCode code) noexcept {
  try {
    shared_->abort(rank_, std::string(reason), code);
  } catch (...) {  // out of memory: fail without a reason
    shared_->abort({});
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI
