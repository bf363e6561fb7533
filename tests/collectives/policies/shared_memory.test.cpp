#include "lockstep/collectives/policies/shared_memory.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "collectives/harness.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

/// Runs f(collective) on ranks that are threads, and returns what each has thrown.
template <class F>
std::vector<std::exception_ptr> run_ranks(int size, const CommunicationOptions& options, F f) {
  return run_places(size, [&](const Rendezvous& place) {
    auto collective = SharedMemory::connect(place, options);
    f(collective);
  });
}

/// An outer collective behind a worker with one thread.
template <class Family>
struct WorkerFamily {
  template <class F>
  static void run(int size, F f) {
    Family::run(size, [&](auto& outer) {
      const auto any = any_collective(outer);
      HierarchicalGroup group(1, any.get(), patient_options());
      Hierarchical collective = group.member(0);
      f(collective);
    });
  }
};

/// What a rank has there; sums depend on their order.
template <class T>
T brought(int rank, std::size_t i) {
  return static_cast<T>((i * 7 + static_cast<std::size_t>(rank) * 13) % 101) / 7;
}

/// As contract_sum.
template <class T>
T sum_of(int ranks, std::size_t i) {
  const int first = static_cast<int>(i / block_elements) % ranks;
  T sum = brought<T>(first, i);
  for (int k = 1; k < ranks; ++k) sum = sum + brought<T>((first + k) % ranks, i);
  return sum;
}

/// What stands in place of the sum: from a number that all ranks have, and the status.
template <class T>
T finished(std::size_t i, T sum, double status) {
  return static_cast<T>(i % 7) - static_cast<T>(status) * sum;
}

/// reduce_scatter_all_gather of `count` elements in memory from allocate(), or, on rank 0,
/// elsewhere. Throws what is wrong.
template <class T, class C>
void finish_shares(C& collective, std::size_t count, bool in_place,
                   std::atomic<std::size_t>& calls) {
  const int ranks = collective.size();
  const std::size_t bytes = count * sizeof(T) + 1;
  const Buffer memory =
      in_place || collective.rank() > 0 ? collective.allocate(bytes) : Buffer(bytes);
  const std::span values(reinterpret_cast<T*>(memory.data()), count);
  for (std::size_t i = 0; i < count; ++i) values[i] = brought<T>(collective.rank(), i);
  std::vector<double> status{0.5, collective.rank() + 1.0};
  const double status_sum = ranks * (ranks + 1) / 2.0;
  collective.reduce_scatter_all_gather(
      std::span(status), values,
      [&](std::span<const double> sums, std::size_t offset, std::span<const T> piece,
          std::span<T> results) {
        if (sums.size() != 2 || sums[1] != status_sum || results.size() != piece.size())
          throw Error("arguments");
        for (std::size_t i = 0; i < piece.size(); ++i)
          results[i] = finished(offset + i, piece[i], sums[0]);
        calls += piece.size();
      });
  if (status != std::vector<double>{0.5 * ranks, status_sum}) throw Error("status");
  for (std::size_t i = 0; i < count; ++i)
    if (values[i] != finished(i, sum_of<T>(ranks, i), status[0]))
      throw Error("element " + std::to_string(i));
}

}  // namespace

TEST_SUITE("shared memory") {
  TEST_CASE_TEMPLATE("reduce_scatter_all_gather: all ranks have what one has made of the sums",
                     Family, SharedMemoryFamily, WorkerFamily<SharedMemoryFamily>,
                     WorkerFamily<AutoFamily>) {
    for (int size = 1; size <= 8; ++size) {
      CAPTURE(size);
      const auto n = static_cast<std::size_t>(size);
      std::vector<std::size_t> lengths{0, 1, n - 1, n, n + 1, 1009, block_elements + 5};
      if (size == 2 || size == 8) lengths.push_back(std::size_t{1} << 20);
      std::vector<std::atomic<std::size_t>> calls(4 * lengths.size());
      Family::run(size, [&](auto& collective) {
        for (std::size_t i = 0; i < lengths.size(); ++i) {
          finish_shares<float>(collective, lengths[i], true, calls[4 * i]);
          finish_shares<float>(collective, lengths[i], false, calls[4 * i + 1]);
          if (lengths[i] > block_elements) continue;
          finish_shares<double>(collective, lengths[i], true, calls[4 * i + 2]);
          finish_shares<double>(collective, lengths[i], false, calls[4 * i + 3]);
        }
      });
      for (std::size_t i = 0; i < lengths.size(); ++i)
        if (lengths[i] > block_elements)
          for (const std::size_t way : {0u, 1u})
            CHECK(calls[4 * i + way] == lengths[i]);  // no element by two ranks
    }
  }

  TEST_CASE("reduce_scatter_all_gather: who calls all_reduce instead is named") {
    const auto thrown = run_ranks(2, patient_options(), [](SharedMemory& collective) {
      std::vector<float> values(10);
      std::vector<double> status(1);
      if (collective.rank() == 0)
        return collective.all_reduce(std::span(status), std::span(values));
      collective.reduce_scatter_all_gather(std::span(status), std::span(values), [](auto...) {});
    });
    for (const auto& exception : thrown)
      CHECK(failure_of(exception).reason.find(
                "worker 0 is in all_reduce of float and 1 status values, 40 bytes, worker 1 "
                "in reduce_scatter_all_gather of float") != std::string::npos);
  }

  TEST_CASE(
      "only workers with one thread, of which there are several, have memory that all ranks "
      "share") {
    rethrow_first(run_ranks(2, patient_options(), [](SharedMemory& collective) {
      const auto any = any_collective(collective);
      HierarchicalGroup one(1, any.get()), two(2, any.get()), alone(1, nullptr);
      if (!one.member(0).can().share || !one.member(0).can().shard) throw Error("one thread");
      if (two.member(0).can().share || two.member(1).can().share) throw Error("two threads");
      if (alone.member(0).can().share) throw Error("alone");
      collective.close();
    }));
  }

  TEST_CASE("arrays in memory from allocate() are summed in place, in the order of the contract") {
    for (const int size : {2, 3, 4}) {
      const std::size_t count = 3 * block_elements + 77;
      std::vector<std::vector<float>> inputs;
      std::vector<std::vector<double>> statuses;
      for (int rank = 0; rank < size; ++rank) {
        inputs.push_back(random_numbers<float>(rank, count));
        statuses.push_back(
            random_numbers<double>(rank + 100, 200'000));  // more than a staging area holds
      }
      const auto sums = contract_sum(inputs);
      std::vector<double> status_sums = statuses[0];
      for (std::size_t r = 1; r < statuses.size(); ++r)
        for (std::size_t i = 0; i < status_sums.size(); ++i) status_sums[i] += statuses[r][i];
      rethrow_first(run_ranks(size, patient_options(), [&](SharedMemory& collective) {
        const auto& input = inputs[static_cast<std::size_t>(collective.rank())];
        for (int round = 0; round < 10; ++round) {  // more segments than a rank keeps mapped
          const Buffer memory = collective.allocate((count + 5) * sizeof(float));
          const std::span values(reinterpret_cast<float*>(memory.data()) + 5, count);
          std::copy(input.begin(), input.end(), values.begin());
          auto status = statuses[static_cast<std::size_t>(collective.rank())];
          collective.all_reduce(std::span(status), values);
          if (!std::equal(values.begin(), values.end(), sums.begin())) throw Error("sums");
          if (status != status_sums) throw Error("status");
        }
        // On one rank elsewhere.
        std::vector<float> elsewhere = input;
        const Buffer memory = collective.allocate(count * sizeof(float));
        std::span values(reinterpret_cast<float*>(memory.data()), count);
        std::copy(input.begin(), input.end(), values.begin());
        if (collective.rank() == 1) values = elsewhere;
        collective.all_reduce(values);
        if (!std::equal(values.begin(), values.end(), sums.begin())) throw Error("mixed");
        collective.close();
      }));
    }
  }

  TEST_CASE("memory may outlive the collective") {
    std::vector<Buffer> memories(2);
    rethrow_first(run_ranks(2, patient_options(), [&](SharedMemory& collective) {
      Buffer& memory = memories[static_cast<std::size_t>(collective.rank())];
      memory = collective.allocate(1000);
      collective.barrier();
      collective.close();
    }));
    for (Buffer& memory : memories) {
      memory.data()[999] = std::byte{1};
      memory = Buffer();
    }
  }

  TEST_CASE("ranks that call different operations notice, and name both") {
    const auto thrown = run_ranks(2, patient_options(), [](SharedMemory& collective) {
      std::vector<float> values(collective.rank() == 0 ? 10 : 11);
      collective.all_reduce(std::span(values));
    });
    for (const auto& exception : thrown) {
      CHECK(failure_of(exception).reason.find(
                "worker 0 is in all_reduce of float, 40 bytes, worker 1 in all_reduce of float, "
                "44 bytes") != std::string::npos);
      CHECK(failure_of(exception).code == ExitCode::failure);
    }
  }

  TEST_CASE("a rank that comes to its end while others wait is named") {
    const auto thrown =
        run_ranks(2, {.timeout = 1s, .startup_timeout = 60s}, [](SharedMemory& collective) {
          if (collective.rank() == 0) collective.barrier();
          collective.close();
        });
    CHECK(failure_of(thrown[0]).reason.find(
              "came to its end while worker 0 in barrier still waits") != std::string::npos);
  }

  TEST_CASE("more ranks than cores") {
    const int size = 3 * static_cast<int>(std::thread::hardware_concurrency());
    rethrow_first(run_ranks(size, patient_options(), [&](SharedMemory& collective) {
      std::vector<float> values(1000, 1);
      for (int i = 0; i < 20; ++i) collective.barrier();
      collective.all_reduce(std::span(values));
      if (values != std::vector<float>(1000, static_cast<float>(size))) throw Error("sums");
      collective.close();
    }));
  }

  /// Rank 1, in a process that may make no files and hence no shared memory, connects as well.
  template <class F>
  void with_a_rank_that_cannot_share(F f) {
    LocalCluster cluster(2);
    const Rendezvous mine = cluster.place(0), theirs = cluster.place(1);
    const pid_t process = ::fork();
    if (process == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit none{0, 0};
      ::setrlimit(RLIMIT_FSIZE, &none);
      int code = 0;
      try {
        f(theirs);
      } catch (const Error& error) {
        code = static_cast<int>(error.exit_code());
      }
      ::_exit(code);
    }
    int code = 0;
    try {
      f(mine);
    } catch (const Error& error) {
      code = static_cast<int>(error.exit_code());
      CHECK(std::string(error.what()).find("SharedMemory: worker 1: cannot make ") == 0);
    }
    int status = 0;
    ::waitpid(process, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == code);
  }

  TEST_CASE("when a rank cannot share memory, all say why; Auto then uses TCP") {
    bool has_thrown = false;
    with_a_rank_that_cannot_share([&](const Rendezvous& place) {
      has_thrown = true;
      (void)SharedMemory::connect(place, patient_options());
      has_thrown = false;
    });
    CHECK(has_thrown);
    with_a_rank_that_cannot_share([](const Rendezvous& place) {
      const auto collective = Auto::connect(place, patient_options());
      float value = 2;
      collective->all_reduce(std::span(&value, 1));
      if (collective->can().share || value != 4) throw Error("not over TCP");
      collective->close();
    });
  }

  TEST_CASE("Auto finds out that the ranks are on one machine") {
    rethrow_first(run_places(2, [&](const Rendezvous& place) {
      const auto collective = Auto::connect(place, patient_options());
      if (!collective->can().share) throw Error("TCP");
      collective->close();
    }));
  }
}
