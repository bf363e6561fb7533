#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/cluster/launchers/known_launchers.hpp"
#include "lockstep/cluster/launchers/node_list.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE std::string settings_text(const Environment& environment,
                                          std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names)
    if (const char* value = environment(name); value != nullptr)
      text += concat({text.empty() ? "" : ", ", name, "=", printable(value, 200)});
  return text;
}

LOCKSTEP_INLINE std::string unset_text(const Environment& environment,
                                       std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names)
    if (const char* value = environment(name); value == nullptr || *value == '\0')
      text += concat({text.empty() ? "" : ", ", name});
  return text;
}

LOCKSTEP_INLINE std::string text_of(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? "" : value;
}

LOCKSTEP_INLINE int number_of(const Environment& environment, const char* name, int least,
                              int most) {
  const std::string text = text_of(environment, name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw ConfigurationError(
        concat({"the environment variable ", name, " must be a whole number from ", least, " to ",
                most, ", got '", printable(text, 60), "'"}));
  return value;
}

LOCKSTEP_INLINE void read_place(const Environment& environment, const char* rank, const char* size,
                                LauncherClaim& claim) {
  claim.size = number_of(environment, size, 1, most_ranks);
  claim.rank = number_of(environment, rank, 0, most_ranks - 1);
  if (claim.rank >= claim.size)
    throw ConfigurationError(
        concat({"the environment variables contradict each other: ", rank, "=", claim.rank,
                " must be below ", size, "=", claim.size, "; ranks are 0 to ", claim.size - 1}));
}

LOCKSTEP_INLINE std::string host_of(const Environment& environment, const char* name) {
  std::string text = text_of(environment, name);
  const bool has_port = std::ranges::count(text, ':') == 1 || text.find("]:") != std::string::npos;
  if (has_port || text.find("//") != std::string::npos)
    throw ConfigurationError(concat({"the environment variable ", name,
                                     " must be a host alone, without scheme and port, got '",
                                     printable(text, 100), "'"}));
  return text;
}

LOCKSTEP_INLINE std::string address_text(std::string_view host, int port) {
  const bool bare = host.find(':') != std::string_view::npos && !host.starts_with('[');
  return concat({bare ? "[" : "", host, bare ? "]" : "", ":", port});
}

LOCKSTEP_INLINE int port_of_job(std::string_view job) noexcept {
  std::uint32_t hash = 2'166'136'261U;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return 10'240 + static_cast<int>(hash % 2'500) * 8;
}

/// Has the rank and the size where none of `needed` is missing.
[[nodiscard, gnu::cold]] inline LauncherClaim begin_claim(
    const Environment& environment, const char* rank, const char* size,
    std::initializer_list<const char*> variables, std::initializer_list<const char*> needed) {
  LauncherClaim claim;
  claim.variables = settings_text(environment, variables);
  claim.missing = unset_text(environment, needed);
  if (claim.missing.empty()) read_place(environment, rank, size, claim);
  return claim;
}

[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_by_hand(
    const Environment& environment) {
  if (environment("LOCKSTEP_RANK") == nullptr) return std::nullopt;
  LauncherClaim claim =
      begin_claim(environment, "LOCKSTEP_RANK", "LOCKSTEP_WORLD_SIZE",
                  {"LOCKSTEP_RANK", "LOCKSTEP_WORLD_SIZE", "LOCKSTEP_MEETING_ADDRESS"},
                  {"LOCKSTEP_WORLD_SIZE", "LOCKSTEP_MEETING_ADDRESS"});
  claim.is_alone = is_world_of_one(environment, "LOCKSTEP_RANK", "LOCKSTEP_WORLD_SIZE");
  if (!claim.missing.empty()) return claim;
  claim.address = text_of(environment, "LOCKSTEP_MEETING_ADDRESS");
  claim.job = text_of(environment, "LOCKSTEP_JOB_ID");
  return claim;
}

/// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. One of them alone may mean something else.
[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_torchrun(
    const Environment& environment) {
  const auto is_set = [&](const char* name) { return environment(name) != nullptr; };
  const int set =
      is_set("RANK") + is_set("WORLD_SIZE") + is_set("MASTER_ADDR") + is_set("MASTER_PORT");
  if (set < 2 || (!is_set("RANK") && !is_set("WORLD_SIZE"))) return std::nullopt;
  const auto all = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  LauncherClaim claim = begin_claim(environment, "RANK", "WORLD_SIZE", all, all);
  claim.is_alone = is_world_of_one(environment, "RANK", "WORLD_SIZE");
  if (!claim.missing.empty()) return claim;
  // torchrun itself listens on that port for as long as its workers live.
  const bool agent_has_port = text_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  const int port = number_of(environment, "MASTER_PORT", 1, 65'535);
  const int first = !agent_has_port ? port : port <= 65'527 ? port + 1 : port - 8;
  claim.address = address_text(host_of(environment, "MASTER_ADDR"), first);
  claim.job = concat({"torchrun ", text_of(environment, "TORCHELASTIC_RUN_ID"), " port ", port});
  return claim;
}

[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_jax(
    const Environment& environment) {
  const auto all = {"JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS"};
  LauncherClaim claim = begin_claim(environment, "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", all, all);
  if (claim.variables.empty()) return std::nullopt;
  claim.is_alone = is_world_of_one(environment, "JAX_PROCESS_ID", "JAX_NUM_PROCESSES");
  if (!claim.missing.empty()) return claim;
  claim.address = text_of(environment, "JAX_COORDINATOR_ADDRESS");
  claim.job = concat({"jax ", claim.address});
  return claim;
}

/// The nodes of the step, or of the job where there is no step; empty outside of Slurm.
[[nodiscard, gnu::cold]] inline std::vector<std::string> slurm_nodes(
    const Environment& environment) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
    if (const char* list = environment(name); list != nullptr && *list != '\0')
      return SlurmList::nodes(name, list);
  return {};
}

/// SLURM_PROCID of SLURM_STEP_NUM_TASKS, or of SLURM_NTASKS. Rank 0 is on the first node of the
/// list. Nothing is claimed by a batch script and by what it runs without srun, nor in a terminal
/// that srun or salloc has opened: one process alone is there.
[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_slurm(
    const Environment& environment) {
  const std::string step = text_of(environment, "SLURM_STEP_ID");
  const bool is_special =
      step.size() >= 10;  // 4294967290 and above: the batch script, an interactive step
  if (step.empty() || is_special || environment("SLURM_PTY_PORT") != nullptr) return std::nullopt;
  const char* const size =
      environment("SLURM_STEP_NUM_TASKS") != nullptr ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  LauncherClaim claim =
      begin_claim(environment, "SLURM_PROCID", size,
                  {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_STEP_NODELIST",
                   "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_ID", "SLURM_STEP_ID"},
                  {"SLURM_PROCID", size, "SLURM_JOB_ID"});
  if (!claim.missing.empty()) return claim;
  claim.job = concat({"slurm ", text_of(environment, "SLURM_JOB_ID"), ".", step});
  if (claim.size == 1) return claim;

  const std::vector<std::string> nodes = slurm_nodes(environment);
  if (nodes.empty()) {
    claim.missing = "SLURM_STEP_NODELIST";
    return claim;
  }
  if (environment("SLURM_STEP_TASKS_PER_NODE") != nullptr) {
    const auto tasks = SlurmList::tasks("SLURM_STEP_TASKS_PER_NODE",
                                        text_of(environment, "SLURM_STEP_TASKS_PER_NODE"));
    const int sum = std::accumulate(tasks.begin(), tasks.end(), 0);
    if (tasks.size() != nodes.size() || sum != claim.size)
      throw ConfigurationError(
          concat({"Slurm's environment variables contradict each other: ", nodes.size(),
                  " nodes, tasks on ", tasks.size(), " nodes, ", sum, " tasks in all, and ", size,
                  "=", claim.size, " (", claim.variables, ")"}));
  }
  if (claim.rank == 0 && text_of(environment, "SLURM_NODEID") != "0" &&
      environment("SLURM_NODEID") != nullptr && environment("LOCKSTEP_MEETING_ADDRESS") == nullptr)
    throw ConfigurationError(
        concat({"SLURM_PROCID=0 is on node ", printable(text_of(environment, "SLURM_NODEID"), 20),
                " (SLURM_NODEID) of the step, and the others look for it on the first one, ",
                nodes.front(),
                ": leave the arbitrary distribution out, or set LOCKSTEP_MEETING_ADDRESS=host:port "
                "with rank 0's host"}));
  claim.address =
      address_text(nodes.size() == 1 ? "127.0.0.1" : nodes.front(), port_of_job(claim.job));
  return claim;
}

/// Gives a claim its address: the loopback interface where all ranks are on one machine, the first
/// node inside of a Slurm job; else none is known.
[[gnu::cold]] inline void place_mpi_job(const Environment& environment, const char* local_size,
                                        LauncherClaim& claim) {
  if (claim.size == 1) return;
  if (environment(local_size) != nullptr &&
      number_of(environment, local_size, 1, most_ranks) == claim.size) {
    claim.address = address_text("127.0.0.1", port_of_job(claim.job));
  } else if (const auto nodes = slurm_nodes(environment); !nodes.empty()) {
    claim.address = address_text(nodes.front(), port_of_job(claim.job));
  }
}

/// OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE.
[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_open_mpi(
    const Environment& environment) {
  if (environment("OMPI_COMM_WORLD_RANK") == nullptr &&
      environment("OMPI_COMM_WORLD_SIZE") == nullptr)
    return std::nullopt;
  LauncherClaim claim =
      begin_claim(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                  {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                  {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  if (!claim.missing.empty()) return claim;
  claim.job = concat({"mpirun ", text_of(environment, "PMIX_NAMESPACE"), " ",
                      text_of(environment, "OMPI_MCA_ess_base_jobid")});
  place_mpi_job(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", claim);
  return claim;
}

/// The process of MPICH's launcher on this machine, from which this process descends: 0 if none.
[[nodiscard, gnu::cold]] inline int hydra_ancestor() {
  int process = static_cast<int>(::getppid());
  for (int i = 0; i < 64 && process > 1; ++i) {
    std::FILE* const file = std::fopen(concat({"/proc/", process, "/stat"}).c_str(), "re");
    if (file == nullptr) return 0;
    char text[512] = "";
    const std::size_t size = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    const std::string_view stat(text, size);
    const auto open = stat.find('('), close = stat.rfind(')');
    if (open == std::string_view::npos || close == std::string_view::npos ||
        close + 4 >= stat.size())
      return 0;
    const std::string_view name = stat.substr(open + 1, close - open - 1);
    if (name.starts_with("hydra") || name.starts_with("pmi_proxy")) return process;
    process = std::atoi(text + close + 4);  // ") S 1234 ..."
  }
  return 0;
}

/// PMI_RANK and PMI_SIZE, of MPICH and Intel MPI, or MV2_COMM_WORLD_RANK and ..._SIZE, of MVAPICH.
[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_mpich(
    const Environment& environment) {
  const bool is_mvapich = environment("MV2_COMM_WORLD_RANK") != nullptr;
  const char* const rank = is_mvapich ? "MV2_COMM_WORLD_RANK" : "PMI_RANK";
  const char* const size = is_mvapich ? "MV2_COMM_WORLD_SIZE" : "PMI_SIZE";
  const char* const local_size = is_mvapich ? "MV2_COMM_WORLD_LOCAL_SIZE" : "MPI_LOCALNRANKS";
  if (environment(rank) == nullptr && environment(size) == nullptr) return std::nullopt;
  LauncherClaim claim =
      begin_claim(environment, rank, size, {rank, size, local_size}, {rank, size});
  if (!claim.missing.empty()) return claim;
  const int launcher = hydra_ancestor();
  if (launcher == 0 && text_of(environment, "SLURM_JOB_ID").empty())
    return claim;  // jobs could not be told apart
  claim.job = concat({"mpiexec ", text_of(environment, "SLURM_JOB_ID"), ".",
                      text_of(environment, "SLURM_STEP_ID")});
  const bool is_one_machine = text_of(environment, local_size) == text_of(environment, size);
  if (is_one_machine) claim.job += concat({" ", launcher});
  place_mpi_job(environment, local_size, claim);
  return claim;
}

/// PMIX_RANK. The number of ranks is no variable of PMIx; LOCKSTEP_WORLD_SIZE may say it.
[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_pmix(
    const Environment& environment) {
  if (environment("PMIX_RANK") == nullptr) return std::nullopt;
  LauncherClaim claim =
      begin_claim(environment, "PMIX_RANK", "LOCKSTEP_WORLD_SIZE",
                  {"PMIX_RANK", "LOCKSTEP_WORLD_SIZE", "PMIX_NAMESPACE"}, {"LOCKSTEP_WORLD_SIZE"});
  if (!claim.missing.empty()) return claim;
  claim.job = concat({"pmix ", text_of(environment, "PMIX_NAMESPACE")});
  return claim;
}

/// PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT: one process in each pod.
[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_kubeflow_trainer(
    const Environment& environment) {
  LauncherClaim claim;
  claim.variables = settings_text(environment, {"PET_NODE_RANK", "PET_NNODES", "PET_NPROC_PER_NODE",
                                                "PET_MASTER_ADDR", "PET_MASTER_PORT"});
  if (environment("PET_NODE_RANK") == nullptr && environment("PET_NNODES") == nullptr)
    return std::nullopt;
  claim.missing = unset_text(environment,
                             {"PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT"});
  const std::string processes = text_of(environment, "PET_NPROC_PER_NODE");
  claim.is_alone = is_world_of_one(environment, "PET_NODE_RANK", "PET_NNODES") &&
                   (processes.empty() || processes == "1");
  if (!claim.missing.empty()) return claim;
  if (!processes.empty() && processes.find_first_not_of("0123456789") == std::string::npos &&
      processes != "1") {
    claim.missing = concat(
        {"torchrun, which starts the ", processes,
         " processes that PET_NPROC_PER_NODE asks for (`torchrun --no-python ./trainer`; or ask "
         "for 1, and let replicas be threads),"});
    return claim;
  }
  read_place(environment, "PET_NODE_RANK", "PET_NNODES", claim);
  claim.address = address_text(host_of(environment, "PET_MASTER_ADDR"),
                               number_of(environment, "PET_MASTER_PORT", 1, 65'535));
  claim.job = concat({"trainer ", claim.address});
  return claim;
}

/// JOB_COMPLETION_INDEX, which Kubernetes sets, with LOCKSTEP_WORLD_SIZE and
/// LOCKSTEP_MEETING_ADDRESS from the manifest. Where a JobSet has several Jobs of equal size,
/// LOCKSTEP_JOB_INDEX and LOCKSTEP_JOBS number them: the ranks of the first Job come first.
[[nodiscard, gnu::cold]] inline std::optional<LauncherClaim> read_kubernetes_job(
    const Environment& environment) {
  if (environment("JOB_COMPLETION_INDEX") == nullptr) return std::nullopt;
  LauncherClaim claim;
  claim.variables =
      settings_text(environment, {"JOB_COMPLETION_INDEX", "LOCKSTEP_JOB_INDEX", "LOCKSTEP_JOBS",
                                  "LOCKSTEP_WORLD_SIZE", "LOCKSTEP_MEETING_ADDRESS"});
  if (environment("LOCKSTEP_WORLD_SIZE") == nullptr) {
    claim.missing =
        "LOCKSTEP_WORLD_SIZE (the Job's spec.completions, times the Jobs of a JobSet; 1 where each "
        "pod trains alone)";
    return claim;
  }
  claim.size = number_of(environment, "LOCKSTEP_WORLD_SIZE", 1, most_ranks);
  if (claim.size == 1) return claim;
  const bool has_jobs =
      environment("LOCKSTEP_JOB_INDEX") != nullptr || environment("LOCKSTEP_JOBS") != nullptr;
  claim.missing = has_jobs ? unset_text(environment, {"LOCKSTEP_JOB_INDEX", "LOCKSTEP_JOBS"}) : "";
  if (!claim.missing.empty()) return claim;
  const int jobs = has_jobs ? number_of(environment, "LOCKSTEP_JOBS", 1, most_ranks) : 1;
  const int job = has_jobs ? number_of(environment, "LOCKSTEP_JOB_INDEX", 0, most_ranks - 1) : 0;
  const int index = number_of(environment, "JOB_COMPLETION_INDEX", 0, most_ranks - 1);
  if (claim.size % jobs != 0 || job >= jobs || index >= claim.size / jobs)
    throw ConfigurationError(
        concat({"the environment variables contradict each other: ", claim.size, " workers in ",
                jobs, jobs == 1 ? " Job" : " Jobs of equal size", ", and this is pod ", index,
                " of Job ", job, " (", claim.variables, ")"}));
  claim.rank = job * (claim.size / jobs) + index;
  claim.address = text_of(environment, "LOCKSTEP_MEETING_ADDRESS");
  claim.job = concat({"job ", claim.address});
  return claim;
}

/// In the order in which they count.
inline constexpr std::array<LauncherVariables, 9> known_launchers{{
    {"LOCKSTEP_RANK", false, read_by_hand},
    {"torchrun", false, read_torchrun},
    {"JAX", false, read_jax},
    {"Open MPI", false, read_open_mpi},
    {"MPICH", false, read_mpich},
    {"PMIx", false, read_pmix},
    {"Kubeflow Trainer", true, read_kubeflow_trainer},
    {"Slurm", true, read_slurm},
    {"an indexed Kubernetes Job", true, read_kubernetes_job},
}};

[[gnu::cold]] LOCKSTEP_INLINE void refuse_contradiction(const NamedClaim& taken,
                                                        const NamedClaim& other) {
  if (other.may_start_launchers ||
      (taken.claim.rank == other.claim.rank && taken.claim.size == other.claim.size))
    return;
  throw ConfigurationError(
      concat({"two launchers name different places for this process: rank ", taken.claim.rank,
              " of ", taken.claim.size, " by ", taken.text(), ", rank ", other.claim.rank, " of ",
              other.claim.size, " by ", other.text(),
              "; start the program by one of them, or unset the variables of the other"}));
}

/// "MASTER_ADDR, MASTER_PORT", and no sentence.
[[nodiscard]] inline bool is_list(std::string_view missing) {
  return missing.find(',') != std::string_view::npos && missing.find('(') == std::string_view::npos;
}

LOCKSTEP_INLINE std::optional<NamedClaim> claim_of_launchers(const Environment& environment,
                                                             std::optional<NamedClaim> taken) {
  std::string incomplete;
  for (const LauncherVariables& launcher : known_launchers) {
    std::optional<LauncherClaim> claim = launcher.read(environment);
    if (!claim) continue;
    NamedClaim named{launcher.name, std::move(*claim), launcher.may_start_launchers};
    if (!named.claim.missing.empty()) {
      if (incomplete.empty() && !named.claim.is_alone)
        incomplete = concat(
            {named.text(), ": ", named.claim.missing,
             is_list(named.claim.missing) ? " are missing; set them" : " is missing; set it"});
      continue;
    }
    if (taken) {
      refuse_contradiction(*taken, named);
      continue;
    }
    taken = std::move(named);
    if (environment("LOCKSTEP_LAUNCHER") != nullptr) break;
  }
  if (!taken && !incomplete.empty())
    throw ConfigurationError(
        concat({"environment variables of a launcher are incomplete, and would let this process "
                "train alone: ",
                incomplete, ", or unset the others"}));
  if (const std::string size = text_of(environment, "LOCKSTEP_WORLD_SIZE");
      !taken && !size.empty() && size != "1")
    throw ConfigurationError(
        concat({"LOCKSTEP_WORLD_SIZE=", size,
                ", but nothing tells this process's rank, so that it would train alone: set "
                "LOCKSTEP_RANK, too (in a Kubernetes Job, completionMode: Indexed does)"}));
  return taken;
}

}}}  // namespace lockstep::detail
