// Where each worker writes its own copy of a file.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/strategies/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// TensorFlow's rule: the chief writes to `path`, worker i to `workertemp_i/` in the same folder.
/// Lockstep's functions need no such copies (the chief alone writes); this is for files that the
/// program itself writes.
template <Strategy S>
[[nodiscard]] std::string write_filepath(const std::string& path, const S& strategy) {
  if (strategy.is_chief()) return path;
  const std::size_t name = path.rfind('/') + 1;  // 0 without a folder
  return concat(
      {path.substr(0, name), "workertemp_", strategy.worker_index(), "/", path.substr(name)});
}

}  // namespace lockstep::inline LOCKSTEP_ABI
