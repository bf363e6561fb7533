#include "lockstep/strategies/mirrored.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/captured_stderr.hpp"

using namespace lockstep;
using namespace std::chrono_literals;

TEST_SUITE("mirrored") {
  TEST_CASE("options") {
    CHECK(MirroredStrategy({.replicas = 3}).num_replicas_in_sync() == 3);
    CHECK(MirroredStrategy().local_replicas() >= 1);
    CHECK_THROWS_AS(MirroredStrategy({.replicas = -2}), ConfigurationError);
    CHECK_THROWS_AS(MirroredStrategy({.replicas = 2, .communication_options = {.timeout = 0s}}),
                    ConfigurationError);
  }

  TEST_CASE("replicas reduce together, and each knows its place") {
    MirroredStrategy strategy({.replicas = 4});
    CHECK(strategy.num_workers() == 1);
    CHECK(strategy.is_chief());
    std::atomic<int> calls = 0;
    for (int round = 0; round < 3; ++round)
      strategy.run([&](MirroredStrategy::Replica& replica) {
        ++calls;
        CHECK(replica.local_size() == 4);
        CHECK(replica.collective().rank() == replica.local_rank());
        std::vector<float> values(10, static_cast<float>(replica.local_rank()));
        replica.collective().all_reduce(std::span(values));
        CHECK(values == std::vector<float>(10, 6.0f));
        std::vector<double> sums{1.0};
        replica.collective().all_reduce(std::span(sums));
        CHECK(sums[0] == 4.0);
        replica.team_barrier();
      });
    CHECK(calls == 12);
  }

  TEST_CASE("an exception on one replica ends the others, and the strategy can be used again") {
    MirroredStrategy strategy({.replicas = 3});
    for (int thrower = 0; thrower < 3; ++thrower) {
      CHECK_THROWS_WITH_AS(strategy.run([&](auto& replica) {
        if (replica.local_rank() == thrower) throw std::runtime_error("the loss is not finite");
        for (;;) replica.collective().barrier();
      }),
                           "the loss is not finite", std::runtime_error);
      strategy.run([](auto& replica) { replica.team_barrier(); });
    }
  }

  TEST_CASE("a replica that leaves early is named at once, early or late, and then all may run") {
    MirroredStrategy strategy({.replicas = 3});
    for (const int leaver : {0, 1, 2})
      for (const int calls : {0, 1, 100}) {
        try {
          strategy.run([&](auto& replica) {
            float value = 1;
            for (int i = 0; i < calls || replica.local_rank() != leaver; ++i)
              replica.collective().all_reduce(std::span(&value, 1));
          });
          FAIL("returned");
        } catch (const CollectiveError& error) {
          CHECK(error.failure().replica == leaver);
          CHECK(error.exit_code() == ExitCode::failure);
          CHECK(error.failure().reason ==
                "this replica has left what the strategy's run() gave to all, and others wait for "
                "it in all_reduce: all replicas make the same calls");
        }
        for (int i = 0; i < 20; ++i) strategy.run([](auto& replica) { replica.team_barrier(); });
      }
  }
}

TEST_CASE("MirroredStrategy: workers that TF_CONFIG names, and that train by themselves, say so") {
  const auto printed = [](const char* tf_config) {
    const lockstep_test::CapturedStderr captured;
    ::setenv("TF_CONFIG", tf_config, 1);
    const MirroredStrategy strategy({.replicas = 1});
    ::unsetenv("TF_CONFIG");
    return captured.text();
  };
  CHECK(printed("").empty());
  CHECK(printed(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})")
            .empty());
  CHECK(printed(R"({"cluster": {"worker": ["a:1", "b:1"], "evaluator": ["c:1"]},
                    "task": {"type": "evaluator", "index": 0}})")
            .empty());
  const char* const one_of_three = R"({"cluster": {"chief": ["a:1"], "worker": ["[::1]:1",
      "c:1"], "evaluator": ["d:1"]}, "task": {"type": "worker", "index": 1}})";
  const std::string line = printed(one_of_three);
  CHECK(
      line.find("warning: MirroredStrategy: the environment variable TF_CONFIG names 3 workers") !=
      std::string::npos);
  CHECK(line.find("use MultiWorkerMirroredStrategy") != std::string::npos);
  CHECK(printed(one_of_three).empty());  // once
}

TEST_CASE("MirroredStrategy: run in team_lead, and after its failure") {
  MirroredStrategy strategy({.replicas = 2});
  std::atomic<int> sum = 0;
  const auto add = [&](MirroredStrategy::Replica& replica) {
    double one = 1;
    replica.collective().all_reduce(std::span(&one, 1));
    sum += static_cast<int>(one);
  };
  strategy.run([&](MirroredStrategy::Replica& replica) {
    replica.team_lead([&] {
      strategy.run(add);
      CHECK_THROWS_WITH(strategy.run([](MirroredStrategy::Replica& inner) {
        if (inner.local_rank() == 1) throw Error("broken");
        inner.team_barrier();
      }),
                        "broken");
      strategy.run(add);
    });
    add(replica);
  });
  CHECK(sum == 3 * 4);
}
