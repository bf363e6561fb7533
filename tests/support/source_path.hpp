// Files of the repository that tests read.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lockstep_test {

/// The path of a file, by its path in the repository. ctest says where that is; otherwise the
/// current folder is taken for it.
inline std::string source_path(const std::string& name) {
  const char* const sources = std::getenv("LOCKSTEP_SOURCE_DIR");
  return (std::filesystem::path(sources != nullptr ? sources : ".") / name).string();
}

}  // namespace lockstep_test
