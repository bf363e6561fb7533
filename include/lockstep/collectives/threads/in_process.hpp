// The collective between the threads of one process.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

class InProcess;

namespace detail {
class InProcessShared;
}  // namespace detail

/// What the threads of a group share. An operation has two barriers. Before the first one, each
/// thread says where its buffers are; between the two, each thread works on one slice,
/// reading it from all buffers and writing the result into all of them: nothing is copied, and no
/// two threads touch the same element.
///
/// A thread lives as long as its process, so a wait for one has a single limit: `progress_timeout`.
/// Every 5 s the group says which thread it waits for.
///
/// Threads that come with different operations, types or lengths all get a CollectiveError, and
/// nothing is touched.
///
/// A reduce_scatter may begin before its first barrier: each thread says where its buffers are and
/// how much of them is ready, and works on its part of what is ready on all. Until the operation
/// ends, also by a failure, the buffers must stay.
class InProcessGroup {
 public:
  /// `ranks_on_host`: threads of all processes that compete for this machine's cores (0: this
  /// group's). Throws ConfigurationError when size < 1.
  explicit InProcessGroup(int size, const CommunicationOptions& options = {},
                          int ranks_on_host = 0);
  InProcessGroup(const InProcessGroup&) = delete;
  InProcessGroup& operator=(const InProcessGroup&) = delete;
  ~InProcessGroup();

  [[nodiscard]] int size() const noexcept { return size_; }
  /// The collective of one thread. It refers to the group.
  [[nodiscard]] InProcess member(int rank) noexcept;

  /// From now on the members show on this board what they wait for. It must outlive the group.
  void share_board(ActivityBoard& board) noexcept;
  /// What failures name beside the thread: see CollectiveFailure.
  void belong_to(int rank, int worker) noexcept;

  /// Makes every member's pending and later operations fail. The first failure counts. Any thread
  /// may call it.
  void abort(CollectiveFailure failure) noexcept;

  /// Makes the group usable again after a failure. No member may be in an operation.
  void reset() noexcept;
  /// This thread makes no more calls until assemble(). Others that wait for it, or would, throw a
  /// CollectiveError that names it.
  void depart(int rank) noexcept;
  /// All threads may make calls again. No member may be in an operation.
  void assemble() noexcept;

 private:
  const int size_;
  const std::unique_ptr<detail::InProcessShared> shared_;
};

/// One thread's part of an InProcessGroup, made by InProcessGroup::member.
class InProcess final : public AnyCollective {
 public:
  InProcess(detail::InProcessShared& shared, int rank, int size) noexcept
      : AnyCollective(rank, size, {.scatter = true, .scatter_early = true}), shared_(&shared) {}

  void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum) override {
    reduce({}, values, op, true);
  }
  void all_reduce(std::span<double> status, NumberSpan values) override {
    reduce(status, values, ReduceOp::sum, true);
  }

  /// As all_reduce, but only rank 0 has the result; the buffers of the others are unchanged.
  void reduce_to_first(std::span<double> status, NumberSpan values, ReduceOp op = ReduceOp::sum) {
    reduce(status, values, op, false);
  }

  LOCKSTEP_INLINE_VIRTUAL void reduce_scatter(std::span<double> status, NumberSpan values,
                                              TakeSums f) override;
  LOCKSTEP_INLINE_VIRTUAL void begin_reduce_scatter(std::span<const double> status,
                                                    ConstNumberSpan values) override;
  LOCKSTEP_INLINE_VIRTUAL void advance_reduce_scatter(std::size_t ready, TakeSums f) override;

  /// `patient`: while it is true, waiting for the others takes no time (they are kept by something
  /// that has another deadline).
  void broadcast(std::span<std::byte> bytes, int root, const std::atomic<bool>* patient);
  void broadcast(std::span<std::byte> bytes, int root) override { broadcast(bytes, root, nullptr); }
  LOCKSTEP_INLINE_VIRTUAL void all_gather(std::span<const std::byte> mine,
                                          std::span<std::byte> all) override;
  LOCKSTEP_INLINE_VIRTUAL void barrier() override;
  LOCKSTEP_INLINE_VIRTUAL void abort(std::string_view reason,
                                     ExitCode code = ExitCode::failure) noexcept override;
  [[nodiscard]] LOCKSTEP_INLINE_VIRTUAL ActivityBoard* board() override;

 private:
  void reduce(std::span<double> status, NumberSpan values, ReduceOp op, bool to_all);
  unsigned enter(Operation operation, std::span<double> status, NumberSpan values, ReduceOp op);

  // Each thread has a share of each window, whose size is the same on all, however far they are.
  [[nodiscard]] std::size_t window() const noexcept {
    return static_cast<std::size_t>(size()) * 8192;
  }
  // What has not been reduced yet of the first `end` elements, for reduce_scatter.
  void reduce_windows(DataType type, std::size_t end, detail::ConstRankArrays arrays, TakeSums f);

  detail::InProcessShared* shared_;
  std::vector<double> status_sums_;  // (allocated once)
};

inline InProcess InProcessGroup::member(int rank) noexcept { return {*shared_, rank, size_}; }

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/threads/in_process.ipp"
#endif
