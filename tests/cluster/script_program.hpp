// What the processes of a launcher run, in tests that need no more than processes.
#pragma once

#include <fcntl.h>

#include <string>
#include <vector>

#include "lockstep/cluster/detail/worker_process.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep_test {

/// A shell script that every process runs; by default, it waits to be told to end. Must outlive the
/// processes.
class ScriptProgram {
 public:
  explicit ScriptProgram(const std::string& script = "exec sleep 60")
      : program{"/bin/sh", {"sh", "-c", script}, "\"worker\":[]", input_, ignored_} {}
  ScriptProgram(const ScriptProgram&) = delete;
  ScriptProgram& operator=(const ScriptProgram&) = delete;
  ~ScriptProgram() { ignored_.restore(); }

 private:
  const lockstep::detail::IgnoredSignals ignored_;
  const lockstep::detail::Descriptor input_ = lockstep::detail::Descriptor::checked(
      ::open("/dev/null", O_RDONLY | O_CLOEXEC), "open /dev/null");

 public:
  const lockstep::detail::WorkerProgram program;
};

}  // namespace lockstep_test
