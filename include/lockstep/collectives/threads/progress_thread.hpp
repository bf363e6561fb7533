// A thread that makes progress with a rank's operations while the rank computes.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/collectives/data_type.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/threads/progress_thread.ipp"
#endif
