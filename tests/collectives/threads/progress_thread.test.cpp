#include "lockstep/collectives/policies/hierarchical.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

using lockstep::detail::ProgressThread;

namespace {

struct Log {
  std::vector<std::size_t> sizes;
  std::thread::id thread;
};

ProgressThread::Job entry(Log& log, std::size_t size) {
  return {[](void* self, lockstep::NumberSpan values) {
            static_cast<Log*>(self)->sizes.push_back(values.size());
            static_cast<Log*>(self)->thread = std::this_thread::get_id();
          },
          &log,
          {nullptr, size, lockstep::DataType::float32}};
}

ProgressThread::Job failure() {
  return {[](void*, lockstep::NumberSpan) { throw std::runtime_error("lost"); }};
}

}  // namespace

TEST_CASE("ProgressThread: does the jobs in their order, on another thread, again and again") {
  ProgressThread progress;
  progress.wait();
  Log log;
  std::vector<std::size_t> expected;
  for (std::size_t round = 0; round < 50; ++round) {
    for (std::size_t i = 0; i < round % 5; ++i) {
      progress.post(entry(log, round * 10 + i));
      expected.push_back(round * 10 + i);
    }
    progress.wait();
    REQUIRE(log.sizes == expected);
  }
  CHECK(log.thread != std::this_thread::get_id());
  CHECK(log.thread != std::thread::id());
}

TEST_CASE("ProgressThread: after a failure the rest is dropped; wait throws it once") {
  ProgressThread progress;
  Log log;
  progress.post(entry(log, 1));
  progress.post(failure());
  progress.post(entry(log, 2));
  CHECK_THROWS_WITH_AS(progress.wait(), "lost", std::runtime_error);
  CHECK(log.sizes == std::vector<std::size_t>{1});
  progress.wait();
  progress.post(entry(log, 3));
  progress.wait();
  CHECK(log.sizes == std::vector<std::size_t>{1, 3});

  progress.post(failure());
  progress.drain();
  progress.post(entry(log, 4));
  progress.wait();
  CHECK(log.sizes == std::vector<std::size_t>{1, 3, 4});
}

TEST_CASE("ProgressThread: its end waits for the job that it is in") {
  std::atomic<bool> begun = false;
  std::atomic<bool> ended = false;
  struct Flags {
    std::atomic<bool>& begun;
    std::atomic<bool>& ended;
  } flags{begun, ended};
  {
    ProgressThread progress;
    progress.post({[](void* self, lockstep::NumberSpan) {
                     auto& f = *static_cast<Flags*>(self);
                     f.begun = true;
                     std::this_thread::sleep_for(std::chrono::milliseconds(20));
                     f.ended = true;
                   },
                   &flags});
    while (!begun) std::this_thread::yield();
  }
  CHECK(ended);
}
