#pragma once

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

inline constexpr int most_local_workers = 1024;

LOCKSTEP_INLINE int read_workers(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most_local_workers)
    throw ConfigurationError(
        concat({"--workers needs a whole number from 1 to ", most_local_workers, ", got '", text, "'"}));
  return value;
}

// Takes `--workers N` out of the arguments; 0 when it is not there.
LOCKSTEP_INLINE int take_workers(std::vector<char*>& arguments) {
  int workers = 0;
  for (std::size_t i = 1; i < arguments.size();) {
    const std::string_view argument = arguments[i];
    if (argument == "--") break;
    const bool with_value = argument.starts_with("--workers=");
    if (argument != "--workers" && !with_value) {
      ++i;
      continue;
    }
    if (workers != 0) throw ConfigurationError("--workers is given twice");
    if (!with_value && i + 1 == arguments.size())
      throw ConfigurationError("--workers needs the number of local worker processes");
    workers = read_workers(with_value ? argument.substr(argument.find('=') + 1) : std::string_view(arguments[i + 1]));
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    arguments.erase(at, at + (with_value ? 1 : 2));
  }
  return workers;
}

LOCKSTEP_INLINE int launch_with(int workers, const std::vector<char*>& arguments) {
  const char* config = std::getenv("TF_CONFIG");
  if (config != nullptr && std::string_view(config).find("cluster") != std::string_view::npos)
    throw ConfigurationError(
        "--workers starts a cluster on this machine, but TF_CONFIG already makes this process part of one; leave "
        "--workers out, or unset TF_CONFIG");
  LaunchOptions options;
  options.workers = workers;
  options.arguments.assign(arguments.begin(), arguments.end());
  return launch_workers(options);
}

LOCKSTEP_INLINE int report_error(const char* what, ExitCode code) {
  std::fflush(stdout);
  const std::string line = concat({"error: ", what, "\n"});
  std::fwrite(line.data(), 1, line.size(), stderr);
  return static_cast<int>(code);
}

// Tells the launcher, if there is one, that this failure is the consequence of another worker's.
LOCKSTEP_INLINE void note_failure_by_peer() {
  const char byte = 1;
  if (const char* descriptor = std::getenv("LOCKSTEP_NOTE_FD")) (void)!::write(std::atoi(descriptor), &byte, 1);
}

LOCKSTEP_INLINE int run(int argc, char** argv, int (*function)(void*, int, char**), void* context) {
  try {
    std::vector<char*> arguments(argv, argv + argc);
    if (const int workers = take_workers(arguments); workers > 0) return launch_with(workers, arguments);
    const int count = static_cast<int>(arguments.size());
    arguments.push_back(nullptr);
    return function(context, count, arguments.data());
  } catch (const CollectiveError& error) {
    note_failure_by_peer();
    return report_error(error.what(), error.exit_code());
  } catch (const Error& error) {
    return report_error(error.what(), error.exit_code());
  } catch (const std::exception& error) {
    return report_error(error.what(), ExitCode::failure);
  } catch (...) {
    return report_error("an exception that is no std::exception", ExitCode::failure);
  }
}

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI
