#include "lockstep/core/cores.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/core/thread.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep;

namespace {

/// The cores that the calling thread may use now.
std::vector<int> cores_of_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  return cores;
}

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_SUITE("cores") {
  TEST_CASE("usable cores are those of the cpuset, at most") {
    CHECK(usable_cores() >= 1);
    CHECK(usable_cores() <= static_cast<int>(allowed_cores().size()));
    CHECK(std::ranges::is_sorted(allowed_cores()));
    CHECK(allowed_cores() == cores_of_thread());
  }

  TEST_CASE("quotas of control groups of both versions, rounded up, the lowest on the way up") {
    using lockstep::detail::cpu_quota;
    const lockstep_test::TemporaryFolder folder;
    const std::string root = folder.path() + "/";
    CHECK(cpu_quota(root, "0::/pod/main\n") == 0);
    write(root + "sys/fs/cgroup/pod/main/cpu.max", "max 100000\n");
    CHECK(cpu_quota(root, "0::/pod/main\n") == 0);
    write(root + "sys/fs/cgroup/pod/cpu.max", "350000 100000\n");
    CHECK(cpu_quota(root, "0::/pod/main\n") == 4);
    write(root + "sys/fs/cgroup/pod/main/cpu.max", "50000 100000\n");
    CHECK(cpu_quota(root, "0::/pod/main\n") == 1);
    CHECK(cpu_quota(root, "0::/\n") == 0);
    write(root + "sys/fs/cgroup/cpu.max", "200000 100000\n");
    CHECK(cpu_quota(root, "0::/") == 2);  // in a name space of its own
    write(root + "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    write(root + "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    const std::string version_1 = "12:cpuset:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/x\n";
    CHECK(cpu_quota(root, version_1) == 0);
    write(root + "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
    CHECK(cpu_quota(root, version_1) == 3);
    for (const char* odd : {"", "x", "::", "0::nowhere\n", "\n\n"})
      CHECK(cpu_quota(root, odd) == 0);
  }

  TEST_CASE("a core is reserved once, until the reservation ends") {
    const auto all = static_cast<int>(allowed_cores().size());
    CHECK(ReservedCores(all + 1).cores().empty());
    ReservedCores first(1);  // none, if other programs of this machine have all
    ReservedCores second(1);
    if (!first.cores().empty()) CHECK(first.cores() != second.cores());
    const std::vector<int> mine = first.cores();
    ReservedCores moved = std::move(first);
    CHECK(moved.cores() == mine);
    if (!mine.empty()) CHECK(ReservedCores(all).cores().empty());
    moved = ReservedCores();
    CHECK(moved.cores().empty());
  }

  TEST_CASE("a pinned thread stays on its core, and what it starts does not") {
    const int core = allowed_cores().back();
    {
      const PinnedThread pinned(core);
      CHECK(cores_of_thread() == std::vector<int>{core});
      std::vector<int> of_other;
      start_thread("a test", [&] { of_other = cores_of_thread(); }).join();
      CHECK(of_other == allowed_cores());
      CHECK(cores_of_thread() == std::vector<int>{core});
      const PinnedThread not_pinned_anew(-1);
      CHECK(cores_of_thread() == std::vector<int>{core});
    }
    CHECK(cores_of_thread() == allowed_cores());
  }
}
