#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/cluster/tf_config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/json.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// A value of TF_CONFIG's: a scalar, or those of an array, or those of an object with their keys.
struct Json {
  enum class Kind { scalar, array, object };

  Kind kind = Kind::scalar;
  JsonScalar scalar = {};
  std::vector<std::string> keys = {};
  std::vector<Json> values = {};

  [[nodiscard]] const std::string* text() const { return std::get_if<std::string>(&scalar); }
  /// nullptr where there is none.
  [[nodiscard]] const Json* find(std::string_view key) const {
    const auto at = std::ranges::find(keys, key);
    return at == keys.end() ? nullptr : &values[static_cast<std::size_t>(at - keys.begin())];
  }
};

inline constexpr const char* tf_config_form =
    R"(expected {"cluster": {"worker": ["host:port", ...]}, )"
    R"("task": {"type": "worker", "index": 0}})";
inline constexpr const char* tf_config_jobs = "chief (or master), worker, ps and evaluator";

[[noreturn, gnu::cold]] LOCKSTEP_INLINE void refuse_tf_config(std::string_view why) {
  throw ConfigurationError(concat({"TF_CONFIG: ", printable(why, 2000)}));
}

/// Text of a value for a message: short, and on one line.
LOCKSTEP_INLINE std::string quote_json(const Json& value) {
  if (value.kind == Json::Kind::array) return value.values.empty() ? "[]" : "[...]";
  if (value.kind == Json::Kind::object) return value.values.empty() ? "{}" : "{...}";
  if (const std::string* text = value.text()) return concat({"\"", printable(*text, 60), "\""});
  if (const auto* number = std::get_if<std::int64_t>(&value.scalar)) return concat({*number});
  if (const auto* number = std::get_if<std::uint64_t>(&value.scalar)) return concat({*number});
  if (const auto* number = std::get_if<double>(&value.scalar)) return concat({*number});
  if (const auto* truth = std::get_if<bool>(&value.scalar)) return *truth ? "true" : "false";
  return "null";
}

/// Refuses a key that stands twice: to keep one of two jobs would lose workers silently.
class JsonBuilder final : public JsonEvents {
 public:
  Json root;

  void begin_object() override { open(Json::Kind::object); }
  void key(std::string name) override {
    std::vector<std::string>& keys = open_.back()->keys;
    if (std::ranges::find(keys, name) != keys.end())
      refuse_tf_config(concat({"key '", name, "' stands twice in one object"}));
    keys.push_back(std::move(name));
  }
  void end_object() override { open_.pop_back(); }
  void begin_array() override { open(Json::Kind::array); }
  void end_array() override { open_.pop_back(); }
  void value(JsonScalar value) override { next().scalar = std::move(value); }

 private:
  Json& next() { return open_.empty() ? root : open_.back()->values.emplace_back(); }
  void open(Json::Kind kind) {
    Json& value = next();
    value.kind = kind;
    open_.push_back(&value);  // (its siblings come after it is closed)
  }

  std::vector<Json*> open_;
};

LOCKSTEP_INLINE Json parse_json(std::string_view text) {
  JsonBuilder builder;
  try {
    read_json(text, builder);
  } catch (const JsonError& error) {
    refuse_tf_config(concat({"malformed JSON: ", error.what(), "; ", tf_config_form}));
  }
  return std::move(builder.root);
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
  if (cluster.kind != Json::Kind::object)
    refuse_tf_config(
        concat({"key 'cluster' must be an object of jobs, got ", quote_json(cluster)}));
  ClusterSpec spec;
  if (cluster.find("chief") != nullptr && cluster.find("master") != nullptr)
    refuse_tf_config(
        "the cluster has both 'chief' and 'master', which are two names of one job; keep one");
  for (std::size_t i = 0; i < cluster.keys.size(); ++i) {
    const std::string& job = cluster.keys[i];
    const Json& addresses = cluster.values[i];
    TaskType type{};
    if (!read_task_type(job, type))
      refuse_tf_config(
          concat({"unknown job '", job, "' in the cluster; allowed are ", tf_config_jobs}));
    if (addresses.kind == Json::Kind::object)
      refuse_tf_config(concat({"job '", job,
                               "' is a sparse (dynamic) list of addresses; workers in lockstep "
                               "need the address of all: a "
                               "list [\"host:port\", ...]"}));
    if (addresses.kind != Json::Kind::array)
      refuse_tf_config(
          concat({"job '", job, "' must be a list of \"host:port\", got ", quote_json(addresses)}));
    auto& list = type == TaskType::chief    ? spec.chief
                 : type == TaskType::worker ? spec.worker
                 : type == TaskType::ps     ? spec.ps
                                            : spec.evaluator;
    for (const Json& address : addresses.values) {
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

LOCKSTEP_INLINE int read_task_index(const Json& index) {
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

LOCKSTEP_INLINE Task read_task(const Json& root) {
  const Json* const task = root.find("task");
  const Json* const type = task == nullptr ? nullptr : task->find("type");
  const Json* const index = task == nullptr ? nullptr : task->find("index");
  if (type == nullptr || index == nullptr)
    refuse_tf_config(
        concat({"with a cluster, both 'task.type' and 'task.index' are needed; ", tf_config_form}));
  Task result;
  if (type->text() == nullptr || !read_task_type(*type->text(), result.type))
    refuse_tf_config(
        concat({"unknown 'task.type' ", quote_json(*type), "; allowed are ", tf_config_jobs}));
  result.index = read_task_index(*index);
  return result;
}

// Unknown keys are ignored, except for those that were probably meant as the cluster.
LOCKSTEP_INLINE void refuse_other_clusters(const Json& root) {
  for (std::size_t i = 0; i < root.keys.size(); ++i) {
    const std::string& key = root.keys[i];
    const Json& value = root.values[i];
    if (key == "cluster" || key == "task") continue;
    if (key == "sparseCluster")
      refuse_tf_config(
          "key 'sparseCluster' describes a dynamic cluster; workers in lockstep need the address "
          "of all: 'cluster'");
    bool like_cluster = key.size() > 6 && key.ends_with("_hosts");
    for (std::size_t j = 0; j < value.keys.size(); ++j) {
      TaskType type{};
      like_cluster = like_cluster || (read_task_type(value.keys[j], type) &&
                                      value.values[j].kind == Json::Kind::array);
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
  if (root.kind != detail::Json::Kind::object)
    detail::refuse_tf_config(concat(
        {"must be an object, got ", detail::quote_json(root), "; ", detail::tf_config_form}));
  detail::refuse_other_clusters(root);
  const detail::Json* const jobs = root.find("cluster");
  if (jobs == nullptr) return {};
  Cluster cluster;
  cluster.spec = detail::read_cluster_spec(*jobs);
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
