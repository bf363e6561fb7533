// The Python interpreter for tests that compare with Python packages.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "support/process.hpp"
#include "support/skip.hpp"

namespace lockstep_test {

/// LOCKSTEP_PYTHON, or the python3 of PATH.
inline std::string python() {
  const char* named = std::getenv("LOCKSTEP_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

/// Runs a script with arguments; `env` finds the interpreter.
inline Finished run_python(const std::string& script,
                           const std::vector<std::string>& arguments = {}) {
  std::vector<std::string> command = {"/usr/bin/env", python(), "-c", script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_process(command);
}

/// For a test case in a suite "[needs python]": true when the modules ("numpy, safetensors") can be
/// imported; else says that `test` is skipped, and what it needs.
inline bool has_python_modules(std::string_view test, const std::string& modules) {
  if (run_python("import " + modules).exit_code == 0) return true;
  skip(test, "Python with " + modules + ": set LOCKSTEP_PYTHON to an interpreter that has them");
  return false;
}

}  // namespace lockstep_test
