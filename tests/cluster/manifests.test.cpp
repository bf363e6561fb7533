// The manifests of examples/kubernetes: the environment that the operators make of them gives each
// pod its place. What an operator adds to the manifest's own variables is written down here.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/cluster/cluster_from_environment.hpp"
#include "support/manifest.hpp"

using namespace lockstep;
using lockstep_test::Manifest;
using Variables = std::map<std::string, std::string>;

namespace {

Cluster cluster_of(const Variables& variables) {
  const auto read = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return lockstep::detail::cluster_from(read);
}

/// Each rank once, all with one size, and one meeting at that of rank 0.
void check_places(const std::vector<Variables>& pods, const std::string& meeting) {
  std::set<int> ranks;
  for (const Variables& pod : pods) {
    const Cluster cluster = cluster_of(pod);
    CHECK(cluster.world_size() == static_cast<int>(pods.size()));
    ranks.insert(cluster.rank());
    if (!meeting.empty()) {
      REQUIRE(cluster.meeting);
      CHECK(cluster.meeting->address == meeting);
    }
  }
  CHECK(ranks.size() == pods.size());
  CHECK(cluster_of(pods.front()).is_chief());
}

}  // namespace

TEST_SUITE("manifests") {
  TEST_CASE("an indexed Job") {
    const Manifest manifest("indexed-job.yaml");
    const int completions = manifest.number("completions");
    CHECK(manifest.number("parallelism") == completions);
    CHECK(manifest.text("subdomain") == manifest.text("name"));  // the service's
    std::vector<Variables> pods;
    for (int index = 0; index < completions; ++index) {
      Variables pod = manifest.variables({});
      pod["JOB_COMPLETION_INDEX"] = std::to_string(index);
      pods.push_back(pod);
    }
    check_places(pods, manifest.text("name") + "-0." + manifest.text("subdomain") + ":2222");
  }

  TEST_CASE("a JobSet") {
    const Manifest manifest("jobset.yaml");
    const std::string coordinator = manifest.text("name") + "-worker-0-0." + manifest.text("name");
    std::vector<Variables> pods;
    for (int job = 0; job < manifest.number("replicas"); ++job)
      for (int index = 0; index < manifest.number("completions"); ++index) {
        Variables pod = manifest.variables(
            {{"metadata.annotations['jobset.sigs.k8s.io/job-index']", std::to_string(job)},
             {"metadata.annotations['jobset.sigs.k8s.io/coordinator']", coordinator}});
        pod["JOB_COMPLETION_INDEX"] = std::to_string(index);
        pods.push_back(pod);
      }
    check_places(pods, coordinator + ":2222");
  }

  TEST_CASE("a TFJob") {
    const Manifest manifest("tfjob.yaml");
    const std::vector<int> replicas =
        manifest.numbers("replicas");  // of the chief and of the workers
    REQUIRE(replicas.size() == 2);
    REQUIRE(replicas[0] == 1);
    const std::string name = manifest.text("name");
    std::string workers;
    for (int index = 0; index < replicas[1]; ++index)
      workers += (index == 0 ? "\"" : ",\"") + name + "-worker-" + std::to_string(index) +
                 ".ns.svc:2222\"";
    std::vector<Variables> pods;
    for (int rank = 0; rank <= replicas[1]; ++rank)
      pods.push_back(
          {{"TF_CONFIG",
            R"({"cluster":{"chief":[")" + name + R"(-chief-0.ns.svc:2222"],"worker":[)" + workers +
                R"(]},"task":{"type":")" + (rank == 0 ? "chief" : "worker") + R"(","index":)" +
                std::to_string(rank == 0 ? 0 : rank - 1) + R"(},"environment":"cloud"})"}});
    check_places(pods, "");
    CHECK(manifest.variables({}).empty());
  }

  TEST_CASE("a TrainJob") {
    const Manifest manifest("trainer-v2.yaml");
    const int nodes = manifest.number("numNodes");
    const std::string address = manifest.text("name") + "-node-0-0." + manifest.text("name");
    std::vector<Variables> pods;
    for (int rank = 0; rank < nodes; ++rank)
      pods.push_back({{"PET_NNODES", std::to_string(nodes)},
                      {"PET_NPROC_PER_NODE", std::to_string(manifest.number("numProcPerNode"))},
                      {"PET_NODE_RANK", std::to_string(rank)},
                      {"PET_MASTER_ADDR", address},
                      {"PET_MASTER_PORT", "29500"},
                      {"JOB_COMPLETION_INDEX", std::to_string(rank)}});
    check_places(pods, address + ":29500");
    // Trainer refuses PET_... in a manifest
    CHECK(manifest.variables({}).empty());
  }
}
