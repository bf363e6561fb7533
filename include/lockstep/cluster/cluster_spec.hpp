// The tasks of a cluster, and which of them this process is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/collectives/meeting/meeting.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

enum class TaskType { chief, worker, ps, evaluator };

[[nodiscard]] constexpr const char* to_string(TaskType type) noexcept {
  switch (type) {
    case TaskType::chief:
      return "chief";
    case TaskType::worker:
      return "worker";
    case TaskType::ps:
      return "ps";
    case TaskType::evaluator:
      return "evaluator";
  }
  return "";
}

/// This process's place: a job and an index in it.
struct Task {
  TaskType type = TaskType::worker;
  int index = 0;

  friend bool operator==(const Task&, const Task&) = default;
};

/// The addresses ("host:port") of each job. The chief and the workers train; the evaluator and the
/// parameter servers take no part in the ring.
struct ClusterSpec {
  std::vector<std::string> chief;  ///< at most one
  std::vector<std::string> worker;
  std::vector<std::string> ps;
  std::vector<std::string> evaluator;  ///< at most one

  [[nodiscard]] const std::vector<std::string>& job(TaskType type) const noexcept;

  [[nodiscard]] bool empty() const noexcept {
    return chief.empty() && worker.empty() && ps.empty() && evaluator.empty();
  }

  /// Throws ConfigurationError, naming job and address, when a job has too many tasks, an address
  /// is malformed, or two tasks have the same.
  [[gnu::cold]] void validate() const;
};

/// A cluster as one of its processes sees it. Without any addresses, and without a meeting, the
/// process is alone.
struct Cluster {
  ClusterSpec spec{};
  Task task{};
  /// Set where the addresses of the others are not known yet: the strategy meets them, or met()
  /// does. The process is then a worker, and `spec` is empty.
  std::optional<Meeting> meeting{};
  std::string source{};  ///< the launcher that says so: "torchrun (RANK=1, ...)"; empty: none

  [[nodiscard]] bool is_alone() const noexcept { return spec.empty() && !meeting; }

  /// An evaluator reads checkpoints. It never joins the workers, and they never wait for it.
  [[nodiscard]] bool is_evaluator() const noexcept { return task.type == TaskType::evaluator; }

  /// A parameter server holds what the workers of a ParameterServerStrategy train.
  [[nodiscard]] bool is_parameter_server() const noexcept { return task.type == TaskType::ps; }

  /// Number of processes that train: the chief and the workers.
  [[nodiscard]] int world_size() const noexcept {
    if (meeting) return meeting->size;
    return is_alone() ? 1 : static_cast<int>(spec.chief.size() + spec.worker.size());
  }

  /// The place among those that train: the chief is 0, the workers follow. -1 for an evaluator
  /// and for a parameter server.
  [[nodiscard]] int rank() const noexcept {
    if (meeting) return meeting->rank;
    if (is_evaluator() || is_parameter_server()) return -1;
    if (is_alone() || task.type == TaskType::chief) return 0;
    return static_cast<int>(spec.chief.size()) + task.index;
  }

  [[nodiscard]] bool is_chief() const noexcept { return rank() == 0; }

  /// "host:port" of those that train, by rank; empty when alone. Throws Error before the meeting.
  [[nodiscard]] std::vector<std::string> addresses() const;

  /// Throws ConfigurationError when the specification is wrong, or the task is not in it.
  [[gnu::cold]] void validate() const;
};

/// The cluster with the addresses of all its workers: where it has a meeting, see meet(), whose
/// errors these are. `port` keeps this worker's port, and belongs into Rendezvous::port.
[[nodiscard]] Cluster met(Cluster cluster, const std::shared_ptr<KeptPort>& port,
                          const CommunicationOptions& options = {});

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/cluster/cluster_spec.ipp"
#endif
