#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/launchers/known_launchers.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/core/cores.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/json.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

inline constexpr const char* tf_config_form =
    R"(expected {"cluster": {"worker": ["host:port", ...]}, )"
    R"("task": {"type": "worker", "index": 0}})";
inline constexpr const char* tf_config_jobs = "chief (or master), worker, ps and evaluator";

[[noreturn, gnu::cold]] LOCKSTEP_INLINE void refuse_tf_config(std::string_view why) {
  throw ConfigurationError(concat({"TF_CONFIG: ", printable(why, 2000)}));
}

/// Text of a value for a message: short, and on one line.
LOCKSTEP_INLINE std::string quote_json(const JsonTree& value) {
  if (value.kind == JsonTree::Kind::array) return value.children.empty() ? "[]" : "[...]";
  if (value.kind == JsonTree::Kind::object) return value.children.empty() ? "{}" : "{...}";
  if (const std::string* text = value.text()) return concat({"\"", printable(*text, 60), "\""});
  if (const auto* number = std::get_if<std::int64_t>(&value.scalar)) return concat({*number});
  if (const auto* number = std::get_if<std::uint64_t>(&value.scalar)) return concat({*number});
  if (const auto* number = std::get_if<double>(&value.scalar)) return concat({*number});
  if (const auto* truth = std::get_if<bool>(&value.scalar)) return *truth ? "true" : "false";
  return "null";
}

/// Refuses a key that stands twice: to keep one of two jobs would lose workers silently.
class TfConfigReader final : public JsonTreeBuilder {
 public:
  explicit TfConfigReader(std::string_view text) {
    try {
      read_json(text, *this);
    } catch (const JsonError& error) {
      refuse_tf_config(concat({"malformed JSON: ", error.what(), "; ", tf_config_form}));
    }
  }
  void key(std::string name) override {
    if (open()[name].exists())
      refuse_tf_config(concat({"key '", name, "' stands twice in one object"}));
    JsonTreeBuilder::key(std::move(name));
  }
};

LOCKSTEP_INLINE std::optional<TaskType> task_type_of(std::string_view name) {
  if (name == "master") return TaskType::chief;
  for (const TaskType each : {TaskType::chief, TaskType::worker, TaskType::ps, TaskType::evaluator})
    if (name == to_string(each)) return each;
  return std::nullopt;
}

LOCKSTEP_INLINE ClusterSpec read_cluster_spec(const JsonTree& cluster) {
  if (cluster.kind != JsonTree::Kind::object)
    refuse_tf_config(
        concat({"key 'cluster' must be an object of jobs, got ", quote_json(cluster)}));
  ClusterSpec spec;
  if (cluster["chief"].exists() && cluster["master"].exists())
    refuse_tf_config(
        "the cluster has both 'chief' and 'master', which are two names of one job; keep one");
  for (const JsonTree& addresses : cluster.children) {
    const std::string& job = addresses.key;
    const auto type = task_type_of(job);
    if (!type)
      refuse_tf_config(
          concat({"unknown job '", job, "' in the cluster; allowed are ", tf_config_jobs}));
    if (addresses.kind == JsonTree::Kind::object)
      refuse_tf_config(concat({"job '", job,
                               "' is a sparse (dynamic) list of addresses; workers in lockstep "
                               "need the address of all: a "
                               "list [\"host:port\", ...]"}));
    if (addresses.kind != JsonTree::Kind::array)
      refuse_tf_config(
          concat({"job '", job, "' must be a list of \"host:port\", got ", quote_json(addresses)}));
    auto& list = type == TaskType::chief    ? spec.chief
                 : type == TaskType::worker ? spec.worker
                 : type == TaskType::ps     ? spec.ps
                                            : spec.evaluator;
    for (const JsonTree& address : addresses.children) {
      const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
      if (address.text() == nullptr || std::ranges::any_of(*address.text(), is_control))
        refuse_tf_config(
            concat({"job '", job, "' must be a list of \"host:port\", one of its entries is ",
                    quote_json(address)}));
      list.push_back(*address.text());
    }
  }
  return spec;
}

LOCKSTEP_INLINE int read_task_index(const JsonTree& index) {
  long long value = -1;
  if (const auto* number = std::get_if<std::uint64_t>(&index.scalar)) {
    value = *number > 1'000'000 ? 1'000'001 : static_cast<long long>(*number);
  } else if (const std::string* text = index.text()) {
    bool digits = !text->empty() && text->size() <= 6;
    for (const char c : *text) digits = digits && c >= '0' && c <= '9';
    if (digits) value = std::stoll(*text);
  }
  if (value < 0 || value > 1'000'000)
    refuse_tf_config(concat(
        {"key 'task.index' must be a whole number that is not negative, got ", quote_json(index)}));
  return static_cast<int>(value);
}

LOCKSTEP_INLINE Task read_task(const JsonTree& root) {
  const JsonTree &type = root["task"]["type"], &index = root["task"]["index"];
  if (!type.exists() || !index.exists())
    refuse_tf_config(
        concat({"with a cluster, both 'task.type' and 'task.index' are needed; ", tf_config_form}));
  const auto job = type.text() != nullptr ? task_type_of(*type.text()) : std::nullopt;
  if (!job)
    refuse_tf_config(
        concat({"unknown 'task.type' ", quote_json(type), "; allowed are ", tf_config_jobs}));
  return {*job, read_task_index(index)};
}

// Unknown keys are ignored, except for those that were probably meant as the cluster.
LOCKSTEP_INLINE void refuse_other_clusters(const JsonTree& root) {
  for (const JsonTree& value : root.children) {
    const std::string& key = value.key;
    if (key == "cluster" || key == "task") continue;
    if (key == "sparseCluster")
      refuse_tf_config(
          "key 'sparseCluster' describes a dynamic cluster; workers in lockstep need the address "
          "of all: 'cluster'");
    bool like_cluster = key.size() > 6 && key.ends_with("_hosts");
    for (const JsonTree& job : value.children)
      like_cluster |= job.kind == JsonTree::Kind::array && task_type_of(job.key).has_value();
    if (like_cluster)
      refuse_tf_config(
          concat({"unknown key '", key, "' looks like a list of workers; ", tf_config_form}));
  }
}

}  // namespace detail

LOCKSTEP_INLINE Cluster parse_tf_config(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return {};
  const detail::TfConfigReader read(text);
  const detail::JsonTree& root = read.root();
  if (root.kind != detail::JsonTree::Kind::object)
    detail::refuse_tf_config(concat(
        {"must be an object, got ", detail::quote_json(root), "; ", detail::tf_config_form}));
  detail::refuse_other_clusters(root);
  if (!root["cluster"].exists()) return {};
  Cluster cluster;
  cluster.spec = detail::read_cluster_spec(root["cluster"]);
  if (cluster.spec.empty()) return {};
  cluster.task = detail::read_task(root);
  try {
    cluster.validate();
  } catch (const ConfigurationError& error) {
    detail::refuse_tf_config(error.what());
  }
  return cluster;
}

namespace detail {

LOCKSTEP_INLINE LogPlace log_place_of(const Cluster& cluster) {
  LogPlace place{.task = to_string(cluster.task.type),
                 .index = cluster.meeting ? cluster.meeting->rank : cluster.task.index,
                 .rank = cluster.rank()};
  if (cluster.meeting)
    place.run = cluster.meeting->job;
  else if (const auto trained_at = cluster.addresses(); !trained_at.empty())
    place.run = trained_at.front();
  return place;
}

LOCKSTEP_INLINE LogPlace log_place_from(const Environment& environment) {
  try {
    if (const char* const config = environment("TF_CONFIG"); config != nullptr)
      if (const Cluster cluster = parse_tf_config(config); !cluster.is_alone())
        return log_place_of(cluster);
    const auto taken = claim_of_launchers(environment, std::nullopt);
    if (!taken || taken->claim.size == 1) return log_place_of({});
    return {.task = to_string(TaskType::worker),
            .index = taken->claim.rank,
            .rank = taken->claim.rank,
            .run = taken->claim.job};
  } catch (const std::exception&) {
    return {};
  }
}

/// Lines that come before the program has asked for its cluster have their place too, and those of
/// programs that never ask, as an evaluator's may not.
inline const bool log_lines_have_places = [] {
  find_log_place_by([] {
    return log_place_from([](const char* name) -> const char* { return std::getenv(name); });
  });
  return true;
}();

/// TF_CONFIG's cluster as a claim that others can contradict.
LOCKSTEP_INLINE NamedClaim claim_of_tf_config(const Cluster& cluster) {
  NamedClaim named;
  named.name = "TF_CONFIG";
  named.claim.rank = cluster.rank();
  named.claim.size = cluster.world_size();
  named.claim.variables = concat({"task ", to_string(cluster.task.type), " ", cluster.task.index});
  return named;
}

/// The place of a claim that holds. Throws ConfigurationError when rank 0's address is not known,
/// or is none.
LOCKSTEP_INLINE Cluster cluster_of(const Environment& environment, const NamedClaim& named) {
  const LauncherClaim& claim = named.claim;
  Cluster cluster;
  cluster.source = named.text();
  if (claim.size == 1) return cluster;
  const std::string given = text_of(environment, "LOCKSTEP_MEETING_ADDRESS");
  const std::string address = given.empty() ? claim.address : given;
  constexpr std::string_view how =
      ", but not where the others are: set LOCKSTEP_MEETING_ADDRESS=host:port on all of them, with "
      "rank 0's host and a port that is free there";
  if (address.empty())
    throw ConfigurationError(
        concat({named.text(), " says that this is rank ", claim.rank, " of ", claim.size, how}));
  try {
    (void)parse_address(address);
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(
        concat({given.empty() ? named.text() : "LOCKSTEP_MEETING_ADDRESS", ": ", error.what()}));
  }
  cluster.meeting =
      Meeting{.rank = claim.rank, .size = claim.size, .address = address, .job = claim.job};
  return cluster;
}

LOCKSTEP_INLINE Cluster cluster_from(const Environment& environment) {
  std::optional<Cluster> by_tf_config;
  std::optional<NamedClaim> taken;
  const char* const tf_config = environment("TF_CONFIG");
  if (tf_config != nullptr) {
    Cluster cluster = parse_tf_config(tf_config);
    if (!cluster.is_alone()) {
      cluster.source = "TF_CONFIG";
      // lockstep's own launcher knows what it does, wherever it runs itself.
      if (cluster.is_evaluator() || cluster.is_parameter_server() ||
          environment("LOCKSTEP_LAUNCHER") != nullptr)
        return cluster;
      taken = claim_of_tf_config(cluster);
      by_tf_config = std::move(cluster);
    }
  }
  taken = claim_of_launchers(environment, std::move(taken));
  if (by_tf_config) return std::move(*by_tf_config);
  if (taken) return cluster_of(environment, *taken);
  if (tf_config != nullptr &&
      std::string_view(tf_config).find_first_not_of(" \t\r\n") == std::string_view::npos)
    log_warning("TF_CONFIG is set but empty; this process trains alone");
  return {};
}

LOCKSTEP_INLINE int cores_given_by(const Environment& environment) {
  if (environment("LOCKSTEP_LAUNCHER") != nullptr)
    return 0;  // its workers share what it has been given
  if (environment("SLURM_PROCID") == nullptr || environment("SLURM_CPUS_PER_TASK") == nullptr)
    return 0;
  return std::min(usable_cores(), number_of(environment, "SLURM_CPUS_PER_TASK", 1, 1 << 20));
}

}  // namespace detail

LOCKSTEP_INLINE int cores_given_by_launcher() {
  return detail::cores_given_by([](const char* name) -> const char* { return std::getenv(name); });
}

LOCKSTEP_INLINE Cluster cluster_from_environment() {
  return detail::cluster_from([](const char* name) -> const char* { return std::getenv(name); });
}

}}  // namespace lockstep
