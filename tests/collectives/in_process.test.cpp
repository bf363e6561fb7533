#include "lockstep/collectives/in_process.hpp"

#include <doctest/doctest.h>

#include "collectives/harness.hpp"

using namespace lockstep;
using namespace lockstep::testing;
using namespace std::chrono_literals;

TEST_SUITE("in_process") {
  TEST_CASE("a group needs a member") {
    CHECK_THROWS_WITH_AS(InProcessGroup(0), "a group of threads needs at least 1 member, got 0", ConfigurationError);
    CHECK_THROWS_AS(InProcessGroup(2, {.timeout = 0s}), ConfigurationError);
  }

  TEST_CASE("threads that are out of step all get an error that names the difference") {
    InProcessGroup group(3);
    auto thrown = run_threads(3, [&](int rank) {
      std::vector<float> values(rank == 1 ? 4 : 3, 1.0f);
      group.member(rank).all_reduce(std::span(values));
    });
    for (const auto& exception : thrown)
      CHECK(
          message_of(exception).find("replicas are out of step: rank 0 is in all_reduce of float, 12 bytes, rank 1 in "
                                     "all_reduce of float, 16 bytes") != std::string::npos);
    group.reset();
    thrown = run_threads(3, [&](int rank) {
      std::vector<float> values(3);
      if (rank == 2)
        group.member(rank).barrier();
      else
        group.member(rank).all_reduce(std::span(values));
    });
    for (const auto& exception : thrown) CHECK(message_of(exception).find("rank 2 in barrier") != std::string::npos);
    group.reset();
    rethrow_first(run_threads(3, [&](int rank) { group.member(rank).barrier(); }));
  }

  TEST_CASE("a thread that does not come is named when the time is over") {
    InProcessGroup group(3, {.timeout = 50ms});
    const auto thrown = run_threads(3, [&](int rank) {
      if (rank != 1) group.member(rank).barrier();
    });
    CHECK(!thrown[1]);
    for (const int rank : {0, 2}) {
      const std::string message = message_of(thrown[static_cast<std::size_t>(rank)]);
      CHECK(message.find("barrier: rank 1 failed: this replica's thread did not come to barrier within 50 ms") == 0);
    }
  }

  TEST_CASE("reduce_to_first leaves the other buffers alone") {
    InProcessGroup group(3);
    std::vector<std::vector<double>> values(3, std::vector<double>(100, 2.0)), statuses(3, std::vector<double>(2, 1.0));
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

  TEST_CASE("reduce_scatter hands out the sums of all_reduce, each once, and leaves the buffers alone") {
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
          collective.reduce_scatter(
              std::span(status), std::span(values[i]),
              [&](std::span<const double> reduced, std::size_t offset, std::span<const float> sums) {
                if (reduced[1] != 2.0 * size) throw Error("status");
                for (std::size_t k = 0; k < sums.size(); ++k) {
                  shared[offset + k] = sums[k];
                  ++begun[offset + k];
                }
              });
          statuses[i].assign(status.begin(), status.end());
          if (shared != summed[i]) throw Error("rank " + std::to_string(rank) + " came back before the others");
        }));
        CHECK(begun == std::vector<float>(count, 1.0f));
        for (std::size_t i = 0; i < ranks; ++i) {
          CHECK(values[i] == random_numbers<float>(static_cast<int>(i), count));
          CHECK(statuses[i] ==
                std::vector<float>{static_cast<float>(size * (size + 1) / 2), 2.0f * static_cast<float>(size)});
        }
      }
    }
  }

  TEST_CASE("a failure in what reduce_scatter calls is that thread's, and keeps nobody waiting") {
    InProcessGroup group(3);
    std::vector<float> values(30'000, 1.0f);
    const auto thrown = run_threads(3, [&](int rank) {
      std::vector<float> mine = values;
      group.member(rank).reduce_scatter(std::span<double>(), std::span(mine),
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
        if (values != std::vector<std::int64_t>{6, 4 * round}) throw Error("round " + std::to_string(round));
        if (round % 3 == 0) collective.barrier();
      }
    }));
  }
}
