#include "lockstep/cluster/detail/worker_group.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "support/captured_stderr.hpp"

using namespace lockstep::detail;
using namespace std::chrono_literals;
using lockstep_test::CapturedStderr;
using Clock = ServersEnd::Clock;

namespace {

/// A worker and a server that run these shell scripts.
class Job {
 public:
  Job(const std::string& worker, const std::string& server)
      : group(1, 1, 0, "/bin/sh",
              {"sh", "-c",
               "case $TF_CONFIG in *'\"type\":\"worker\"'*) " + worker + ";; *) " + server +
                   ";; esac"}) {
    group.start_all();
  }

  /// Waits for the end of a process; not for ever.
  ProcessEnd end_of(int index) {
    for (const auto end = Clock::now() + 20s; Clock::now() < end;
         std::this_thread::sleep_for(5ms)) {
      const std::optional<ProcessEnd> ended = group[index].process.reap();
      if (ended) return group[index].end = *ended;
    }
    FAIL("process ", index, " has not ended");
    return {};
  }
  void wait_for_note(int index) {
    for (const auto end = Clock::now() + 20s; Clock::now() < end; std::this_thread::sleep_for(5ms))
      if (group[index].process.take_note()) return;
    FAIL("process ", index, " has sent no note");
  }

  WorkerGroup group;
};

}  // namespace

TEST_CASE("servers end: not while a worker lives, and not when they have ended themselves") {
  Job job("exec sleep 60", "exit 0");
  ServersEnd end(job.group, 1s, 1s);
  end.keep(Clock::now());
  CHECK_FALSE(end.due().has_value());
  job.end_of(1);
  job.group[0].process.signal(SIGKILL);
  job.end_of(0);
  end.keep(Clock::now());
  CHECK_FALSE(end.due().has_value());
  CHECK_FALSE(end.has_told());
}

TEST_CASE("servers end: when all workers have ended well, they have time to leave") {
  Job job("exit 0", "exec sleep 60");
  ServersEnd end(job.group, 10s, 3s);
  job.end_of(0);
  const auto now = Clock::now();
  const CapturedStderr captured;
  end.keep(now);
  CHECK(end.due() == now + 10s);
  end.keep(now + 9s);
  CHECK(end.due() == now + 10s);
  CHECK_FALSE(end.has_told());
  CHECK(captured.text().empty());
  end.keep(now + 10s);
  CHECK(end.has_told());
  CHECK(end.due() == now + 13s);
  CHECK(captured.text().find("not all parameter servers: these are told to stop") !=
        std::string::npos);
  CHECK(job.end_of(1).signal == SIGTERM);
}

TEST_CASE(
    "servers end: when a worker has failed, they are told at once, also those that stand still") {
  Job job("exit 1", "exec sleep 60");
  ServersEnd end(job.group, 10s, 3s);
  job.group[1].process.signal(SIGSTOP);
  job.end_of(0);
  const auto now = Clock::now();
  const CapturedStderr captured;
  end.keep(now);
  CHECK(end.has_told());
  CHECK(end.due() == now + 3s);
  CHECK(captured.text().empty());  // there is another message, of the worker
  CHECK(job.end_of(1).signal == SIGTERM);
}

TEST_CASE("servers end: those that do not stop when they are told are killed") {
  Job job("exit 1", "trap '' TERM; echo ready > /proc/self/fd/$LOCKSTEP_NOTE_FD; exec sleep 60");
  ServersEnd end(job.group, 10s, 3s);
  job.wait_for_note(1);
  job.end_of(0);
  const auto now = Clock::now();
  end.keep(now);
  end.keep(now + 2s);
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(job.group[1].process.reap().has_value());
  end.keep(now + 3s);
  CHECK(job.end_of(1).signal == SIGKILL);
}
