#include "lockstep/cluster/cluster_from_environment.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/core/cores.hpp"
#include "support/captured_stderr.hpp"

using namespace lockstep;
using Variables = std::map<std::string, std::string>;

namespace {

Cluster cluster_of(const Variables& variables) {
  const auto read = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return lockstep::detail::cluster_from(read);
}

/// "rank 1 of 4 at host:port"
std::string place(const Variables& variables) {
  const Cluster cluster = cluster_of(variables);
  std::string text =
      "rank " + std::to_string(cluster.rank()) + " of " + std::to_string(cluster.world_size());
  if (cluster.meeting) text += " at " + cluster.meeting->address;
  return text;
}

/// The message of the ConfigurationError that these give.
std::string refusal(const Variables& variables) {
  try {
    return "accepted: " + place(variables);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
}

bool names(const std::string& message, const std::vector<std::string>& parts) {
  CAPTURE(message);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
  return message.rfind("accepted", 0) != 0;
}

Variables operator+(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}
Variables operator-(Variables a, const std::string& name) {
  a.erase(name);
  return a;
}

const Variables tf_config{
    {"TF_CONFIG",
     R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})"}};
const Variables torchrun{{"RANK", "2"},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_RANK", "0"},
                         {"MASTER_ADDR", "node0"},
                         {"MASTER_PORT", "29500"}};
const Variables jax{
    {"JAX_PROCESS_ID", "1"}, {"JAX_NUM_PROCESSES", "3"}, {"JAX_COORDINATOR_ADDRESS", "j-0.j:1234"}};
const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                       {"PMIX_NAMESPACE", "77"},
                       {"PMIX_RANK", "1"}};
const Variables kubeflow{{"PET_NNODES", "2"},          {"PET_NPROC_PER_NODE", "1"},
                         {"PET_NODE_RANK", "1"},       {"PET_MASTER_ADDR", "train-node-0-0.train"},
                         {"PET_MASTER_PORT", "29500"}, {"JOB_COMPLETION_INDEX", "1"}};
const Variables slurm{{"SLURM_PROCID", "3"},
                      {"SLURM_NTASKS", "5"},
                      {"SLURM_STEP_NUM_TASKS", "5"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_JOB_ID", "4711"},
                      {"SLURM_NODEID", "1"},
                      {"SLURM_STEP_NODELIST", "n[01-02,4]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}};
const Variables indexed_job{{"JOB_COMPLETION_INDEX", "2"},
                            {"LOCKSTEP_WORLD_SIZE", "4"},
                            {"LOCKSTEP_MEETING_ADDRESS", "trainer-0.trainer:2222"}};

}  // namespace

TEST_SUITE("cluster_from_environment") {
  TEST_CASE("nothing, an empty TF_CONFIG, and variables that mean something else: alone") {
    const lockstep_test::CapturedStderr captured;
    for (const Variables& variables :
         {Variables{}, Variables{{"TF_CONFIG", ""}}, Variables{{"TF_CONFIG", "{}"}},
          Variables{{"RANK", "3"}}, Variables{{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}},
          Variables{{"WORLD_SIZE", "3"}},
          // a batch script, the shell of salloc, that of `srun --pty bash`
          slurm - "SLURM_STEP_ID", slurm + Variables{{"SLURM_STEP_ID", "4294967290"}},
          slurm + Variables{{"SLURM_PTY_PORT", "40000"}}}) {
      const Cluster cluster = cluster_of(variables);
      CHECK(cluster.is_alone());
      CHECK(cluster.source.empty());
    }
    CHECK(captured.text() ==
          "lockstep: warning: TF_CONFIG is set but empty; this process trains alone\n");
    for (const char* name : {"TF_CONFIG", "RANK", "LOCKSTEP_RANK"}) ::unsetenv(name);
    ::setenv("TF_CONFIG", tf_config.at("TF_CONFIG").c_str(), 1);
    CHECK(cluster_from_environment().rank() == 1);
    ::unsetenv("TF_CONFIG");
  }

  TEST_CASE("each launcher's place, and who has named it") {
    CHECK(place(tf_config) == "rank 1 of 2");
    CHECK(cluster_of(tf_config).addresses() == std::vector<std::string>{"a:1", "b:1"});
    CHECK(cluster_of(tf_config).source == "TF_CONFIG");

    CHECK(place(torchrun) == "rank 2 of 4 at node0:29500");
    CHECK(cluster_of(torchrun).source ==
          "torchrun (RANK=2, WORLD_SIZE=4, MASTER_ADDR=node0, MASTER_PORT=29500)");
    CHECK_THROWS_AS((void)cluster_of(torchrun).addresses(), Error);  // before the meeting
    // torchrun itself has the port, and IPv6 addresses have brackets
    const Variables agent{{"TORCHELASTIC_USE_AGENT_STORE", "True"}};
    CHECK(place(torchrun + agent) == "rank 2 of 4 at node0:29501");
    CHECK(place(torchrun + agent + Variables{{"MASTER_PORT", "65535"}}) ==
          "rank 2 of 4 at node0:65527");
    CHECK(place(torchrun + Variables{{"MASTER_ADDR", "fd00::1"}}) ==
          "rank 2 of 4 at [fd00::1]:29500");

    CHECK(place(jax) == "rank 1 of 3 at j-0.j:1234");
    CHECK(place(kubeflow) == "rank 1 of 2 at train-node-0-0.train:29500");
    CHECK(place(kubeflow + Variables{{"PET_NPROC_PER_NODE", "auto"}}) ==
          "rank 1 of 2 at train-node-0-0.train:29500");
    CHECK(place(indexed_job) == "rank 2 of 4 at trainer-0.trainer:2222");
    CHECK(place(indexed_job + Variables{{"LOCKSTEP_JOBS", "2"},
                                        {"LOCKSTEP_JOB_INDEX", "1"},
                                        {"JOB_COMPLETION_INDEX", "1"}}) ==
          "rank 3 of 4 at trainer-0.trainer:2222");
    CHECK(place({{"LOCKSTEP_RANK", "0"},
                 {"LOCKSTEP_WORLD_SIZE", "2"},
                 {"LOCKSTEP_MEETING_ADDRESS", "a:1"}}) == "rank 0 of 2 at a:1");
    CHECK(place(mpirun).starts_with("rank 1 of 4 at 127.0.0.1:"));
    CHECK(place(slurm).starts_with("rank 3 of 5 at n01:"));
    CHECK(
        place(slurm + Variables{{"SLURM_STEP_NODELIST", "n1"}, {"SLURM_STEP_TASKS_PER_NODE", "5"}})
            .starts_with("rank 3 of 5 at 127.0.0.1:"));
    CHECK(cluster_of(slurm).meeting->job == "slurm 4711.0");
    CHECK(cluster_of(slurm).meeting->address !=
          cluster_of(slurm + Variables{{"SLURM_JOB_ID", "4712"}}).meeting->address);

    // one process is alone, whatever has started it
    CHECK(cluster_of(torchrun + Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}).is_alone());
    CHECK(cluster_of({{"JOB_COMPLETION_INDEX", "7"}, {"LOCKSTEP_WORLD_SIZE", "1"}}).is_alone());
  }

  TEST_CASE("MPI on several machines: an address is given, or comes from Slurm") {
    const Variables spread = mpirun + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
    CHECK(names(refusal(spread),
                {"OMPI_COMM_WORLD_RANK=1", "set LOCKSTEP_MEETING_ADDRESS=host:port"}));
    CHECK(place(spread + Variables{{"LOCKSTEP_MEETING_ADDRESS", "head:7"}}) ==
          "rank 1 of 4 at head:7");
    CHECK(place(spread + Variables{{"SLURM_JOB_NODELIST", "m[3-4]"}})
              .starts_with("rank 1 of 4 at m3:"));
    const Variables mpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}};
    CHECK(names(refusal(mpich),
                {"PMI_RANK=1", "LOCKSTEP_MEETING_ADDRESS"}));  // not below MPICH's launcher
    CHECK(place(mpich + Variables{{"LOCKSTEP_MEETING_ADDRESS", "head:7"}}) ==
          "rank 1 of 2 at head:7");
    CHECK(place({{"MV2_COMM_WORLD_RANK", "1"},
                 {"MV2_COMM_WORLD_SIZE", "2"},
                 {"LOCKSTEP_MEETING_ADDRESS", "h:7"}}) == "rank 1 of 2 at h:7");
    const Variables pmix{{"PMIX_RANK", "1"}, {"LOCKSTEP_MEETING_ADDRESS", "h:7"}};
    CHECK(names(refusal(pmix), {"PMIX_RANK=1", "LOCKSTEP_WORLD_SIZE is missing"}));
    CHECK(place(pmix + Variables{{"LOCKSTEP_WORLD_SIZE", "2"}}) == "rank 1 of 2 at h:7");
  }

  TEST_CASE("the order, and launchers inside of others") {
    CHECK(cluster_of(torchrun + slurm).source.starts_with("torchrun"));  // srun torchrun
    CHECK(cluster_of(torchrun + kubeflow).source.starts_with("torchrun"));
    CHECK(cluster_of(mpirun + slurm).source.starts_with("Open MPI"));
    CHECK(cluster_of(slurm + Variables{{"PMIX_RANK", "3"}})
              .source.starts_with("Slurm"));  // srun --mpi=pmix
    // a script that makes MASTER_ADDR for others
    CHECK(cluster_of(slurm + (torchrun - "RANK")).source.starts_with("Slurm"));
    CHECK(cluster_of(kubeflow).source.starts_with("Kubeflow"));
    // lockstep's own launcher may run anywhere
    CHECK(place(tf_config + torchrun + Variables{{"LOCKSTEP_LAUNCHER", "workers"}}) ==
          "rank 1 of 2");
    // two that agree
    CHECK(place(tf_config + Variables{{"OMPI_COMM_WORLD_RANK", "1"},
                                      {"OMPI_COMM_WORLD_SIZE", "2"},
                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}) == "rank 1 of 2");
  }

  TEST_CASE("contradictions and missing variables are errors that name the variables") {
    CHECK(
        names(refusal(tf_config + torchrun), {"rank 1 of 2 by TF_CONFIG", "rank 2 of 4 by torchrun",
                                              "RANK=2", "MASTER_PORT=29500", "unset"}));
    CHECK(names(refusal(torchrun + mpirun), {"RANK=2", "OMPI_COMM_WORLD_RANK=1"}));
    CHECK(names(refusal(torchrun - "WORLD_SIZE"), {"RANK=2", "WORLD_SIZE is missing"}));
    CHECK(names(refusal(torchrun - "MASTER_PORT"), {"MASTER_PORT is missing; set it, or unset"}));
    CHECK(names(refusal(torchrun - "MASTER_PORT" - "MASTER_ADDR"),
                {"MASTER_ADDR, MASTER_PORT are missing; set them, or unset"}));
    for (const char* wrong : {"a:29500", "tcp://a", "[fd00::1]:29500"}) {
      CHECK(names(refusal(torchrun + Variables{{"MASTER_ADDR", wrong}}),
                  {"MASTER_ADDR must be a host alone, without scheme and port", wrong}));
      CHECK(names(refusal(kubeflow + Variables{{"PET_MASTER_ADDR", wrong}}),
                  {"PET_MASTER_ADDR must be a host alone", wrong}));
    }
    CHECK(names(refusal(jax - "JAX_PROCESS_ID"),
                {"JAX_NUM_PROCESSES=3", "JAX_PROCESS_ID is missing"}));
    CHECK(names(refusal(kubeflow - "PET_MASTER_ADDR"),
                {"PET_NNODES=2", "PET_MASTER_ADDR is missing"}));
    CHECK(names(refusal(kubeflow + Variables{{"PET_NPROC_PER_NODE", "4"}}),
                {"PET_NPROC_PER_NODE", "torchrun"}));
    CHECK(names(refusal({{"LOCKSTEP_WORLD_SIZE", "3"}}),
                {"LOCKSTEP_WORLD_SIZE=3, but nothing tells this process's rank", "LOCKSTEP_RANK"}));
    CHECK(names(refusal(indexed_job - "LOCKSTEP_WORLD_SIZE"),
                {"JOB_COMPLETION_INDEX=2", "spec.completions"}));
    CHECK(names(refusal(indexed_job - "LOCKSTEP_MEETING_ADDRESS"), {"LOCKSTEP_MEETING_ADDRESS"}));
    CHECK(names(refusal({{"LOCKSTEP_RANK", "1"}}),
                {"LOCKSTEP_WORLD_SIZE, LOCKSTEP_MEETING_ADDRESS"}));
    CHECK(names(refusal(slurm - "SLURM_STEP_NODELIST"), {"SLURM_STEP_NODELIST"}));
    CHECK(names(refusal(slurm + Variables{{"SLURM_STEP_TASKS_PER_NODE", "3,1,2"}}),
                {"6 tasks", "SLURM_STEP_NUM_TASKS=5"}));
    CHECK(names(refusal(slurm + Variables{{"SLURM_PROCID", "0"}}),
                {"SLURM_NODEID", "n01", "LOCKSTEP_MEETING_ADDRESS"}));
    for (const char* wrong : {"", "x", "-1", "4", "1.5", "99999999999999999999"}) {
      CAPTURE(wrong);
      CHECK(names(refusal(torchrun + Variables{{"RANK", wrong}}), {"RANK"}));
    }
    for (const char* wrong : {"0", "70000", "port"})
      CHECK(names(refusal(torchrun + Variables{{"MASTER_PORT", wrong}}), {"MASTER_PORT", wrong}));
    CHECK(names(refusal(jax + Variables{{"JAX_COORDINATOR_ADDRESS", "nowhere"}}),
                {"JAX", "nowhere", "no port"}));
    CHECK(names(refusal(torchrun + Variables{{"LOCKSTEP_MEETING_ADDRESS", "a"}}),
                {"LOCKSTEP_MEETING_ADDRESS"}));
    CHECK(
        names(refusal(indexed_job + Variables{{"LOCKSTEP_JOBS", "3"}, {"LOCKSTEP_JOB_INDEX", "0"}}),
              {"4 workers in 3 Jobs"}));
  }

  TEST_CASE("a world of one needs no address, and does not contradict a larger one") {
    const std::string alone = "rank 0 of 1";
    CHECK(place({{"RANK", "0"}, {"WORLD_SIZE", "1"}}) == alone);
    CHECK(place({{"WORLD_SIZE", "1"}, {"MASTER_ADDR", "node0"}}) == alone);
    CHECK(place({{"JAX_PROCESS_ID", "0"}, {"JAX_NUM_PROCESSES", "1"}}) == alone);
    CHECK(place({{"JAX_NUM_PROCESSES", "1"}}) == alone);
    CHECK(place({{"PET_NODE_RANK", "0"}, {"PET_NNODES", "1"}}) == alone);
    CHECK(place({{"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", "1"}}) == alone);
    CHECK(place({{"LOCKSTEP_RANK", "0"}, {"LOCKSTEP_WORLD_SIZE", "1"}}) == alone);
    CHECK(place(tf_config + Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}) == place(tf_config));
    CHECK(names(refusal({{"RANK", "1"}, {"WORLD_SIZE", "1"}}), {"RANK=1", "incomplete"}));
    CHECK(names(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), {"WORLD_SIZE=2", "incomplete"}));
    CHECK(names(refusal({{"JAX_PROCESS_ID", "0"}}), {"JAX_PROCESS_ID=0", "incomplete"}));
    CHECK(names(refusal({{"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", "4"}}), {"incomplete"}));
  }

  TEST_CASE("the cores that Slurm has given to a task") {
    const auto cores = [](const Variables& variables) {
      const auto read = [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      };
      return lockstep::detail::cores_given_by(read);
    };
    CHECK(cores(slurm) == 0);
    CHECK(cores(slurm + Variables{{"SLURM_CPUS_PER_TASK", "1"}}) == 1);
    CHECK(cores(slurm + Variables{{"SLURM_CPUS_PER_TASK", "100000"}}) == usable_cores());
    CHECK(cores(slurm +
                Variables{{"SLURM_CPUS_PER_TASK", "8"}, {"LOCKSTEP_LAUNCHER", "workers"}}) == 0);
    CHECK(cores({{"SLURM_CPUS_PER_TASK", "8"}}) == 0);
  }
}

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
