// Which place this process has, as the launcher that started it says.
#pragma once

#include <string_view>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/cluster/launchers/known_launchers.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Reads the text of TF_CONFIG:
///
///     {"cluster": {"chief": ["host:port"], "worker": ["host:port", ...]},
///      "task": {"type": "worker", "index": 0}}
///
/// Jobs are chief (or master), worker, ps and evaluator; the index may be a string of digits; other
/// keys are ignored. Text that is empty, `{}` or has no cluster gives a process that is alone.
/// Throws ConfigurationError, naming the key, the address or the position, when the text is no such
/// specification.
[[nodiscard]] Cluster parse_tf_config(std::string_view text);

namespace detail {

/// This process's task, as TF_CONFIG names it, and its rank. The run has the name of the launcher's
/// job; where all addresses are listed, the chief's, which is the same in all processes.
[[nodiscard]] LogPlace log_place_of(const Cluster& cluster);

/// The same before the program has asked for its cluster; nothing where TF_CONFIG or the launcher's
/// variables cannot be understood, which is an error when the program asks.
[[nodiscard]] LogPlace log_place_from(const Environment& environment);

}  // namespace detail

/// Reads the environment variables of launchers, the first of these that names a place:
///
///  1. TF_CONFIG with a cluster (see parse_tf_config)
///  2. LOCKSTEP_RANK, LOCKSTEP_WORLD_SIZE, LOCKSTEP_MEETING_ADDRESS: by hand
///  3. RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: torchrun
///  4. JAX_PROCESS_ID, JAX_NUM_PROCESSES, JAX_COORDINATOR_ADDRESS
///  5. OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE: Open MPI's mpirun
///  6. PMI_RANK, PMI_SIZE, or MV2_COMM_WORLD_RANK, MV2_COMM_WORLD_SIZE: MPICH, Intel MPI, MVAPICH
///  7. PMIX_RANK, with LOCKSTEP_WORLD_SIZE
///  8. PET_NODE_RANK, PET_NNODES, PET_MASTER_ADDR, PET_MASTER_PORT: Kubeflow Trainer v2
///  9. SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST: srun
/// 10. JOB_COMPLETION_INDEX, with LOCKSTEP_WORLD_SIZE: an indexed Job of Kubernetes, or a JobSet
///
/// Without any, the process is alone; so it is with an empty TF_CONFIG, with a warning on stderr.
/// TF_CONFIG lists all addresses. The others name one, where rank 0 waits for the others
/// (Cluster::meeting); LOCKSTEP_MEETING_ADDRESS=host:port takes its place if it is set, and is
/// needed where MPI's launcher has started processes on several machines outside of Slurm. Where
/// the first of these is given by hand, LOCKSTEP_JOB_ID tells apart two jobs that meet on one
/// machine.
///
/// The last three may start another launcher, whose places then count. Any other two that name
/// different places contradict each other, as do variables of one launcher of which one is
/// missing, while no other launcher names a place: ConfigurationError, with all these variables.
[[nodiscard]] Cluster cluster_from_environment();

/// How many cores the launcher has given to this process, and to no other one of the job: Slurm's
/// `--cpus-per-task` (SLURM_CPUS_PER_TASK), and at most usable_cores(). 0: it does not say.
[[nodiscard]] int cores_given_by_launcher();

namespace detail {

/// The same, for any environment.
[[nodiscard]] int cores_given_by(const Environment& environment);
/// The same, for any environment.
[[nodiscard]] Cluster cluster_from(const Environment& environment);

}  // namespace detail

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/cluster/cluster_from_environment.ipp"
#endif
