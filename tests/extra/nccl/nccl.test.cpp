// Nccl over a stand-in for NVIDIA's libraries, which tests/cmake/nccl.cmake links, as it sets
// LOCKSTEP_HAS_NCCL.
#include <doctest/doctest.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/suite.hpp"
#include "extra/nccl/device_arrays.hpp"
#include "extra/nccl/stand_in/stand_in.hpp"
#include "lockstep/extra/nccl.hpp"
#include "support/process.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;
using enum stand_in::Kind;

namespace {

static_assert(CollectivePolicy<Nccl> && std::derived_from<Nccl, AnyCollective>);

constexpr int ranks = 3;
constexpr std::size_t many = Nccl::least_bytes / sizeof(float) + 1;

// What each rank throws in work(nccl), with limits of two seconds. By then it has freed all that is NCCL's.
template <class Work>
std::vector<std::exception_ptr> thrown_with(const stand_in::Fault& fault, Work work,
                                            std::chrono::milliseconds startup_timeout = 60s) {
  LocalCluster cluster(ranks);
  std::vector<Rendezvous> places;
  for (int rank = 0; rank < ranks; ++rank) places.push_back(cluster.place(rank));
  const CommunicationOptions options{
      .timeout = 2s, .progress_timeout = 2s, .startup_timeout = startup_timeout};
  stand_in::fault = fault;
  const auto begin = std::chrono::steady_clock::now();
  auto thrown = run_threads(ranks, [&](int rank) {
    Nccl nccl = Nccl::connect(places[static_cast<std::size_t>(rank)], options);
    work(nccl);
    nccl.close();
  });
  stand_in::fault = {};
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  CHECK(stand_in::live_objects() == 0);
  return thrown;
}

void sum(Nccl& nccl) {
  std::vector<float> values(many, 1.0F);
  nccl.all_reduce(std::span(values));
}

// All ranks end, as for a lost peer, with the same reason.
void check_failure(const stand_in::Fault& fault, const std::string& reason) {
  CAPTURE(fault.call);
  CAPTURE(reason);
  const auto thrown = thrown_with(fault, sum);
  for (const std::exception_ptr& exception : thrown) {
    const CollectiveFailure failure = failure_of(exception);
    CHECK(failure.failed_rank == fault.rank);
    CHECK(failure.reason == reason);
    CHECK(failure.code == ExitCode::lost_peer);
  }
  const CollectiveFailure own = failure_of(thrown[static_cast<std::size_t>(fault.rank)]);
  CHECK(own.operation == std::string(fault.call == "ncclAllReduce" ? "all_reduce" : "start-up"));
}

Finished run_worker(const std::vector<std::string>& addresses, int rank, const std::string& what) {
  std::string workers;
  for (const std::string& address : addresses)
    workers += (workers.empty() ? "\"" : ", \"") + address + "\"";
  return run_process({test_program("extra_nccl_worker"), what},
                     {{"TF_CONFIG", "{\"cluster\": {\"worker\": [" + workers +
                                        "]}, \"task\": {\"type\": \"worker\", \"index\": " +
                                        std::to_string(rank) + "}}"}});
}

std::vector<Finished> run_workers(const std::string& what) {
  const auto addresses = free_addresses(2);
  std::vector<Finished> finished(2);
  rethrow_first(run_threads(2, [&](int rank) {
    finished[static_cast<std::size_t>(rank)] = run_worker(addresses, rank, what);
  }));
  return finished;
}

bool says(const Finished& finished, const std::string& text) {
  return finished.output.find(text) != std::string::npos;
}

}  // namespace

TEST_SUITE("nccl") {
  TEST_CASE("what every collective must do") {
    every_operation<NcclFamily>();
    halves_make_a_whole<NcclFamily>();
    nan_is_the_maximum<NcclFamily>();
    wrong_arguments_are_refused<NcclFamily>();
    all_hear_what_one_reports<NcclFamily>();
    CHECK(stand_in::live_objects() == 0);
  }

  TEST_CASE("every operation on arrays in a device's memory") {
    for (int size = 1; size <= 4; ++size) every_operation_on_devices(size);
    CHECK(stand_in::live_objects() == 0);
  }

  TEST_CASE("of the host's memory, long sums go over NCCL, and nothing else") {
    const auto moved = [](auto f) {
      const long before = stand_in::numbers_moved();
      NcclFamily::run(2, f);
      return static_cast<std::size_t>(stand_in::numbers_moved() - before);
    };
    const auto all_reduce = [&](std::size_t count, ReduceOp op) {
      return moved([=](Nccl& nccl) {
        std::vector<float> values(count);
        nccl.all_reduce(std::span(values), op);
      });
    };
    CHECK(all_reduce(many, ReduceOp::sum) == 2 * many);
    CHECK(all_reduce(many - 2, ReduceOp::sum) == 0);
    CHECK(all_reduce(many, ReduceOp::max) == 0);
    CHECK(moved([](Nccl& nccl) {
            std::vector<std::int64_t> integers(many);
            nccl.all_reduce(std::span(integers));
            nccl.broadcast(std::as_writable_bytes(std::span(integers)), 1);
          }) == 0);
  }

  TEST_CASE("an array in allocated memory on one rank, and in any on another") {
    NcclFamily::run(2, [](Nccl& nccl) {
      const std::size_t count = 5'000'000;  // several pieces
      std::vector<float> own(count);
      const Buffer buffer = nccl.allocate(count * sizeof(float));
      const std::span<float> values =
          nccl.rank() == 0 ? std::span(own)
                           : std::span(reinterpret_cast<float*>(buffer.data()), count);
      if (values[count / 2] != 0) throw Error("not zeroed");
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1000);
      nccl.all_reduce(values);
      for (std::size_t i = 0; i < count; ++i)
        if (values[i] != static_cast<float>(i % 1000 * 2)) throw Error("wrong sum");
    });
  }

  TEST_CASE("all_gather from the host's memory to a device's is refused") {
    NcclFamily::run(2, [](Nccl& nccl) {
      const std::vector<std::byte> mine(3);
      const DeviceArray<std::byte> all(std::vector<std::byte>(6));
      CHECK_THROWS_WITH_AS(
          nccl.all_gather(std::span(mine), all.span()),
          "all_gather: one of the two arrays is in a device's memory, the other is not", Error);
    });
  }

  TEST_CASE("options that NCCL cannot follow are refused") {
    const Rendezvous place{.rank = 0, .addresses = {"localhost:1", "localhost:2"}};
    CHECK_THROWS_WITH_AS((void)Nccl::connect(place, {.wire = Wire::bfloat16}),
                         "CommunicationOptions::wire is not for Nccl", ConfigurationError);
    CHECK_THROWS_WITH_AS((void)Nccl::connect(place, {.tls = Tls::pre_shared_key}),
                         "CommunicationOptions::tls (or LOCKSTEP_TLS) is not for Nccl",
                         ConfigurationError);
  }

  TEST_CASE("a call that returns an error ends all ranks, which name it") {
    const std::string text = ": unhandled system error: what NCCL said last";
    check_failure({"ncclGetUniqueId", 0, fails}, "ncclGetUniqueId" + text);
    check_failure({"ncclCommInitRankConfig", 1, fails}, "ncclCommInitRankConfig" + text);
    check_failure({"ncclAllReduce", 2, fails}, "ncclAllReduce" + text);
    check_failure({"cudaHostAlloc", 1, fails}, "cudaHostAlloc: out of memory");
  }

  TEST_CASE("an error that comes later ends all ranks") {
    check_failure({"ncclAllReduce", 1, breaks},
                  "ncclAllReduce: remote process exited or there was a network error: what NCCL "
                  "said last");
    check_failure({"cudaStreamQuery", 2, fails},
                  "ncclCommInitRankConfig: an illegal memory access was encountered");
  }

  TEST_CASE("a communicator that is never ready, and a call that never ends") {
    const auto check_late = [](const stand_in::Fault& fault, const std::string& option,
                               std::chrono::milliseconds startup_timeout = 60s) {
      const auto thrown = thrown_with(fault, sum, startup_timeout);
      for (const std::exception_ptr& exception : thrown) {
        const CollectiveFailure failure = failure_of(exception);
        CHECK(failure.reason ==
              fault.call + ": has not ended within 2 s (CommunicationOptions::" + option + ")");
        CHECK(failure.code == ExitCode::lost_peer);
      }
    };
    check_late({"ncclCommInitRankConfig", 1, never_ready}, "startup_timeout", 2s);
    check_late({"ncclAllReduce", 1, never_ready}, "progress_timeout");
    check_late({"ncclAllReduce", 0, never_ends}, "progress_timeout");
  }

  TEST_CASE("a rank that is late is named by all others") {
    const auto thrown = thrown_with({}, [](Nccl& nccl) {
      if (nccl.rank() == 1) std::this_thread::sleep_for(5s);
      sum(nccl);
    });
    for (const std::exception_ptr& exception : thrown) {
      const CollectiveFailure failure = failure_of(exception);
      CHECK(failure.failed_rank == 1);
      CHECK(failure.operation == "all_reduce");
      CHECK(failure.reason.find("kept others waiting for more than 2000 ms") != std::string::npos);
    }
  }

  TEST_CASE("ranks that come with different lengths are told, though NCCL would not end") {
    const auto thrown = thrown_with({}, [](Nccl& nccl) {
      std::vector<float> values(nccl.rank() == 2 ? many + 1 : many);
      nccl.all_reduce(std::span(values));
    });
    for (const std::exception_ptr& exception : thrown) {
      const CollectiveFailure failure = failure_of(exception);
      CHECK(failure.reason ==
            "workers are out of step: worker 0 is in all_reduce of float, 262148 bytes, worker 2 "
            "in all_reduce of float, 262152 bytes; all workers must call the same operations with "
            "equal lengths");
      CHECK(failure.code == ExitCode::failure);
    }
  }

  TEST_CASE("each rank of a machine has a device of its own, if there is one") {
    stand_in::devices = 2;
    for (const std::exception_ptr& exception : thrown_with({}, sum))
      CHECK(failure_of(exception).reason.starts_with("ncclCommInitRankConfig: invalid usage"));
    stand_in::devices = 0;
    for (const std::exception_ptr& exception : thrown_with({}, sum))
      CHECK(failure_of(exception).reason == "cudaGetDeviceCount: there is no device");
    stand_in::devices = 8;
  }

  TEST_CASE("processes train over it, and end with 138 when one is lost") {
    const auto trained = run_workers("train");
    for (const Finished& worker : trained) {
      CAPTURE(worker.output);
      CHECK(worker.exit_code == 0);
      CHECK(worker.output.ends_with(trained[1].output));  // of the parameters too
    }
    const auto killed = run_workers("killed");
    CAPTURE(killed[0].output);
    CHECK(killed[0].exit_code == 138);
    CHECK(killed[1].exit_code == 137);
    CHECK(says(killed[0], "worker 1"));
  }

  TEST_CASE("a call that does not return ends its process, and the others with its name") {
    const auto stuck = run_workers("stuck");
    const std::string text =
        "ncclAllReduce: has not returned within 1 s (half of "
        "CommunicationOptions::progress_timeout)";
    for (const Finished& worker : stuck) {
      CAPTURE(worker.output);
      CHECK(worker.exit_code == 138);
      CHECK(says(worker, text));
      CHECK(says(worker, "worker 1"));
    }
  }
}
