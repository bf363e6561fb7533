// Launchers of MPI programs, for programs that do not link MPI.
#pragma once

#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/launchers/claim.hpp"
#include "lockstep/cluster/launchers/slurm.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
  LauncherClaim claim;
  claim.variables = settings_text(
      environment, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  if (environment("OMPI_COMM_WORLD_RANK") == nullptr &&
      environment("OMPI_COMM_WORLD_SIZE") == nullptr)
    return std::nullopt;
  claim.missing = unset_text(environment, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  if (!claim.missing.empty()) return claim;
  read_place(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", claim);
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
  LauncherClaim claim;
  claim.variables = settings_text(environment, {rank, size, local_size});
  if (environment(rank) == nullptr && environment(size) == nullptr) return std::nullopt;
  claim.missing = unset_text(environment, {rank, size});
  if (!claim.missing.empty()) return claim;
  read_place(environment, rank, size, claim);
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
  LauncherClaim claim;
  claim.variables =
      settings_text(environment, {"PMIX_RANK", "LOCKSTEP_WORLD_SIZE", "PMIX_NAMESPACE"});
  claim.missing = unset_text(environment, {"LOCKSTEP_WORLD_SIZE"});
  if (!claim.missing.empty()) return claim;
  read_place(environment, "PMIX_RANK", "LOCKSTEP_WORLD_SIZE", claim);
  claim.job = concat({"pmix ", text_of(environment, "PMIX_NAMESPACE")});
  return claim;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
