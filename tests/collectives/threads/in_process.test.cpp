#include "lockstep/collectives/threads/in_process.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <thread>

#include "collectives/harness.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

TEST_SUITE("in_process") {
  TEST_CASE("a group needs a member") {
    CHECK_THROWS_WITH_AS(InProcessGroup(0), "a group of threads needs at least 1 member, got 0",
                         ConfigurationError);
    CHECK_THROWS_AS(InProcessGroup(2, {.timeout = 0s}), ConfigurationError);
  }

  TEST_CASE("threads that are out of step all get an error that names the difference") {
    InProcessGroup group(3);
    auto thrown = run_threads(3, [&](int rank) {
      std::vector<float> values(rank == 1 ? 4 : 3, 1.0f);
      group.member(rank).all_reduce(std::span(values));
    });
    for (const auto& exception : thrown)
      CHECK(message_of(exception).find("replicas are out of step: replica 0 is in all_reduce of "
                                       "float, 12 bytes, replica 1 in "
                                       "all_reduce of float, 16 bytes") != std::string::npos);
    group.reset();
    thrown = run_threads(3, [&](int rank) {
      std::vector<float> values(3);
      if (rank == 2)
        group.member(rank).barrier();
      else
        group.member(rank).all_reduce(std::span(values));
    });
    for (const auto& exception : thrown)
      CHECK(message_of(exception).find("replica 2 in barrier") != std::string::npos);
    group.reset();
    rethrow_first(run_threads(3, [&](int rank) { group.member(rank).barrier(); }));
  }

  TEST_CASE("a thread that does not come is named when the time is over") {
    InProcessGroup group(3, {.timeout = 1ms, .progress_timeout = 50ms});
    const auto thrown = run_threads(3, [&](int rank) {
      if (rank != 1) group.member(rank).barrier();
    });
    CHECK(!thrown[1]);
    for (const int rank : {0, 2}) {
      const std::string message = message_of(thrown[static_cast<std::size_t>(rank)]);
      CHECK(message.find("barrier: replica 1 failed: this replica's thread did not come to barrier "
                         "within 50 ms "
                         "(CommunicationOptions::progress_timeout)") == 0);
    }
  }

  TEST_CASE("a thread that is busy for longer than the timeout of silence is waited for") {
    InProcessGroup group(2, {.timeout = 1ms});
    rethrow_first(run_threads(2, [&](int rank) {
      if (rank == 1) std::this_thread::sleep_for(100ms);
      group.member(rank).barrier();
    }));
  }

  TEST_CASE("reduce_to_first leaves the other buffers alone") {
    InProcessGroup group(3);
    std::vector<std::vector<double>> values(3, std::vector<double>(100, 2.0)),
        statuses(3, std::vector<double>(2, 1.0));
    rethrow_first(run_threads(3, [&](int rank) {
      const auto i = static_cast<std::size_t>(rank);
      group.member(rank).reduce_to_first(std::span(statuses[i]), std::span(values[i]));
    }));
    CHECK(values[0] == std::vector<double>(100, 6.0));
    CHECK(statuses[0] == std::vector<double>(2, 3.0));
    for (const std::size_t i : {1u, 2u}) {
      CHECK(values[i] == std::vector<double>(100, 2.0));
      CHECK(statuses[i] == std::vector<double>(2, 1.0));
    }
  }

  TEST_CASE(
      "reduce_scatter hands out the sums of all_reduce, each once, and leaves the buffers alone") {
    for (const int size : {1, 2, 3, 4}) {
      for (const std::size_t count : {0u, 1u, 17u, 1024u, 70'001u}) {
        CAPTURE(size);
        CAPTURE(count);
        InProcessGroup group(size);
        const auto ranks = static_cast<std::size_t>(size);
        std::vector<std::vector<float>> summed(ranks), values(ranks), statuses(ranks);
        std::vector<float> shared(count, -1), begun(count, 0);
        rethrow_first(run_threads(size, [&](int rank) {
          InProcess collective = group.member(rank);
          const auto i = static_cast<std::size_t>(rank);
          summed[i] = values[i] = random_numbers<float>(rank, count);
          collective.all_reduce(std::span(summed[i]));
          std::vector<double> status{1.0 + rank, 2};
          collective.reduce_scatter(std::span(status), std::span(values[i]),
                                    [&](std::span<const double> reduced, std::size_t offset,
                                        std::span<const float> sums) {
                                      if (reduced[1] != 2.0 * size) throw Error("status");
                                      for (std::size_t k = 0; k < sums.size(); ++k) {
                                        shared[offset + k] = sums[k];
                                        ++begun[offset + k];
                                      }
                                    });
          statuses[i].assign(status.begin(), status.end());
          if (shared != summed[i])
            throw Error("rank " + std::to_string(rank) + " came back before the others");
        }));
        CHECK(begun == std::vector<float>(count, 1.0f));
        for (std::size_t i = 0; i < ranks; ++i) {
          CHECK(values[i] == random_numbers<float>(static_cast<int>(i), count));
          CHECK(statuses[i] == std::vector<float>{static_cast<float>(size * (size + 1) / 2),
                                                  2.0f * static_cast<float>(size)});
        }
      }
    }
  }

  TEST_CASE(
      "a reduce_scatter that begins early has the same sums, each once, however far the threads "
      "are") {
    // In between there are other operations, of another length; and in a round one thread does not
    // begin early.
    constexpr std::size_t count = 100'003;
    for (const int size : {1, 2, 3}) {
      CAPTURE(size);
      InProcessGroup group(size);
      const auto ranks = static_cast<std::size_t>(size);
      std::vector<std::vector<float>> values(ranks), summed(ranks);
      std::vector<float> shared(count), times(count);
      std::vector<int> early_pieces(ranks);
      for (int round = 0; round < 4; ++round) {
        CAPTURE(round);
        std::fill(times.begin(), times.end(), 0.0f);
        rethrow_first(run_threads(size, [&](int rank) {
          InProcess collective = group.member(rank);
          const auto i = static_cast<std::size_t>(rank);
          summed[i] = random_numbers<float>(10 * round + rank, count);
          values[i].assign(count, 1e9f);
          collective.all_reduce(std::span(summed[i]));
          bool is_early = true;
          const auto take = [&](std::span<const double> reduced, std::size_t offset,
                                std::span<const float> sums) {
            early_pieces[i] += is_early;
            if (reduced.size() != 1 || reduced[0] != (is_early ? 2.0 : 3.0) * size)
              throw Error("status");
            for (std::size_t k = 0; k < sums.size(); ++k) {
              shared[offset + k] = sums[k];
              ++times[offset + k];
            }
          };
          const std::vector<float> numbers = random_numbers<float>(10 * round + rank, count);
          const bool begins = round != 2 || rank + 1 < size;
          const double status = 2;
          if (begins)
            collective.begin_reduce_scatter(std::span(&status, 1),
                                            std::span<const float>(values[i]));
          for (std::size_t done = 0; done < count;) {
            const std::size_t step = std::min(count - done, 9'000 * (i + 1));
            std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(done), step,
                        values[i].begin() + static_cast<std::ptrdiff_t>(done));
            done += step;
            if (begins) collective.advance_reduce_scatter(done, take);
          }
          if (round == 1) collective.barrier();
          if (begins) collective.advance_reduce_scatter(count, take);  // nothing is taken twice
          is_early = false;
          std::vector<double> last{3};
          collective.reduce_scatter(std::span(last), std::span(values[i]), take);
          if (last[0] != 3.0 * size) throw Error("last status");
          if (values[i] != numbers) throw Error("values");
        }));
        CHECK(shared == summed[0]);
        CHECK(times == std::vector<float>(count, 1.0f));
      }
      if (size > 1)  // after the barrier, all were ready
        for (const int pieces : early_pieces) CHECK(pieces > 0);
    }
  }

  TEST_CASE("a reduce_scatter that has begun and failed leaves nothing behind") {
    InProcessGroup group(2);
    std::vector<float> values(50'000, 1.0f), others = values;
    const auto never = [](auto, std::size_t, auto) { throw Error("called"); };
    std::array members{group.member(0), group.member(1)};
    const auto thrown = run_threads(2, [&](int rank) {
      InProcess& collective = members[static_cast<std::size_t>(rank)];
      const std::span<float> mine(rank == 0 ? values : others);
      collective.begin_reduce_scatter({}, std::span<const float>(mine));
      if (rank == 0) {
        collective.advance_reduce_scatter(20'000, [](auto...) {});
        return collective.abort("no more");
      }
      bool taken = false;
      for (int i = 0; i < 10'000 && !taken; ++i) {
        collective.advance_reduce_scatter(mine.size(), [&](auto...) { taken = true; });
        if (!taken) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (!taken) throw Error("nothing was taken");
      collective.reduce_scatter(std::span<double>(), mine, never);
    });
    CHECK(message_of(thrown[1]).find("no more") != std::string::npos);
    group.reset();
    std::vector<float> sums(values.size());
    const auto take = [&](auto, std::size_t offset, std::span<const float> piece) {
      std::copy(piece.begin(), piece.end(), sums.begin() + static_cast<std::ptrdiff_t>(offset));
    };
    rethrow_first(run_threads(2, [&](int rank) {
      InProcess& collective = members[static_cast<std::size_t>(rank)];
      std::vector<float> mine = values;
      collective.barrier();
      if (rank == 0) collective.begin_reduce_scatter({}, std::span<const float>(mine));
      if (rank == 0) collective.advance_reduce_scatter(mine.size(), never);  // rank 1 has not begun
      collective.reduce_scatter(std::span<double>(), std::span(mine), take);
    }));
    CHECK(sums == std::vector<float>(values.size(), 2.0f));
  }

  TEST_CASE("a failure in what reduce_scatter calls is that thread's, and keeps no other waiting") {
    InProcessGroup group(3);
    std::vector<float> values(30'000, 1.0f);
    const auto thrown = run_threads(3, [&](int rank) {
      std::vector<float> mine = values;
      group.member(rank).reduce_scatter(
          std::span<double>(), std::span(mine),
          [&](std::span<const double>, std::size_t, std::span<const float>) {
            if (rank == 1) throw Error("no");
          });
    });
    CHECK(message_of(thrown[1]) == "no");
    CHECK(!thrown[0]);
    CHECK(!thrown[2]);
    rethrow_first(run_threads(3, [&](int rank) { group.member(rank).barrier(); }));
  }

  TEST_CASE("many small operations in a row") {
    InProcessGroup group(4);
    rethrow_first(run_threads(4, [&](int rank) {
      InProcess collective = group.member(rank);
      for (int round = 0; round < 500; ++round) {
        std::vector<std::int64_t> values{rank, round};
        collective.all_reduce(std::span(values));
        if (values != std::vector<std::int64_t>{6, 4 * round})
          throw Error("round " + std::to_string(round));
        if (round % 3 == 0) collective.barrier();
      }
    }));
  }
}
