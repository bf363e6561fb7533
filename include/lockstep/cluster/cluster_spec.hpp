// The tasks of a cluster, and which of them this process is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/meeting/meeting.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

  [[nodiscard]] const std::vector<std::string>& job(TaskType type) const noexcept {
    switch (type) {
      case TaskType::chief:
        return chief;
      case TaskType::ps:
        return ps;
      case TaskType::evaluator:
        return evaluator;
      case TaskType::worker:
        break;
    }
    return worker;
  }

  [[nodiscard]] bool empty() const noexcept {
    return chief.empty() && worker.empty() && ps.empty() && evaluator.empty();
  }

  /// Throws ConfigurationError, naming job and address, when a job has too many tasks, an address
  /// is malformed, or two tasks have the same.
  [[gnu::cold]] void validate() const {
    std::vector<std::pair<Address, std::string>> seen;
    for (const TaskType type :
         {TaskType::chief, TaskType::worker, TaskType::ps, TaskType::evaluator}) {
      const auto& addresses = job(type);
      if ((type == TaskType::chief || type == TaskType::evaluator) && addresses.size() > 1)
        throw ConfigurationError(
            concat({"job '", to_string(type), "' may have one address only, got ", addresses.size(),
                    ": '", addresses[0], "', '", addresses[1], "'"}));
      for (std::size_t i = 0; i < addresses.size(); ++i) {
        const std::string place = concat({to_string(type), " ", i});
        Address address;
        try {
          address = parse_address(addresses[i]);
        } catch (const ConfigurationError& error) {
          throw ConfigurationError(concat({place, ": ", error.what()}));
        }
        for (char& c : address.host)
          // names are equal whatever their case
          if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
        for (const auto& [other, other_place] : seen)
          if (other == address)
            throw ConfigurationError(
                concat({"address '", addresses[i], "' is used twice, by ", other_place, " and ",
                        place, "; each task needs an address of its own"}));
        seen.emplace_back(std::move(address), place);
      }
    }
  }
};

/// A cluster as one of its processes sees it. Without any addresses, and without a meeting, the
/// process is alone.
struct Cluster {
  ClusterSpec spec{};
  Task task{};
  /// Set where the addresses of the others are not known yet: the strategy meets them, or met()
  /// does. The process is then a worker, and `spec` is empty.
  std::optional<Meeting> meeting{};
  std::string source{};  ///< who says so: "torchrun (RANK=1, ...)"; empty: the program, or nothing

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
  [[nodiscard]] std::vector<std::string> addresses() const {
    if (meeting && spec.empty())
      throw Error(
          "the addresses of this cluster's workers are known after they have met: call "
          "met(cluster) first");
    std::vector<std::string> all = spec.chief;
    all.insert(all.end(), spec.worker.begin(), spec.worker.end());
    return all;
  }

  /// Throws ConfigurationError when the specification is wrong, or the task is not in it.
  [[gnu::cold]] void validate() const {
    spec.validate();
    if (is_alone() || meeting) return;
    const std::string name = concat({"task '", to_string(task.type), "' ", task.index});
    if (task.index < 0)
      throw ConfigurationError(concat({name, ": the index must not be negative"}));
    const auto& addresses = spec.job(task.type);
    if (is_evaluator() && addresses.empty()) return;  // need not be listed
    if (addresses.empty())
      throw ConfigurationError(
          concat({name, ": the cluster has no job '", to_string(task.type), "'"}));
    if (static_cast<std::size_t>(task.index) >= addresses.size())
      throw ConfigurationError(
          concat({name, ": the job has ", addresses.size(),
                  addresses.size() == 1 ? " task, so that the index must be 0"
                                        : " tasks, so that the index must be 0 to ",
                  addresses.size() == 1 ? "" : concat({addresses.size() - 1})}));
  }
};

/// The cluster with the addresses of all its workers: where it has a meeting, see meet(), whose
/// errors these are. `port` keeps this worker's port, and belongs into Rendezvous::port.
[[nodiscard]] inline Cluster met(Cluster cluster, const std::shared_ptr<KeptPort>& port,
                                 const CommunicationOptions& options = {}) {
  if (!cluster.meeting) return cluster;
  cluster.spec.worker = meet(*cluster.meeting, options, port);
  cluster.task = {TaskType::worker, cluster.meeting->rank};
  return cluster;
}

}  // namespace lockstep::inline LOCKSTEP_ABI
