#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "lockstep/core/cores.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"

#if LOCKSTEP_LINUX
#include <sched.h>
#include <sys/un.h>
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// The core to which the calling thread is pinned; -1: none.
inline int& pinned_core() noexcept {
  thread_local int core = -1;
  return core;
}

/// Binds the calling thread to a core, or frees it again.
LOCKSTEP_INLINE void bind_thread(int core) noexcept {
  pinned_core() = core;
#if LOCKSTEP_LINUX
  cpu_set_t set;
  CPU_ZERO(&set);
  const std::vector<int>& allowed = allowed_cores();
  for (const int each : allowed)
    if (core < 0 || each == core) CPU_SET(static_cast<std::size_t>(each), &set);
  if (!allowed.empty()) (void)::sched_setaffinity(0, sizeof set, &set);
#endif
}

/// The quota in the files of one folder, in cores; 0 for none.
LOCKSTEP_INLINE int quota_in(const std::string& folder) {
  long long quota = 0, period = 0;
  std::string first;
  std::ifstream file(folder + "/cpu.max");  // "200000 100000" or "max 100000"
  if (file >> first >> period) {
    quota = std::atoll(first.c_str());
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;  // -1 for none
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::clamp<long long>((quota + period - 1) / period, 1, 1 << 20));
}

LOCKSTEP_INLINE int cpu_quota(const std::string& root, std::string_view groups) {
  int lowest = 0;
  const auto look = [&](const std::string& mount, std::string group) {
    for (;;) {
      if (const int quota = quota_in(mount + group); quota > 0)
        lowest = lowest == 0 ? quota : std::min(lowest, quota);
      if (group.empty() || group == "/") return;
      group.erase(group.rfind('/'));
    }
  };
  while (!groups.empty()) {
    // "0::/group" of version 2, "4:cpu,cpuacct:/group" of version 1
    const std::string_view line = groups.substr(0, groups.find('\n'));
    groups.remove_prefix(std::min(line.size() + 1, groups.size()));
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string group(line.substr(second + 1));
    if (!group.starts_with('/')) continue;
    if (controllers.empty()) look(root + "sys/fs/cgroup", group);
    if (concat({",", controllers, ","}).find(",cpu,") != std::string::npos)
      look(root + "sys/fs/cgroup/" + std::string(controllers), group);
  }
  return lowest;
}

}  // namespace detail

LOCKSTEP_INLINE const std::vector<int>& allowed_cores() {
  // Threads that are pinned later change their own, which for the first one is the process's.
  static const std::vector<int> allowed = [] {
    std::vector<int> cores;
#if LOCKSTEP_LINUX
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(::getpid(), sizeof set, &set) == 0)
      for (int core = 0; core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
#endif
    return cores;
  }();
  return allowed;
}

LOCKSTEP_INLINE bool has_own_cpuset() {
  return !allowed_cores().empty() &&
         static_cast<long>(allowed_cores().size()) < ::sysconf(_SC_NPROCESSORS_ONLN);
}

LOCKSTEP_INLINE int usable_cores() {
  static const int usable = [] {
    std::ifstream file("/proc/self/cgroup");
    const std::string groups{std::istreambuf_iterator<char>(file), {}};
    const int allowed = static_cast<int>(allowed_cores().size());
    const int cores = allowed > 0 ? allowed : static_cast<int>(std::thread::hardware_concurrency());
    const int quota = detail::cpu_quota("/", groups);
    return std::max(1, quota > 0 ? std::min(cores, quota) : cores);
  }();
  return usable;
}

LOCKSTEP_INLINE ReservedCores::ReservedCores(int count) {
#if LOCKSTEP_LINUX
  for (const int core : allowed_cores()) {
    if (static_cast<int>(cores_.size()) == count) break;
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) break;
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const std::string text = concat({"lockstep-core-", core});
    std::memcpy(name.sun_path + 1, text.data(), text.size());  // a zero byte first: no file
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&name), size) != 0) {
      ::close(socket);
      continue;
    }
    cores_.push_back(core);
    sockets_.push_back(socket);
  }
#endif
  if (static_cast<int>(cores_.size()) < count) release();
}

LOCKSTEP_INLINE ReservedCores::ReservedCores(ReservedCores&& other) noexcept
    : cores_(std::exchange(other.cores_, {})), sockets_(std::exchange(other.sockets_, {})) {}

LOCKSTEP_INLINE ReservedCores& ReservedCores::operator=(ReservedCores&& other) noexcept {
  std::swap(cores_, other.cores_);
  std::swap(sockets_, other.sockets_);
  return *this;
}

LOCKSTEP_INLINE ReservedCores::~ReservedCores() { release(); }

LOCKSTEP_INLINE void ReservedCores::release() noexcept {
  for (const int socket : sockets_) ::close(socket);
  sockets_.clear();
  cores_.clear();
}

LOCKSTEP_INLINE PinnedThread::PinnedThread(int core) noexcept : former_(detail::pinned_core()) {
  if (core >= 0) detail::bind_thread(core);
}

LOCKSTEP_INLINE PinnedThread::~PinnedThread() {
  if (detail::pinned_core() != former_) detail::bind_thread(former_);
}

LOCKSTEP_INLINE UnpinnedThread::UnpinnedThread() noexcept : former_(detail::pinned_core()) {
  if (former_ >= 0) detail::bind_thread(-1);
}

LOCKSTEP_INLINE UnpinnedThread::~UnpinnedThread() {
  if (former_ >= 0) detail::bind_thread(former_);
}

}}  // namespace lockstep
