// Log lines on standard error.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Writes "lockstep: <text>" and a new line to stderr, in one piece, so that the lines of several
/// threads and processes do not mix.
inline void log_line(std::string_view text) noexcept {
  try {
    std::string line = "lockstep: ";
    line += text;
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (...) {  // out of memory: the program goes on without the line
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI
