#include "lockstep/collectives/threads/thread_barrier.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace lockstep;
using namespace std::chrono_literals;
using Outcome = ThreadBarrier::Outcome;

TEST_SUITE("thread_barrier") {
  TEST_CASE("no thread leaves before all have come, spinning or sleeping") {
    for (const int size : {1, 2, 5})
      for (const int threads_on_host : {1, 1000}) {
        ThreadBarrier barrier(size, threads_on_host);
        std::atomic<int> rounds{0};
        std::atomic<int> wrong{0};
        std::vector<std::thread> threads;
        for (int rank = 0; rank < size; ++rank)
          threads.emplace_back([&, rank] {
            for (int round = 0; round < 300; ++round) {
              rounds.fetch_add(1);
              if (round % 3 == 0)
                barrier.arrive_and_wait_always(rank);
              else if (barrier.arrive_and_wait(rank, 60s) != Outcome::released)
                wrong.fetch_add(1);
              if (rounds.load() < (round + 1) * size) wrong.fetch_add(1);
            }
          });
        for (std::thread& thread : threads) thread.join();
        CHECK(wrong == 0);
        CHECK(rounds == 300 * size);
      }
  }

  TEST_CASE("a thread that waits too long breaks it for all, and the missing one is known") {
    ThreadBarrier barrier(3, 3);
    Outcome early{};
    std::thread other([&] { early = barrier.arrive_and_wait(2, 60s); });
    CHECK(barrier.arrive_and_wait(0, 30ms) == Outcome::timed_out);
    other.join();
    CHECK(early == Outcome::broken);
    CHECK(barrier.first_missing() == 1);
    CHECK(barrier.is_broken());
    CHECK(barrier.arrive_and_wait(1, 1ms) == Outcome::broken);
    barrier.reset();
    CHECK_FALSE(barrier.is_broken());
    std::thread a([&] { (void)barrier.arrive_and_wait(0, 60s); });
    std::thread b([&] { (void)barrier.arrive_and_wait(1, 60s); });
    CHECK(barrier.arrive_and_wait(2, 60s) == Outcome::released);
    a.join();
    b.join();
  }

  TEST_CASE("one that departs breaks the wait in which others are, or come, and no former one") {
    ThreadBarrier barrier(2, 1000);
    for (int round = 0; round < 2000; ++round) {
      Outcome first{}, second{};
      std::thread other([&] {
        first = barrier.arrive_and_wait(0, 60s);
        second = barrier.arrive_and_wait(0, 60s);
      });
      const Outcome mine = barrier.arrive_and_wait(1, 60s);
      barrier.depart(1);
      other.join();
      REQUIRE(mine == Outcome::released);
      REQUIRE(first == Outcome::released);
      REQUIRE(second == Outcome::broken);
      REQUIRE(barrier.departed() == 1);
      barrier.reset();
      REQUIRE(barrier.departed() == -1);
    }
  }

  TEST_CASE("breaking wakes those who sleep") {
    ThreadBarrier barrier(2, 1000);
    Outcome outcome{};
    std::thread sleeper([&] { outcome = barrier.arrive_and_wait(0, 60s); });
    std::this_thread::sleep_for(20ms);
    barrier.break_all();
    sleeper.join();
    CHECK(outcome == Outcome::broken);
  }

  TEST_CASE("the time of a patient wait does not count") {
    ThreadBarrier barrier(2, 1000);
    std::atomic<bool> patient = true;
    Outcome outcome{};
    std::thread waiting([&] { outcome = barrier.arrive_and_wait(0, 5ms, &patient); });
    std::this_thread::sleep_for(50ms);
    CHECK(barrier.arrive_and_wait(1, 60s) == Outcome::released);
    waiting.join();
    CHECK(outcome == Outcome::released);
  }
}
