#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/skip.hpp"

namespace lockstep_test {

/// The folder of MNIST's four IDX files (plain or .gz): LOCKSTEP_MNIST_DIR, or `--mnist-dir DIR` of
/// a test program. Nothing where neither is given; throws std::runtime_error where the folder named
/// does not exist, so that a typing error is no skip.
inline std::optional<std::filesystem::path> mnist_dir() {
  const char* dir = std::getenv("LOCKSTEP_MNIST_DIR");
  if (dir == nullptr || *dir == '\0') return std::nullopt;
  if (!std::filesystem::is_directory(dir)) {
    throw std::runtime_error("LOCKSTEP_MNIST_DIR is no folder: " + std::string(dir));
  }
  return std::filesystem::path(dir);
}

/// For a test case in a suite "[needs mnist]".
inline void skip_without_mnist(std::string_view test) {
  skip(test, "MNIST's IDX files: set LOCKSTEP_MNIST_DIR or give --mnist-dir DIR");
}

}  // namespace lockstep_test
