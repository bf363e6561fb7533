// What tells a launcher's job apart from any other.
#pragma once

#include <random>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A name that no other job has.
[[nodiscard, gnu::cold]] inline std::string new_job_name() {
  std::random_device random;
  return concat({random(), "-", random()});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
