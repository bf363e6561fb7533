// Lines for the person who runs the program.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Writes "lockstep: <text>" and a new line to stderr, in one piece, so that the lines of several threads and processes do
/// not mix.
inline void log_line(std::string_view text) noexcept {
  try {
    std::string line = "lockstep: ";
    line += text;
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (...) {  // out of memory: a line is not worth a failure
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI
