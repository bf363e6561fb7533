#include "lockstep/training/profile.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/comma_locale.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

json read_json(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file);
  return json::parse(file);
}

/// How many spans have each category, in thread `tid`.
std::map<std::string, int> count_events(const json& trace, int tid) {
  std::map<std::string, int> counts;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "X" && event["tid"] == tid) ++counts[event["cat"].get<std::string>()];
  return counts;
}

}  // namespace

TEST_CASE("profile_table: milliseconds a step and shares, without layers that do no work") {
  ls::detail::Profile profile({"flatten", "dense"}, 1);
  ls::Trace& trace = profile.trace(0);
  const auto start = profile.begin();
  trace.add(ls::TracePart::input, 0, start, start + 1ms);
  trace.add(ls::TracePart::forward, 1, start, start + 2ms);
  trace.add(ls::TracePart::backward, 1, start, start + 4ms);
  trace.add(ls::TracePart::optimizer, 0, start, start + 500us);
  CHECK(ls::detail::profile_table(profile, 1, 2, 8ms) ==
        "profile of epoch 2: 2 steps, 4.000 ms a step\n"
        "  ms a step                      forward  backward     total     share\n"
        "  input                                                0.500    12.5 %\n"
        "  dense                            1.000     2.000     3.000    75.0 %\n"
        "  loss and metrics                                     0.000     0.0 %\n"
        "  collective                                           0.000     0.0 %\n"
        "  optimizer                                            0.250     6.2 %\n"
        "  callbacks                                            0.000     0.0 %\n"
        "  rest                                                 0.250     6.2 %");
  CHECK(ls::detail::profile_table(profile, 0, 0, 0ms).find("nan") == std::string::npos);
}

TEST_CASE("chrome_trace: a process for the worker, a thread for each replica, microseconds") {
  ls::detail::Profile profile({"a \"quoted\" layer"}, 2);
  profile.trace(1).add(ls::TracePart::backward, 0, profile.begin() + 5us, profile.begin() + 7us);
  profile.trace(1).add(ls::TracePart::collective, 0, profile.begin() + 7us, profile.begin() + 8us);
  const json trace = json::parse(ls::detail::chrome_trace(profile, 3));
  const json& events = trace["traceEvents"];
  REQUIRE(events.size() == 5);
  CHECK(events[0]["args"]["name"] == "worker 3");
  CHECK(events[2]["args"]["name"] == "replica 1");
  CHECK(events[3] == json{{"ph", "X"},
                          {"name", "a \"quoted\" layer"},
                          {"cat", "backward"},
                          {"pid", 3},
                          {"tid", 1},
                          {"ts", 5.0},
                          {"dur", 2.0}});
  CHECK(events[4]["name"] == "collective");
}

TEST_CASE("write_profile: each worker has a file of its own") {
  const TemporaryFolder folder;
  const ls::detail::Profile profile({"dense"}, 1);
  ls::detail::write_profile(profile, folder.path() + "/run.v1/trace.json", 0);
  ls::detail::write_profile(profile, folder.path() + "/run.v1/trace.json", 2);
  CHECK(read_json(folder.path() + "/run.v1/trace.json")["traceEvents"][0]["pid"] == 0);
  CHECK(read_json(folder.path() + "/run.v1/trace.worker2.json")["traceEvents"][0]["pid"] == 2);
}

TEST_CASE(
    "fit with a profile: every step of every replica is in the trace, and the result is the same") {
  const TemporaryFolder folder;
  const TinyData data(24);
  const ls::AnyDataset batches(ls::from_tensor_slices(data.x, data.y).batch(6));
  for (const int replicas : {1, 2}) {
    CAPTURE(replicas);
    const std::string path = folder.path() + "/trace.json";
    TinyTrainer trainer({.replicas = replicas}), plain({.replicas = replicas});
    trainer.fit_alone(batches, {.epochs = 3, .profile = path});
    plain.fit_alone(batches, {.epochs = 3});
    CHECK(trainer.parameters_crc32c() == plain.parameters_crc32c());
    const json trace = read_json(path);
    const int steps = 3 * 4;
    for (int replica = 0; replica < replicas; ++replica) {
      const auto counts = count_events(trace, replica);
      const int layers = counts.at("forward") / steps;
      CHECK(layers >= 2);
      CHECK(counts.at("forward") == layers * steps);
      CHECK(counts.at("backward") <= counts.at("forward"));
      CHECK(counts.at("optimizer") == steps);
      CHECK(counts.at("loss and metrics") == steps);
      // Alone, there is no other to wait for.
      CHECK(counts.contains("collective") == (replicas > 1));
      if (replicas > 1) CHECK(counts.at("collective") >= steps);
      CHECK(counts.at("input") >= steps);
    }
  }
  TinyTrainer trainer;
  CHECK_THROWS_AS(trainer.fit_alone(batches, {.profile = "/dev/null/trace.json"}), ls::Error);
}

using namespace lockstep;

TEST_CASE(
    "rank times: the slowest is named; the least time in reductions is the wire's, the rest is "
    "waiting") {
  const std::vector<RankTime> two{{.compute = 0.060, .collective = 0.050},
                                  {.compute = 0.080, .collective = 0.030}};
  const lockstep_test::CommaLocale locale;  // changes nothing
  CHECK(
      detail::rank_times_text(two, 0, 10, 1) ==
      "replicas in epoch 1, ms a step: worker 0 compute 6.00 wait 2.00, worker 1 compute 8.00 wait "
      "0.00, wire 3.00; slowest: "
      "worker 1");
  CHECK(detail::rank_times_text(two, 1, 0, 1).find("replicas in epoch 2") ==
        0);  // an epoch without steps divides by nothing

  std::vector<RankTime> many(20, {.compute = 1, .collective = 1});
  many[13].compute = 3;
  many[2].compute = 2;
  many[19].compute = 0.5;
  CHECK(detail::rank_times_text(many, 0, 1000, 1) ==
        "replicas in epoch 1, ms a step: worker 13 compute 3.00 wait 0.00, worker 2 compute 2.00 "
        "wait "
        "0.00, worker 0 compute 1.00 "
        "wait 0.00, worker 1 compute 1.00 wait 0.00, worker 19 compute 0.50 wait 0.00, wire 1.00; "
        "slowest: worker 13");
}
