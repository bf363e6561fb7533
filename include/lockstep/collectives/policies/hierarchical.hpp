// Two levels: the threads of each process, then the processes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Carries out jobs in the order in which they were posted (MPI's asynchronous progress). The
/// thread is made for the first job. After one that has thrown, the others are dropped until wait()
/// or drain(). All calls come from one thread.
class ProgressThread {
 public:
  /// function(self, values): a job owns nothing, so that posting one takes no memory in the long
  /// run.
  struct Job {
    void (*function)(void* self, NumberSpan values) = nullptr;
    void* self = nullptr;
    NumberSpan values{};
  };

  ProgressThread() = default;
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;
  /// Finishes the job that it is in.
  ~ProgressThread();

  void post(const Job& job);
  /// Returns when all jobs are done; throws what one of them has thrown.
  void wait();
  /// The same, without a word of failure.
  void drain() noexcept;

 private:
  void work();
  void await_idle(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable posted_;
  std::condition_variable idle_;
  std::vector<Job> jobs_;  // those from next_ on are still to be done
  std::size_t next_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace detail

class Hierarchical;

/// What the threads of a process share: their group, and the first one's way to other processes.
class HierarchicalGroup {
 public:
  /// `outer` is the collective between processes; nullptr for a process that is alone. It must
  /// outlive the group. `worker`: this one's number in messages, where that is not its rank (see
  /// Rendezvous::workers). Throws ConfigurationError when local_size < 1 or when it is not the same
  /// in all processes.
  HierarchicalGroup(int local_size, AnyCollective* outer, const CommunicationOptions& options = {},
                    int ranks_on_host = 0, int worker = -1);

  [[nodiscard]] int local_size() const noexcept { return inner_.size(); }
  /// Makes the threads' group usable again after a failure (the outer collective may not be).
  /// No member may be in an operation.
  void reset() noexcept { inner_.reset(); }
  /// See InProcessGroup.
  void depart(int local_rank) noexcept { inner_.depart(local_rank); }
  void assemble() noexcept { inner_.assemble(); }
  /// Returns when no operation that has been begun is still under way, with what memory it has;
  /// after abort() that is soon.
  void drain() noexcept { progress_.drain(); }
  /// The collective of one thread. It refers to the group.
  [[nodiscard]] Hierarchical member(int local_rank);

 private:
  friend class Hierarchical;

  InProcessGroup inner_;
  AnyCollective* outer_;
  const Overlap overlap_;
  std::atomic<bool> first_is_outside_ = false;
  detail::ProgressThread progress_;  // of the first thread
};

/// A collective of all threads of all processes. Rank = outer rank * local size + local rank. Sums
/// are formed inside each process first (each level keeps the order of Partition), so that the bits
/// differ from those of as many ranks on one level, but not from one run to the next.
///
/// It overlaps, whatever the outer one can: the threads of the process sum their values at once;
/// then the first one's go out. It shares memory where the processes do, and have one thread each.
/// Residuals are of the first thread's values, which go out.
class Hierarchical final : public AnyCollective {
 public:
  Hierarchical(HierarchicalGroup& group, int local_rank);

  [[nodiscard]] int local_rank() const noexcept { return inner_.rank(); }
  [[nodiscard]] int local_size() const noexcept { return inner_.size(); }

  LOCKSTEP_INLINE_VIRTUAL void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum) override;
  LOCKSTEP_INLINE_VIRTUAL void all_reduce(std::span<double> status, NumberSpan values) override;
  LOCKSTEP_INLINE_VIRTUAL void broadcast(std::span<std::byte> bytes, int root) override;
  LOCKSTEP_INLINE_VIRTUAL void all_gather(std::span<const std::byte> mine,
                                          std::span<std::byte> all) override;
  LOCKSTEP_INLINE_VIRTUAL void barrier() override;
  LOCKSTEP_INLINE_VIRTUAL void team_barrier() override;
  /// For the threads of this process and for all others.
  LOCKSTEP_INLINE_VIRTUAL void abort(std::string_view reason,
                                     ExitCode code = ExitCode::failure) noexcept override;
  /// What the first thread gets is the outer collective's, where it has such memory.
  [[nodiscard]] LOCKSTEP_INLINE_VIRTUAL Buffer allocate(std::size_t bytes) override;
  /// The threads share the board of the outer collective, if it has one.
  [[nodiscard]] LOCKSTEP_INLINE_VIRTUAL ActivityBoard* board() override;

  LOCKSTEP_INLINE_VIRTUAL void all_reduce_async(NumberSpan values) override;
  LOCKSTEP_INLINE_VIRTUAL void wait() override;
  LOCKSTEP_INLINE_VIRTUAL void reduce_scatter_all_gather(std::span<double> status,
                                                         NumberSpan values, UseSums f) override;
  LOCKSTEP_INLINE_VIRTUAL void keep_residuals(std::span<const float> values,
                                              std::span<float> residuals) override;
  LOCKSTEP_INLINE_VIRTUAL void reduce_scatter_blocks(NumberSpan values) override;
  LOCKSTEP_INLINE_VIRTUAL void reduce_scatter_blocks_async(NumberSpan values) override;
  LOCKSTEP_INLINE_VIRTUAL void all_gather_blocks(NumberSpan values) override;

 private:
  [[nodiscard]] int outer_rank() const noexcept { return rank() / local_size(); }
  [[nodiscard]] bool is_alone() const noexcept { return group_.outer_ == nullptr; }

  void begin_async(NumberSpan values, void (*reduce)(void*, NumberSpan));
  // Runs f(outer collective) on the first thread, after what has been begun before. When something
  // fails, the other threads get the same failure. (A template: see the gradient's way in README.)
  template <class F>
  void outside(const F& f);
  void tell_threads() noexcept;
  // While the first thread is outside, the others wait without a deadline: it has one.
  void hand_out(std::span<std::byte> bytes);

  HierarchicalGroup& group_;
  InProcess inner_;
  std::vector<NumberSpan> under_way_;  // by all_reduce_async
};

inline Hierarchical HierarchicalGroup::member(int local_rank) {
  return Hierarchical(*this, local_rank);
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/policies/hierarchical.ipp"
#endif
