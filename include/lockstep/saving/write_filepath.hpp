// Where each worker writes its own copy of a file.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/strategies/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// TensorFlow's rule: the chief writes to `path`, worker i to `workertemp_i/` in the same folder.
/// Lockstep's own functions need no such copies (the chief alone writes); this is for files of the
/// program's own.
template <Strategy S>
[[nodiscard]] std::string write_filepath(const std::string& path, const S& strategy) {
  if (strategy.is_chief()) return path;
  const std::filesystem::path whole(path);
  return (whole.parent_path() / concat({"workertemp_", strategy.worker_index()}) / whole.filename()).string();
}

}  // namespace lockstep::inline LOCKSTEP_ABI
