// The threads that the replicas of a process run on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/cores.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Whether each replica's thread stays on one core of the process's cpuset, which no other process
/// that pins has (see ReservedCores). A thread that moves loses its caches and, on machines with
/// several memory nodes, the nearness of its parameters; a pinned one waits while another program
/// has its core.
enum class Pinning : std::uint8_t {
  automatic,  ///< where taskset, Slurm, mpirun or Kubernetes has given the process a cpuset
  off,
  on,  ///< says so when there are too few cores that no other process has reserved
};

/// A fixed number of threads, made once; the first is the caller's.
///
/// `run` runs a function on all of them. In it they may all call `lead`, in which the first thread
/// runs another function while the others wait. That function may call `run` again, in which the
/// waiting threads take part. So a model can be used while it, or another, is being trained.
class ReplicaThreads {
 public:
  /// `requested` replicas, where 0 stands for this worker's share of the cores that it may
  /// use (see usable_cores): cores / workers on this machine, at least 1. Throws ConfigurationError
  /// when it is negative or above 1024.
  [[nodiscard]] static int count(int requested, int workers_on_host = 1);

  /// `threads_on_host`: how many threads compete for this machine's cores (0: these). The first
  /// thread is pinned during run() alone. Throws Error when the system has no thread left.
  explicit ReplicaThreads(int size, int threads_on_host = 0, Pinning pinning = Pinning::off);
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;
  ~ReplicaThreads();

  [[nodiscard]] int size() const noexcept { return size_; }

  /// The core of each thread; empty when they are not pinned.
  [[nodiscard]] const std::vector<int>& cores() const noexcept { return cores_.cores(); }

  /// Whether a run is under way.
  [[nodiscard]] bool is_running() const;

  /// Calls f(i) for each i in [0, size), f(0) on the calling thread, and returns when all have
  /// returned. The first exception that one of them throws is passed to abort(i, what, exit code),
  /// on the thread that threw it, and is thrown again at the end. reset() clears what failures
  /// leave behind: it is called before a run that is not within another, and after one that failed,
  /// when no thread runs an f.
  ///
  /// While a run is under way, only the first thread may call this, in a function that lead() runs.
  /// Throws Error at once otherwise.
  void run(FunctionRef<void(int)> f, FunctionRef<void(int, std::string_view, ExitCode)> abort,
           FunctionRef<void()> reset);
  void run(FunctionRef<void(int)> f, FunctionRef<void(int, std::string_view, ExitCode)> abort) {
    run(f, abort, [] {});
  }

  /// Called by all threads in one run, each with its number. Once all are here, the first one calls
  /// f(), while the others wait and take part in what f passes to run(); they return when f has. An
  /// exception of f is thrown in all of them. If a thread fails before that, f is not called.
  /// (There is no deadline: what the awaited thread does has one.)
  void lead(int i, FunctionRef<void()> f);

 private:
  struct Run;
  struct Abandoned;

  void enter(Run& run);
  void begin();
  void end(const Run& run);
  void leave(const Run& run);
  Run& begin_lead();
  void end_lead(Run& run, bool is_broken) noexcept;
  void follow(int i);
  [[nodiscard]] Run& innermost() const;
  [[nodiscard]] bool is_new(int i) const noexcept;
  void take_part(int i, std::unique_lock<std::mutex>& lock);
  static void call(Run& run, int i);
  void failed(Run& run, int i, std::string_view what, ExitCode code);
  void await(std::unique_lock<std::mutex>& lock, std::condition_variable& sleep,
             FunctionRef<bool()> has_come);
  void work(int i);
  [[nodiscard]] int core_of(int i) const noexcept;
  void stop();

  const int size_;
  const bool spins_;
  const ReservedCores cores_;
  mutable std::mutex mutex_;
  std::condition_variable first_, others_;  // where the first thread and the others sleep
  std::atomic<unsigned> changes_{0};        // counts what a thread in lead() may wait for
  unsigned runs_ = 0;                       // number of runs that have begun
  std::vector<unsigned> runs_seen_;         // by each thread, of these
  Run* run_ = nullptr;                      // the innermost
  std::thread::id first_thread_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/strategies/replica_threads.ipp"
#endif
