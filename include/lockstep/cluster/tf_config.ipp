// The one place that reads JSON.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/tf_config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

using Json = nlohmann::json;

inline constexpr const char* tf_config_form =
    R"(expected {"cluster": {"worker": ["host:port", ...]}, )"
    R"("task": {"type": "worker", "index": 0}})";
inline constexpr const char* tf_config_jobs = "chief (or master), worker, ps and evaluator";

[[noreturn, gnu::cold]] LOCKSTEP_INLINE void refuse_tf_config(std::string_view why) {
  throw ConfigurationError(concat({"TF_CONFIG: ", printable(why, 2000)}));
}

// Text of a value for a message: short, and on one line. (Json::dump would cost half a second of
// compile time.)
LOCKSTEP_INLINE std::string quote_json(const Json& value) {
  switch (value.type()) {
    case Json::value_t::string: {
      const std::string_view text = value.get_ref<const std::string&>();
      return concat({"\"", printable(text, 60), "\""});
    }
    case Json::value_t::number_integer:
      return concat({value.get<std::int64_t>()});
    case Json::value_t::number_unsigned:
      return concat({value.get<std::uint64_t>()});
    case Json::value_t::number_float:
      return concat({value.get<double>()});
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::array:
      return value.empty() ? "[]" : "[...]";
    case Json::value_t::object:
      return value.empty() ? "{}" : "{...}";
    default:
      return "null";
  }
}

// nlohmann::json keeps the last of two equal keys, which would lose workers silently.
LOCKSTEP_INLINE Json parse_json(std::string_view text) {
  std::vector<std::vector<std::string>> keys;
  const auto refuse_twice = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      for (const std::string& other : keys.back())
        if (other == key) refuse_tf_config(concat({"key '", key, "' stands twice in one object"}));
      keys.back().push_back(key);
    }
    return true;
  };
  try {
    return Json::parse(text, refuse_twice);
  } catch (const Json::exception& error) {  // a number beyond a double, too
    // "[json.exception.parse_error.101] parse error at line 1, column 5: ...": what follows the
    // bracket is for people.
    std::string what = error.what();
    if (const auto end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    refuse_tf_config(concat({"malformed JSON: ", what, "; ", tf_config_form}));
  }
}

LOCKSTEP_INLINE bool read_task_type(std::string_view name, TaskType& type) {
  if (name == "chief" || name == "master")
    type = TaskType::chief;
  else if (name == "worker")
    type = TaskType::worker;
  else if (name == "ps")
    type = TaskType::ps;
  else if (name == "evaluator")
    type = TaskType::evaluator;
  else
    return false;
  return true;
}

LOCKSTEP_INLINE ClusterSpec read_cluster_spec(const Json& cluster) {
  if (!cluster.is_object())
    refuse_tf_config(
        concat({"key 'cluster' must be an object of jobs, got ", quote_json(cluster)}));
  ClusterSpec spec;
  if (cluster.contains("chief") && cluster.contains("master"))
    refuse_tf_config(
        "the cluster has both 'chief' and 'master', which are two names of one job; keep one");
  for (const auto& [job, addresses] : cluster.items()) {
    TaskType type{};
    if (!read_task_type(job, type))
      refuse_tf_config(
          concat({"unknown job '", job, "' in the cluster; allowed are ", tf_config_jobs}));
    if (addresses.is_object())
      refuse_tf_config(concat({"job '", job,
                               "' is a sparse (dynamic) list of addresses; workers in lockstep "
                               "need the address of all: a "
                               "list [\"host:port\", ...]"}));
    if (!addresses.is_array())
      refuse_tf_config(
          concat({"job '", job, "' must be a list of \"host:port\", got ", quote_json(addresses)}));
    auto& list = type == TaskType::chief    ? spec.chief
                 : type == TaskType::worker ? spec.worker
                 : type == TaskType::ps     ? spec.ps
                                            : spec.evaluator;
    for (const Json& address : addresses) {
      const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
      if (!address.is_string() ||
          std::ranges::any_of(address.get_ref<const std::string&>(), is_control))
        refuse_tf_config(
            concat({"job '", job, "' must be a list of \"host:port\", one of its entries is ",
                    quote_json(address)}));
      list.push_back(address.get<std::string>());
    }
  }
  return spec;
}

LOCKSTEP_INLINE int read_task_index(const Json& index) {
  long long value = -1;
  if (index.is_number_unsigned()) {
    value = index.get<std::uint64_t>() > 1'000'000 ? 1'000'001 : index.get<long long>();
  } else if (index.is_number_integer()) {
    value = index.get<long long>();
  } else if (index.is_string()) {
    const auto& text = index.get_ref<const std::string&>();
    bool digits = !text.empty() && text.size() <= 6;
    for (const char c : text) digits = digits && c >= '0' && c <= '9';
    if (digits) value = std::stoll(text);
  }
  if (value < 0 || value > 1'000'000)
    refuse_tf_config(concat(
        {"key 'task.index' must be a whole number that is not negative, got ", quote_json(index)}));
  return static_cast<int>(value);
}

LOCKSTEP_INLINE Task read_task(const Json& root) {
  if (!root.contains("task") || !root["task"].is_object() || !root["task"].contains("type") ||
      !root["task"].contains("index"))
    refuse_tf_config(
        concat({"with a cluster, both 'task.type' and 'task.index' are needed; ", tf_config_form}));
  const Json& task = root["task"];
  Task result;
  if (!task["type"].is_string() ||
      !read_task_type(task["type"].get_ref<const std::string&>(), result.type))
    refuse_tf_config(concat(
        {"unknown 'task.type' ", quote_json(task["type"]), "; allowed are ", tf_config_jobs}));
  result.index = read_task_index(task["index"]);
  return result;
}

// Unknown keys are ignored, except for those that were probably meant as the cluster.
LOCKSTEP_INLINE void refuse_other_clusters(const Json& root) {
  for (const auto& [key, value] : root.items()) {
    if (key == "cluster" || key == "task") continue;
    if (key == "sparseCluster")
      refuse_tf_config(
          "key 'sparseCluster' describes a dynamic cluster; workers in lockstep need the address "
          "of all: 'cluster'");
    bool like_cluster = key.size() > 6 && key.ends_with("_hosts");
    if (value.is_object())
      for (const auto& [job, addresses] : value.items()) {
        TaskType type{};
        like_cluster = like_cluster || (read_task_type(job, type) && addresses.is_array());
      }
    if (like_cluster)
      refuse_tf_config(
          concat({"unknown key '", key, "' looks like a list of workers; ", tf_config_form}));
  }
}

}  // namespace detail

LOCKSTEP_INLINE Cluster parse_tf_config(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return {};
  const detail::Json root = detail::parse_json(text);
  if (!root.is_object())
    detail::refuse_tf_config(concat(
        {"must be an object, got ", detail::quote_json(root), "; ", detail::tf_config_form}));
  detail::refuse_other_clusters(root);
  if (!root.contains("cluster")) return {};
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

}  // namespace lockstep::inline LOCKSTEP_ABI
