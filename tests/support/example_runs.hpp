// Runs of the programs of examples/, as a user makes them.
#pragma once

#include <doctest/doctest.h>

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/process.hpp"

namespace lockstep_test {

/// "final: loss=... parameters_crc32c=...", the last line of a run.
inline std::string final_line(const std::string& output) {
  const std::size_t begin = output.rfind("final: ");
  REQUIRE_MESSAGE(begin != std::string::npos, output);
  return output.substr(begin, output.find('\n', begin) - begin);
}

/// A figure of such a line.
inline double figure(const std::string& line, const std::string& name) {
  const std::size_t begin = line.find(" " + name + "=");
  REQUIRE_MESSAGE(begin != std::string::npos, line);
  return std::stod(line.substr(begin + name.size() + 2));
}

inline std::vector<std::string> example_command(const std::string& name,
                                                const std::vector<std::string>& arguments) {
  std::vector<std::string> command{lockstep_test::example(name)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

/// The last line of a run that must succeed.
inline std::string run_example(const std::string& name, const std::vector<std::string>& arguments) {
  const auto finished =
      lockstep_test::run_process(example_command(name, arguments), {}, std::chrono::seconds(300));
  REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
  return final_line(finished.output);
}

/// Kills a run with a --backup-dir when the first backup is there, and gives the last line of the
/// run that goes on after it.
inline std::string kill_and_resume(const std::string& name, std::vector<std::string> arguments,
                                   const std::string& folder) {
  for (const std::string& more :
       {std::string("--verbose"), std::string("2"), std::string("--backup-dir"), folder})
    arguments.push_back(more);
  {
    lockstep_test::Process run(example_command(name, arguments));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(300);
    while (!std::filesystem::exists(folder + "/training_state") &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    run.signal(SIGKILL);
    REQUIRE(run.wait(std::chrono::seconds(60)).exit_code == 137);
  }
  const auto finished =
      lockstep_test::run_process(example_command(name, arguments), {}, std::chrono::seconds(300));
  REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
  REQUIRE_MESSAGE(finished.output.find("resuming from") != std::string::npos, finished.output);
  return final_line(finished.output);
}

}  // namespace lockstep_test
