// The collective between the threads of one process.
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
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/collectives/argument_checks.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/reduction/reduce_share.hpp"
#include "lockstep/collectives/threads/thread_barrier.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

class InProcess;

/// What the threads of a group share. An operation has two barriers. Before the first one, each thread says where its
/// buffers are; between the two, each thread works on a slice of its own, reading it from all buffers and writing the
/// result into all of them: nothing is copied, and no two threads touch the same element.
///
/// A thread lives as long as its process, so a wait for one has a single limit: `progress_timeout`.
/// Every 5 s the group says which thread it waits for.
///
/// Threads that come with different operations, types or lengths all get a CollectiveError, and nothing is touched.
///
/// A reduce_scatter may begin before its first barrier: each thread says where its buffers are and how much of them is ready, and works
/// on its part of what is ready on all. Until the operation ends, also by a failure, the buffers must stay.
class InProcessGroup {
 public:
  /// `ranks_on_host`: threads of all processes that compete for this machine's cores (0: this group's).
  /// Throws ConfigurationError when size < 1.
  explicit InProcessGroup(int size, const CommunicationOptions& options = {}, int ranks_on_host = 0);

  [[nodiscard]] int size() const noexcept { return size_; }
  /// The collective of one thread. It refers to the group.
  [[nodiscard]] InProcess member(int rank) noexcept;

  /// From now on the members show on this board what they wait for. It must outlive the group.
  void share_board(ActivityBoard& board) noexcept { board_ = &board; }

  /// Makes every member's pending and later operations fail. The first failure counts. Any thread may call it.
  void abort(CollectiveFailure failure) noexcept;

  /// Makes the group usable again after a failure. No member may be in an operation.
  void reset() noexcept;

 private:
  friend class InProcess;

  // What one thread brings to an operation. Two sets of them take turns, so that a thread may enter the next operation
  // while another still compares what everybody brought to this one.
  struct alignas(cache_line) Slot {
    Operation operation = Operation::none;
    char type = 0;
    ReduceOp op = ReduceOp::sum;
    int root = 0;
    void* data = nullptr;
    std::size_t bytes = 0;
    double* status = nullptr;
    std::size_t status_count = 0;
    unsigned operations = 0;  // in set 0: operations that this thread has begun

    [[nodiscard]] bool agrees(const Slot& other) const noexcept {
      return operation == other.operation && type == other.type && op == other.op && root == other.root &&
             bytes == other.bytes && status_count == other.status_count;
    }
    [[nodiscard, gnu::cold]] std::string text() const;
  };

  // What one thread has of a reduce_scatter that it has begun; the others read it as far as `progress` says.
  struct alignas(cache_line) Begun {
    static constexpr int count_bits = 40;

    std::atomic<std::uint64_t> progress{0};  // the operation's number, modulo 2^24, and the elements that are ready
    const void* data = nullptr;
    std::size_t bytes = 0;
    std::vector<double> status;  // (allocated once)
    char type = 0;
    // This thread's alone:
    std::uint64_t number = 0;  // how many operations it had begun before, and one
    std::size_t reduced = 0;   // elements, of all threads' shares

    void advance(std::size_t ready) noexcept { progress.store(tag() | ready, std::memory_order_release); }
    [[nodiscard]] std::uint64_t tag() const noexcept { return number << count_bits; }
  };

  static int checked(int size);

  // How many elements all threads have ready, of the reduce_scatter that `rank` is in. 0: not all have begun it, or not the same.
  [[nodiscard]] std::size_t ready_on_all(int rank) const noexcept;

  [[nodiscard]] Slot& slot(unsigned parity, int rank) const noexcept {
    return slots_[parity][static_cast<std::size_t>(rank)];
  }

  // Returns the set of slots of this operation when everybody has come with the same.
  unsigned enter(int rank, const Slot& mine, const std::atomic<bool>* patient);

  void leave(int rank) { barrier_.arrive_and_wait_always(rank); }

  // Says which thread this one waits for, unless another thread says it.
  void report(int rank, Operation operation, std::chrono::milliseconds waited) const;

  [[noreturn, gnu::cold]] void fail(Operation operation, std::chrono::steady_clock::time_point begin);

  // The sums of rank's share of the elements, a piece at a time: sink(offset, sums, count).
  template <Reducible T, ReduceOp op, class Sink>
  void reduce_share(int rank, unsigned parity, std::size_t count, Sink sink) const {
    detail::reduce_share<op, T>(
        rank, size_, 0, count, [&](int r) { return static_cast<const T*>(data<T>(parity, r)); }, sink);
  }

  template <class T>
  [[nodiscard]] T* data(unsigned parity, int rank) const noexcept {
    return static_cast<T*>(slot(parity, rank).data);
  }

  void sum_status(unsigned parity, std::span<double> sums) const noexcept;
  void reduce_status(unsigned parity, std::size_t count, bool to_all) const noexcept;

  const int size_;
  const std::chrono::milliseconds progress_limit_;
  ThreadBarrier barrier_;
  std::unique_ptr<Slot[]> slots_[2];
  std::unique_ptr<Begun[]> begun_;
  std::mutex failure_mutex_;
  bool failed_ = false;
  CollectiveFailure failure_;
  ActivityBoard own_board_;
  ActivityBoard* board_ = &own_board_;
};

/// One thread's part of an InProcessGroup, made by InProcessGroup::member.
class InProcess {
 public:
  InProcess(InProcessGroup& group, int rank) noexcept : group_(&group), rank_(rank) {}

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return group_->size_; }

  template <Reducible T>
  void all_reduce(std::span<T> values, ReduceOp op = ReduceOp::sum) {
    reduce({}, values, op, true);
  }
  template <Reducible T>
  void all_reduce(std::span<double> status, std::span<T> values) {
    reduce(status, values, ReduceOp::sum, true);
  }

  /// As all_reduce, but only rank 0 has the result; the buffers of the others are unchanged.
  template <Reducible T>
  void reduce_to_first(std::span<double> status, std::span<T> values, ReduceOp op = ReduceOp::sum) {
    reduce(status, values, op, false);
  }

  /// See Collective.
  template <Reducible T>
  void begin_reduce_scatter(std::span<const double> status, std::span<const T> values) {
    InProcessGroup::Begun& begun = group_->begun_[static_cast<std::size_t>(rank_)];
    begun.reduced = 0;
    begun.data = values.data();
    begun.bytes = values.size_bytes();
    begun.status.assign(status.begin(), status.end());
    begun.type = type_of<T>();
    begun.number = group_->slot(0, rank_).operations + 1;
    begun.advance(0);
  }

  /// See Collective.
  template <Reducible T, class F>
  void advance_reduce_scatter(std::size_t ready, F f) {
    if (size() == 1) return;
    InProcessGroup::Begun* const begun = group_->begun_.get();
    begun[rank_].advance(ready);
    const std::size_t end = group_->ready_on_all(rank_);
    if (end < begun[rank_].reduced + window()) return;
    status_sums_ = begun->status;
    for (int r = 1; r < size(); ++r)
      for (std::size_t i = 0; i < status_sums_.size(); ++i) status_sums_[i] += begun[r].status[i];
    reduce_windows<T>(
        end / window() * window(), [&](int r) { return static_cast<const T*>(begun[r].data); }, f);
  }

  /// See Collective.
  template <Reducible T, class F>
  void reduce_scatter(std::span<double> status, std::span<T> values, F f) {
    if (size() == 1) return f(std::span<const double>(status), std::size_t{0}, std::span<const T>(values));
    status_sums_.resize(status.size());
    const unsigned parity = enter(Operation::reduce_scatter, status, values, ReduceOp::sum);
    std::exception_ptr failure;
    group_->sum_status(parity, status_sums_);
    try {
      reduce_windows<T>(
          values.size(), [&](int r) { return static_cast<const T*>(group_->data<T>(parity, r)); }, f);
    } catch (...) {  // the others still use this thread's memory
      failure = std::current_exception();
    }
    group_->begun_[static_cast<std::size_t>(rank_)].reduced = 0;
    group_->leave(rank_);
    if (failure != nullptr) std::rethrow_exception(failure);
    std::copy(status_sums_.begin(), status_sums_.end(), status.begin());
  }

  /// `patient`: while it is true, waiting for the others takes no time (they are kept by something that has a deadline of
  /// its own).
  void broadcast(std::span<std::byte> bytes, int root, const std::atomic<bool>* patient = nullptr);

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all);

  void barrier();

  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept;

  /// See Collective.
  [[nodiscard]] ActivityBoard& activity() noexcept { return *group_->board_; }

 private:
  template <Reducible T>
  void reduce(std::span<double> status, std::span<T> values, ReduceOp op, bool to_all) {
    if (size() == 1) return;
    const unsigned parity = enter(Operation::all_reduce, status, values, op);
    if (rank_ == 0) group_->reduce_status(parity, status.size(), to_all);
    if (op == ReduceOp::max)
      reduce_share<ReduceOp::max, T>(parity, values.size(), to_all);
    else
      reduce_share<ReduceOp::sum, T>(parity, values.size(), to_all);
    group_->leave(rank_);
  }

  template <ReduceOp op, Reducible T>
  void reduce_share(unsigned parity, std::size_t count, bool to_all) {
    const auto data = [&](int r) { return group_->data<T>(parity, r); };
    if (to_all) return detail::reduce_share_for_all<op, T>(rank_, size(), 0, count, data);
    group_->reduce_share<T, op>(rank_, parity, count, [&](std::size_t offset, const T* sums, std::size_t n) {
      std::memcpy(data(0) + offset, sums, n * sizeof(T));
    });
  }

  // Each thread has a share of each window, whose size is the same on all, however far they are.
  [[nodiscard]] std::size_t window() const noexcept { return static_cast<std::size_t>(size()) * 8192; }

  /// What has not been reduced yet of the first `end` elements, for reduce_scatter.
  template <Reducible T, class Data, class F>
  void reduce_windows(std::size_t end, Data data, F& f) {
    std::size_t& reduced = group_->begun_[static_cast<std::size_t>(rank_)].reduced;
    while (reduced < end) {
      const std::size_t begin = reduced, count = std::min(window(), end - begin);
      detail::reduce_share<ReduceOp::sum, T>(
          rank_, size(), begin, count, [&](int r) { return data(r) + begin; },
          [&](std::size_t offset, const T* sums, std::size_t n) {
            f(std::span<const double>(status_sums_), begin + offset, std::span<const T>(sums, n));
          });
      reduced += count;
    }
  }

  template <class T>
  static constexpr char type_of() noexcept {
    return std::is_same_v<T, float> ? 'f' : std::is_same_v<T, double> ? 'd' : 'i';
  }

  template <class T>
  unsigned enter(Operation operation, std::span<double> status, std::span<T> values, ReduceOp op) {
    InProcessGroup::Slot mine;
    mine.operation = operation;
    mine.type = type_of<T>();
    mine.op = op;
    mine.data = values.data();
    mine.bytes = values.size_bytes();
    mine.status = status.data();
    mine.status_count = status.size();
    return group_->enter(rank_, mine, nullptr);
  }

  InProcessGroup* group_;
  int rank_;
  std::vector<double> status_sums_;  // (allocated once)
};

inline InProcess InProcessGroup::member(int rank) noexcept { return InProcess(*this, rank); }

static_assert(Collective<InProcess>);

LOCKSTEP_INSTANCE(void InProcess::reduce<float>(std::span<double>, std::span<float>, ReduceOp, bool));
LOCKSTEP_INSTANCE(void InProcess::reduce<double>(std::span<double>, std::span<double>, ReduceOp, bool));

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/collectives/threads/in_process.ipp"
#endif
