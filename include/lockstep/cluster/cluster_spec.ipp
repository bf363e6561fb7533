#pragma once

#include <cstddef>
#include <utility>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE const std::vector<std::string>& ClusterSpec::job(TaskType type) const noexcept {
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

LOCKSTEP_INLINE void ClusterSpec::validate() const {
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
                      place, "; give each task a different one"}));
      seen.emplace_back(std::move(address), place);
    }
  }
}

LOCKSTEP_INLINE std::vector<std::string> Cluster::addresses() const {
  if (meeting && spec.empty())
    throw Error(
        "the addresses of this cluster's workers are known after they have met: call "
        "met(cluster) first");
  std::vector<std::string> all = spec.chief;
  all.insert(all.end(), spec.worker.begin(), spec.worker.end());
  return all;
}

LOCKSTEP_INLINE void Cluster::validate() const {
  spec.validate();
  if (is_alone() || meeting) return;
  const std::string name = concat({"task '", to_string(task.type), "' ", task.index});
  if (task.index < 0) throw ConfigurationError(concat({name, ": the index must not be negative"}));
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

LOCKSTEP_INLINE Cluster met(Cluster cluster, const std::shared_ptr<KeptPort>& port,
                            const CommunicationOptions& options) {
  if (!cluster.meeting) return cluster;
  cluster.spec.worker = meet(*cluster.meeting, options, port);
  cluster.task = {TaskType::worker, cluster.meeting->rank};
  return cluster;
}

}}  // namespace lockstep
