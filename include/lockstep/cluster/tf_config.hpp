// TF_CONFIG: the environment variable that tells a process its place in a cluster.
#pragma once

#include <string_view>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/cluster/tf_config.ipp"
#endif
