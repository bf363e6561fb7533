#include "lockstep/cluster/cluster_from_environment.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "lockstep/cluster/cluster_spec.hpp"

using namespace lockstep;
using detail::LogPlace;

namespace {

/// "worker 1, rank 1, run a:1"
std::string text_of(const LogPlace& place) {
  return place.task + " " + std::to_string(place.index) + ", rank " + std::to_string(place.rank) +
         ", run " + place.run;
}

std::string place_in(const std::map<std::string, std::string>& variables) {
  return text_of(detail::log_place_from([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  }));
}

std::string by_tf_config(const std::string& task) {
  return place_in(
      {{"TF_CONFIG", R"({"cluster": {"chief": ["c:1"], "worker": ["w:1", "w:2"], "ps": ["p:1"]}, )"
                     R"("task": )" +
                         task + "}"}});
}

}  // namespace

TEST_CASE("log place: of each task of TF_CONFIG, and one name of the run in all of them") {
  CHECK(by_tf_config(R"({"type": "chief", "index": 0})") == "chief 0, rank 0, run c:1");
  CHECK(by_tf_config(R"({"type": "worker", "index": 1})") == "worker 1, rank 2, run c:1");
  CHECK(by_tf_config(R"({"type": "ps", "index": 0})") == "ps 0, rank -1, run c:1");
  CHECK(by_tf_config(R"({"type": "evaluator", "index": 0})") == "evaluator 0, rank -1, run c:1");
}

TEST_CASE("log place: of the launchers that name one address, also where that is missing") {
  CHECK(place_in({{"RANK", "2"},
                  {"WORLD_SIZE", "4"},
                  {"MASTER_ADDR", "a"},
                  {"MASTER_PORT", "29500"},
                  {"TORCHELASTIC_RUN_ID", "x"}}) == "worker 2, rank 2, run torchrun x port 29500");
  CHECK(place_in({{"LOCKSTEP_RANK", "1"},
                  {"LOCKSTEP_WORLD_SIZE", "2"},
                  {"LOCKSTEP_MEETING_ADDRESS", "a:1"},
                  {"LOCKSTEP_JOB_ID", "9"}}) == "worker 1, rank 1, run 9");
  CHECK(place_in({{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "2"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}})
            .starts_with("worker 1, rank 1"));
}

TEST_CASE("log place: a process that is alone has rank 0; one that cannot know it has none") {
  CHECK(place_in({}) == "worker 0, rank 0, run ");
  CHECK(place_in({{"TF_CONFIG", "{}"}}) == "worker 0, rank 0, run ");
  CHECK(place_in({{"RANK", "0"},
                  {"WORLD_SIZE", "1"},
                  {"MASTER_ADDR", "a"},
                  {"MASTER_PORT", "29500"},
                  {"TORCHELASTIC_RUN_ID", "x"}}) == "worker 0, rank 0, run ");
  CHECK(place_in({{"TF_CONFIG", "{"}}) == " -1, rank -1, run ");
  CHECK(place_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}}) == " -1, rank -1, run ");
  CHECK(place_in({{"LOCKSTEP_RANK", "7"},
                  {"LOCKSTEP_WORLD_SIZE", "2"},
                  {"LOCKSTEP_MEETING_ADDRESS", "a:1"}}) == " -1, rank -1, run ");
}

TEST_CASE("log place: of a cluster that is to meet") {
  Cluster cluster;
  cluster.meeting = Meeting{.rank = 3, .size = 4, .address = "a:1", .job = "j"};
  CHECK(text_of(detail::log_place_of(cluster)) == "worker 3, rank 3, run j");
}
