// The cores that this process may use, and threads that stay on one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// How many threads of this process can run at once: the cores of its cpuset (taskset, Slurm,
/// mpirun, Kubernetes' static policy), or fewer where its control group, or one above, has a quota
/// of time (cpu.max of version 2, cpu.cfs_quota_us of version 1; `docker run --cpus`, a limit of
/// Kubernetes), rounded up. At least 1. As it is at the first call.
[[nodiscard]] int usable_cores();

/// The numbers of the cores in this process's cpuset, ascending, as it is at the first call; empty
/// where the system has none.
[[nodiscard]] const std::vector<int>& allowed_cores();

/// Whether the cpuset leaves out some of the machine's cores.
[[nodiscard]] bool has_own_cpuset();

namespace detail {

/// The lowest quota, in cores, of a control group and those above it; 0 when there is none. `root`
/// stands for "/", and `groups` is the content of /proc/self/cgroup.
[[nodiscard]] int cpu_quota(const std::string& root, std::string_view groups);

}  // namespace detail

/// Cores of this process's cpuset that no other process on the machine has reserved: two processes
/// that pin threads through this class, of one job or of two, never pin them to one core. The name
/// of a socket, without a file, is the reservation, which ends with the process at the latest.
/// (Processes in different network namespaces do not see each other's: containers mostly have
/// different cpusets.)
class ReservedCores {
 public:
  /// None.
  ReservedCores() = default;
  /// Reserves `count` cores, the lowest that are free; none if there are fewer.
  explicit ReservedCores(int count);
  ReservedCores(ReservedCores&& other) noexcept;
  ReservedCores& operator=(ReservedCores&& other) noexcept;
  ~ReservedCores();

  [[nodiscard]] const std::vector<int>& cores() const noexcept { return cores_; }

 private:
  void release() noexcept;

  std::vector<int> cores_;
  std::vector<int> sockets_;
};

/// While it lives, the calling thread runs on this core alone; a negative one: where it did.
/// Threads that start_thread() makes meanwhile are not bound to it.
class PinnedThread {
 public:
  explicit PinnedThread(int core) noexcept;
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;
  ~PinnedThread();

 private:
  int former_;
};

/// While it lives, the calling thread is not pinned: for what it starts.
class UnpinnedThread {
 public:
  UnpinnedThread() noexcept;
  UnpinnedThread(const UnpinnedThread&) = delete;
  UnpinnedThread& operator=(const UnpinnedThread&) = delete;
  ~UnpinnedThread();

 private:
  int former_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/cores.ipp"
#endif
