#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/strategies/mirrored.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// What follows `"name":` in JSON, for each place where there is such a name.
template <class F>
void each_value_of(std::string_view json, std::string_view name, F f) {
  constexpr std::string_view blanks = " \t\r\n";
  for (auto at = json.find(name); at != std::string_view::npos; at = json.find(name, at + 1)) {
    const auto colon = json.find_first_not_of(blanks, at + name.size());
    if (colon == std::string_view::npos || json[colon] != ':') continue;
    const auto value = json.find_first_not_of(blanks, colon + 1);
    if (value != std::string_view::npos) f(json.substr(value));
  }
}

/// How many processes TF_CONFIG says train together with this one; 0 where it gives this one
/// another task. Only a look, for a warning: programs without a network have no parser of JSON.
[[nodiscard]] LOCKSTEP_INLINE int trainers_in(std::string_view tf_config) {
  int quotes = 0;
  for (const std::string_view job : {"\"chief\"", "\"worker\""})
    each_value_of(tf_config, job, [&](std::string_view value) {
      if (!value.starts_with('[')) return;
      int found = 0;  // a bracket between quotes is one of an IPv6 address
      for (const char c : value) {
        if (c == ']' && found % 2 == 0) break;
        found += c == '"';
      }
      quotes += found;
    });
  bool trains = true;
  each_value_of(tf_config, "\"type\"", [&](std::string_view value) {
    if (value.starts_with("\"evaluator\"") || value.starts_with("\"ps\"")) trains = false;
  });
  return trains ? quotes / 2 : 0;
}

/// Says once that the workers of a cluster do not train together.
LOCKSTEP_INLINE void warn_of_unused_cluster() {
  static std::atomic<bool> has_warned = false;
  const char* const tf_config = std::getenv("TF_CONFIG");
  const int trainers = tf_config == nullptr ? 0 : trainers_in(tf_config);
  if (trainers < 2 || has_warned.exchange(true)) return;
  log_warning(
      concat({"MirroredStrategy: the environment variable TF_CONFIG names ", trainers,
              " workers, but a model of this strategy is trained without the others, by each of "
              "them: to train together, use MultiWorkerMirroredStrategy; otherwise, unset "
              "TF_CONFIG"}));
}

}  // namespace detail

LOCKSTEP_INLINE MirroredStrategy::MirroredStrategy(const MirroredOptions& options)
    : group_(ReplicaThreads::count(options.replicas), options.communication_options),
      threads_(group_.size(), 0, options.pinning) {
  for (int i = 0; i < group_.size(); ++i)
    replicas_.emplace_back(any_collective(group_.member(i)), i, group_.size(), &threads_);
  detail::warn_of_unused_cluster();
}

LOCKSTEP_INLINE void MirroredStrategy::run(FunctionRef<void(Replica&)> f) {
  const auto call = [&](int i) {
    f(replicas_[static_cast<std::size_t>(i)]);
    group_.depart(i);
  };
  const auto abort = [&](int i, std::string_view what, ExitCode code) {
    group_.member(i).abort(what, code);
  };
  threads_.run(call, abort, [&] { group_.reset(); });
  group_.assemble();
}

}}  // namespace lockstep
