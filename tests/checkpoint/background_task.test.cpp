#include "lockstep/checkpoint/background_task.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

using lockstep::detail::BackgroundTask;

TEST_CASE("BackgroundTask: runs beside its owner, which may wait for it") {
  BackgroundTask task;
  CHECK_FALSE(task.is_running());
  std::atomic<bool> go = false;
  std::atomic<int> done = 0;
  task.start([&] {
    while (!go) std::this_thread::yield();
    ++done;
  });
  CHECK(task.is_running());
  CHECK(done == 0);
  go = true;
  task.finish();
  CHECK(done == 1);
  CHECK_FALSE(task.is_running());
  task.finish();  // nothing to wait for
}

TEST_CASE("BackgroundTask: a task waits for the one before") {
  BackgroundTask task;
  std::atomic<int> running = 0;
  std::atomic<bool> overlapped = false;
  for (int i = 0; i < 5; ++i)
    task.start([&] {
      if (++running > 1) overlapped = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --running;
    });
  task.finish();
  CHECK_FALSE(overlapped);
}

TEST_CASE(
    "BackgroundTask: an exception of the task is thrown once, by finish or by the next start") {
  BackgroundTask task;
  const auto fail = [] { throw std::runtime_error("no disk"); };
  task.start(fail);
  CHECK_THROWS_WITH(task.finish(), "no disk");
  task.finish();
  task.start(fail);
  CHECK_THROWS_WITH(task.start([] {}), "no disk");
  task.start([] {});
  task.finish();
}

TEST_CASE("BackgroundTask: the destructor waits, and logs an exception of the task") {
  std::atomic<int> done = 0;
  {
    BackgroundTask task;
    task.start([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++done;
      throw std::runtime_error("too late");
    });
  }
  CHECK(done == 1);
}
