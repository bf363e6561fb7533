// What the threads of an InProcessGroup have in common: a barrier, and where their buffers are.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lockstep/collectives/collective_call.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/threads/thread_barrier.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// See InProcessGroup.
class InProcessShared {
 public:
  InProcessShared(int size, const CommunicationOptions& options, int ranks_on_host);

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
  void abort(CollectiveFailure failure) noexcept;
  void reset() noexcept;
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

  // What one thread has of a reduce_scatter that it has begun; the others read it as far as
  // `progress` says.
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
  [[nodiscard]] std::size_t ready_on_all(int rank) const noexcept;

  [[nodiscard]] Begun& begun(int rank) const noexcept {
    return begun_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Slot& slot(unsigned parity, int rank) const noexcept {
    return slots_[parity][static_cast<std::size_t>(rank)];
  }

  // Returns the set of slots of this operation when all threads have come with the same call.
  unsigned enter(int rank, const Slot& mine, const std::atomic<bool>* patient = nullptr);

  void leave(int rank) { barrier_.arrive_and_wait_always(rank); }

  void sum_status(unsigned parity, std::span<double> sums) const noexcept;
  void reduce_status(unsigned parity, std::size_t count, bool to_all) const noexcept;

 private:
  static int checked(int size);

  // Says which thread this one waits for, unless another thread says it.
  void report(int rank, Operation operation, std::chrono::milliseconds waited) const;

  [[noreturn, gnu::cold]] void fail(Operation operation,
                                    std::chrono::steady_clock::time_point begin);

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/threads/detail/in_process_shared.ipp"
#endif
