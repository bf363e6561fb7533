// Which task of its launcher's cluster a process has, and the name of its job.
#pragma once

#include <random>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A name that no other job has.
[[nodiscard, gnu::cold]] inline std::string new_job_name() {
  std::random_device random;
  return concat({random(), "-", random()});
}

struct LaunchedTask {
  int index = 0;
  bool is_server = false;  ///< a parameter server; else a worker

  /// "worker 1", "server 1": stands before the lines of its output.
  [[nodiscard]] std::string name() const {
    return concat({is_server ? "server " : "worker ", index});
  }
  /// TF_CONFIG's text. `cluster`: the jobs, with the addresses of all.
  [[nodiscard]] std::string tf_config(std::string_view cluster) const {
    return concat({"{\"cluster\":{", cluster, "},\"task\":{\"type\":\"",
                   is_server ? "ps" : "worker", "\",\"index\":", index, "}}"});
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
