#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/collectives/threads/thread_barrier.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// See InProcessGroup.
class InProcessShared {
 public:
  InProcessShared(int size, const CommunicationOptions& options, int ranks_on_host)
      : size_(checked(size)),
        progress_limit_(options.progress_limit()),
        barrier_(size, ranks_on_host > 0 ? ranks_on_host : size) {
    options.validate();
    for (auto& parity : slots_) parity = std::make_unique<Slot[]>(static_cast<std::size_t>(size));
    begun_ = std::make_unique<Begun[]>(static_cast<std::size_t>(size));
  }

  void share_board(ActivityBoard& board) noexcept { board_ = &board; }
  void belong_to(int rank, int worker) noexcept {
    rank_ = rank;
    worker_ = worker;
  }
  // A replica has failed.
  void abort(int replica, std::string reason, ExitCode code) noexcept {
    abort({.failed_rank = rank_,
           .worker = worker_,
           .replica = replica,
           .reason = std::move(reason),
           .code = code});
  }
  [[nodiscard]] ActivityBoard& board() const noexcept { return *board_; }
  void abort(CollectiveFailure failure) noexcept {
    try {
      const std::lock_guard lock(failure_mutex_);
      if (!failed_) failure_ = std::move(failure);
      failed_ = true;
    } catch (...) {  // out of memory: fail without a reason
    }
    barrier_.break_all();
  }
  void reset() noexcept {
    failed_ = false;
    failure_ = {};
    for (int rank = 0; rank < size_; ++rank) {
      slot(0, rank).operations = 0;
      begun(rank).progress = 0;
      begun(rank).reduced = 0;
    }
    barrier_.reset();
  }
  void depart(int rank) noexcept { barrier_.depart(rank); }
  void assemble() noexcept { barrier_.assemble(); }

  // What one thread brings to an operation. Two sets of them take turns, so that a thread may enter
  // the next operation while another still compares what all threads brought to this one.
  struct alignas(cache_line) Slot {
    CollectiveCall call;
    std::byte* data = nullptr;
    double* status = nullptr;
    unsigned operations = 0;  // in set 0: operations that this thread has begun
  };

  // The reduce_scatter that one thread has begun; the others read the part that `progress` counts.
  struct alignas(cache_line) Begun {
    static constexpr int count_bits = 40;

    // The operation's number, modulo 2^24, and the elements that are ready.
    std::atomic<std::uint64_t> progress{0};
    ConstNumberSpan values;
    std::vector<double> status;  // (allocated once)
    // This thread's alone:
    std::uint64_t number = 0;  // how many operations it had begun before, and one
    std::size_t reduced = 0;   // elements, of all threads' shares

    void advance(std::size_t ready) noexcept {
      progress.store(tag() | ready, std::memory_order_release);
    }
    [[nodiscard]] std::uint64_t tag() const noexcept { return number << count_bits; }
  };

  // How many elements all threads have ready, of the reduce_scatter that `rank` is in. 0: not all
  // have begun it, or not the same.
  [[nodiscard]] std::size_t ready_on_all(int rank) const noexcept {
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

  [[nodiscard]] Begun& begun(int rank) const noexcept {
    return begun_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Slot& slot(unsigned parity, int rank) const noexcept {
    return slots_[parity][static_cast<std::size_t>(rank)];
  }

  // Returns the set of slots of this operation when all threads have come with the same call.
  unsigned enter(int rank, const Slot& mine, const std::atomic<bool>* patient = nullptr) {
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
               .reason = are_out_of_step("replicas", "replica 0", to_string(slot(parity, 0).call),
                                         concat({"replica ", other}),
                                         to_string(slot(parity, other).call)),
               .code = ExitCode::failure});
        fail(mine.call.operation, begin);
      }
    return parity;
  }

  void leave(int rank) { barrier_.arrive_and_wait_always(rank); }

  void sum_status(unsigned parity, std::span<double> sums) const noexcept {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = slot(parity, 0).status[i];
      for (int r = 1; r < size_; ++r) sums[i] += slot(parity, r).status[i];
    }
  }
  void reduce_status(unsigned parity, std::size_t count, bool to_all) const noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      double sum = slot(parity, 0).status[i];
      for (int r = 1; r < size_; ++r) sum += slot(parity, r).status[i];
      for (int r = 0; r < (to_all ? size_ : 1); ++r) slot(parity, r).status[i] = sum;
    }
  }

 private:
  static int checked(int size) {
    if (size < 1)
      throw ConfigurationError(concat({"a group of threads needs at least 1 member, got ", size}));
    return size;
  }

  // Says which thread this one waits for, unless another thread says it.
  void report(int rank, Operation operation, std::chrono::milliseconds waited) const {
    const int missing = barrier_.first_missing();
    if (missing < 0 || barrier_.first_arrived() != rank) return;
    const Activity activity = board_->get();
    log_line(
        concat({waits_since(concat({"replica ", rank, " ", in_operation(operation)}), waited,
                            concat({"replica ", missing})),
                activity == Activity{} ? "" : concat({"; this worker is in ", to_string(activity)}),
                counts_as_lost(progress_limit_, "progress_timeout")}));
  }

  [[noreturn, gnu::cold]] void fail(Operation operation,
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

  const int size_;
  const std::chrono::milliseconds progress_limit_;
  ThreadBarrier barrier_;
  std::unique_ptr<Slot[]> slots_[2];
  std::unique_ptr<Begun[]> begun_;
  std::mutex failure_mutex_;
  bool failed_ = false;
  CollectiveFailure failure_;
  int rank_ = -1;    // of the worker to which the threads belong
  int worker_ = -1;  // its number
  ActivityBoard own_board_;
  ActivityBoard* board_ = &own_board_;
};

}  // namespace detail

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

LOCKSTEP_INLINE ActivityBoard* InProcess::board() { return &shared_->board(); }

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
  return shared_->enter(rank(), mine);
}

LOCKSTEP_INLINE void InProcess::reduce(std::span<double> status, NumberSpan values, ReduceOp op,
                                       bool to_all) {
  if (size() == 1) return;
  const unsigned parity = enter(Operation::all_reduce, status, values, op);
  if (rank() == 0) shared_->reduce_status(parity, status.size(), to_all);
  const detail::Combination how{values.type(), op};
  const auto arrays = [&](int r) { return shared_->slot(parity, r).data; };
  if (to_all)
    detail::reduce_share_for_all(how, rank(), size(), 0, values.size(), arrays);
  else
    detail::reduce_share(how, rank(), size(), 0, values.size(), arrays,
                         [&](std::size_t offset, ConstNumberSpan sums) {
                           std::memcpy(arrays(0) + offset * size_of(how.type), sums.data(),
                                       sums.size_bytes());
                         });
  shared_->leave(rank());
}

LOCKSTEP_INLINE void InProcess::begin_reduce_scatter(std::span<const double> status,
                                                     ConstNumberSpan values) {
  detail::InProcessShared::Begun& begun = shared_->begun(rank());
  begun.reduced = 0;
  begun.values = values;
  begun.status.assign(status.begin(), status.end());
  begun.number = shared_->slot(0, rank()).operations + 1;
  begun.advance(0);
}

LOCKSTEP_INLINE void InProcess::advance_reduce_scatter(std::size_t ready, TakeSums f) {
  if (size() == 1) return;
  detail::InProcessShared::Begun& mine = shared_->begun(rank());
  mine.advance(ready);
  const std::size_t end = shared_->ready_on_all(rank());
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
  shared_->begun(rank()).reduced = 0;
  shared_->leave(rank());
  if (failure != nullptr) std::rethrow_exception(failure);
  std::copy(status_sums_.begin(), status_sums_.end(), status.begin());
}

LOCKSTEP_INLINE void InProcess::reduce_windows(DataType type, std::size_t end,
                                               detail::ConstRankArrays arrays, TakeSums f) {
  std::size_t& reduced = shared_->begun(rank()).reduced;
  while (reduced < end) {
    const std::size_t begin = reduced, count = std::min(window(), end - begin);
    detail::reduce_share(
        {type, ReduceOp::sum}, rank(), size(), begin, count,
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
  const unsigned parity = shared_->enter(rank(), mine, patient);
  if (rank() != root && !bytes.empty())
    std::memcpy(bytes.data(), shared_->slot(parity, root).data, bytes.size());
  shared_->leave(rank());
}

LOCKSTEP_INLINE void InProcess::all_gather(std::span<const std::byte> mine,
                                           std::span<std::byte> all) {
  detail::check_lengths(mine.size(), all.size(), size());
  detail::InProcessShared::Slot slot;
  slot.call = {.operation = Operation::all_gather, .bytes = mine.size()};
  slot.data = const_cast<std::byte*>(mine.data());  // only read
  const unsigned parity = shared_->enter(rank(), slot);
  for (int r = 0; r < size() && !mine.empty(); ++r) {
    std::byte* target = all.data() + mine.size() * static_cast<std::size_t>(r);
    const void* source = shared_->slot(parity, r).data;
    if (target != source) std::memcpy(target, source, mine.size());
  }
  shared_->leave(rank());
}

LOCKSTEP_INLINE void InProcess::barrier() {
  if (size() == 1) return;
  detail::InProcessShared::Slot mine;
  mine.call = {.operation = Operation::barrier};
  (void)shared_->enter(rank(), mine);
}

LOCKSTEP_INLINE void InProcess::abort(std::string_view reason, ExitCode code) noexcept {
  try {
    shared_->abort(rank(), std::string(reason), code);
  } catch (...) {  // out of memory: fail without a reason
    shared_->abort({});
  }
}

}}  // namespace lockstep
