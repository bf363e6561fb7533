// The Python interpreter for tests that compare with Python packages.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "support/process.hpp"

namespace lockstep::testing {

/// LOCKSTEP_PYTHON, or the python3 of PATH.
inline std::string python() {
  const char* named = std::getenv("LOCKSTEP_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

/// Runs a script with arguments; `env` finds the interpreter.
inline Finished run_python(const std::string& script, const std::vector<std::string>& arguments = {}) {
  std::vector<std::string> command = {"/usr/bin/env", python(), "-c", script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_process(command);
}

/// True when the modules ("numpy, safetensors") can be imported; else says that `test` is skipped, and what it needs.
inline bool has_python_modules(std::string_view test, const std::string& modules) {
  if (run_python("import " + modules).exit_code == 0) return true;
  std::cout << "SKIPPED: " << test << " (needs Python with " << modules
            << ": set LOCKSTEP_PYTHON to an interpreter that has them)\n";
  return false;
}

}  // namespace lockstep::testing
