#include "lockstep/cluster/detail/worker_group.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>

#include "support/messages.hpp"

using namespace lockstep::detail;
using namespace std::chrono_literals;
using lockstep_test::contains;

namespace {

WorkerGroup group(int workers, int servers) {
  return WorkerGroup(workers, servers, 1, "/bin/sh", {"sh", "-c", "exec sleep 60"});
}

}  // namespace

TEST_CASE("worker group: workers by index, servers behind them, each at an address") {
  WorkerGroup all = group(2, 1);
  CHECK(all.all().size() == 3);
  CHECK(all.has_servers());
  CHECK(all[0].name() == "worker 0");
  CHECK(all[1].name() == "worker 1");
  CHECK(all[2].name() == "server 0");
  CHECK(all.find(all[1].process.address()) == &all[1]);
  CHECK(all.find("127.0.0.1:0") == nullptr);
  CHECK_FALSE(group(1, 0).has_servers());
}

TEST_CASE("worker group: the command of a successor has the whole cluster, and is a shell's") {
  WorkerGroup all = group(2, 1);
  const std::string command = all.command(all[1]);
  for (const LaunchedWorker& each : all) CHECK(contains(command, each.process.address()));
  CHECK(contains(command, R"("type":"worker","index":1)"));
  CHECK(contains(command, "'exec sleep 60'"));
}

TEST_CASE("worker group: signals go to workers, to servers, or to all") {
  WorkerGroup all = group(1, 1);
  CHECK_FALSE(all.any_lives());
  all.start_all();
  CHECK(all.any_worker_lives());
  all.signal_workers(SIGKILL);
  for (int i = 0; i < 1000 && all.any_worker_lives(); ++i) {
    (void)all[0].process.reap();
    std::this_thread::sleep_for(10ms);
  }
  CHECK_FALSE(all.any_worker_lives());
  CHECK(all.any_lives());  // the server
  all.signal_all(SIGKILL);
  for (int i = 0; i < 1000 && all.any_lives(); ++i) {
    (void)all[1].process.reap();
    std::this_thread::sleep_for(10ms);
  }
  CHECK_FALSE(all.any_lives());
}

TEST_CASE("worker group: all wait in vain when each living worker has lost another one") {
  WorkerGroup all = group(2, 0);
  all.start_all();
  const auto begin = WorkerGroup::Clock::now();
  CHECK_FALSE(all.all_wait_in_vain_since(begin).has_value());
  all[0].lost_another = begin + 1s;
  CHECK_FALSE(all.all_wait_in_vain_since(begin).has_value());
  all[1].lost_another = begin + 3s;
  CHECK(all.all_wait_in_vain_since(begin) == begin + 3s);
}
