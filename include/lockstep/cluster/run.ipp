#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lockstep/cluster/detail/worker_process.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/launchers/known_launchers.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/exit_report.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// An option of the launcher.
struct LaunchOption {
  std::string_view flag;
  std::string_view what;
  int least;
  int most;
};

inline constexpr LaunchOption workers_option{"--workers", "the number of local worker processes", 1,
                                             1024};
inline constexpr LaunchOption servers_option{
    "--servers", "the number of parameter servers beside the workers", 0, 1024};
inline constexpr LaunchOption restarts_option{
    "--restarts", "the number of times that a worker is started again", 0, 1'000'000};

inline constexpr std::string_view hosts_option = "--hosts";
inline constexpr std::string_view host_file_option = "--hostfile";
inline constexpr std::string_view ssh_option = "--ssh";

LOCKSTEP_INLINE int read_number(const LaunchOption& option, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < option.least ||
      value > option.most)
    throw ConfigurationError(concat({option.flag, " needs a whole number from ", option.least,
                                     " to ", option.most, ", got '", text, "'"}));
  return value;
}

// Takes `--workers N`, say, out of the arguments.
LOCKSTEP_INLINE std::optional<std::string> take_text(std::string_view flag, std::string_view what,
                                                     std::vector<char*>& arguments) {
  std::optional<std::string> value;
  for (std::size_t i = 1; i < arguments.size();) {
    const std::string_view argument = arguments[i];
    if (argument == "--") break;
    const bool with_value =
        argument.starts_with(flag) && argument.substr(flag.size()).starts_with('=');
    if (argument != flag && !with_value) {
      ++i;
      continue;
    }
    if (value) throw ConfigurationError(concat({flag, " is given twice"}));
    if (!with_value && i + 1 == arguments.size())
      throw ConfigurationError(concat({flag, " needs ", what}));
    value = with_value ? argument.substr(flag.size() + 1) : arguments[i + 1];
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    arguments.erase(at, at + (with_value ? 1 : 2));
  }
  return value;
}

LOCKSTEP_INLINE std::optional<int> take_option(const LaunchOption& option,
                                               std::vector<char*>& arguments) {
  const auto text = take_text(option.flag, option.what, arguments);
  if (!text) return std::nullopt;
  return read_number(option, *text);
}

LOCKSTEP_INLINE std::vector<std::string> read_host_file(const std::string& path) {
  std::error_code unknown;
  const bool is_folder = std::filesystem::is_directory(path, unknown);
  errno = 0;
  std::ifstream file(path);
  if (is_folder || !file)
    throw ConfigurationError(
        concat({"--hostfile: cannot read '", path, "': ", std::strerror(is_folder ? EISDIR : errno),
                "; it should be a file with lines such as: a slots=2"}));
  return parse_host_file(std::string{std::istreambuf_iterator<char>(file), {}});
}

// What has made this process part of a cluster; empty if nothing has. (TF_CONFIG is not parsed
// here: a program that trains alone would have to compile all of JSON.)
LOCKSTEP_INLINE std::string cluster_in_environment() {
  const auto environment = [](const char* name) -> const char* { return std::getenv(name); };
  const char* const config = environment("TF_CONFIG");
  if (config != nullptr && std::string_view(config).find("cluster") != std::string_view::npos)
    return "TF_CONFIG";
  const auto taken = claim_of_launchers(environment, std::nullopt);
  return taken && taken->claim.size > 1 ? taken->text() : "";
}

// The options of a launcher, when one is asked for.
LOCKSTEP_INLINE std::optional<LaunchOptions> take_launch_options(std::vector<char*>& arguments) {
  const auto workers = take_option(workers_option, arguments);
  const auto hosts = take_text(hosts_option, "hosts, such as a:2,b:2", arguments);
  const auto host_file = take_text(host_file_option, "a file with a host in each line", arguments);
  const int given = workers.has_value() + hosts.has_value() + host_file.has_value();
  if (given == 0) {
    for (const std::string_view flag : {servers_option.flag, restarts_option.flag, ssh_option})
      if (take_text(flag, "a value", arguments))
        throw ConfigurationError(
            concat({flag, " is the launcher's, and goes with ",
                    flag == servers_option.flag ? "--workers"
                    : flag == ssh_option        ? "--hosts or --hostfile"
                                                : "--workers, --hosts or --hostfile",
                    ": give it, too, or put an option of the program's own behind --"}));
    return std::nullopt;
  }
  set_log_place({.task = std::string(log_task_of_launcher)});
  const char* const flag = workers ? "--workers" : hosts ? "--hosts" : "--hostfile";
  if (given > 1)
    throw ConfigurationError(
        "--workers, --hosts and --hostfile each say which workers to start; give one of them");
  if (const std::string source = cluster_in_environment(); !source.empty())
    throw ConfigurationError(
        concat({flag, " starts a cluster", workers ? " on this machine" : "", ", but ", source,
                " already makes this process part of one; leave ", flag,
                " out, or unset these variables"}));
  LaunchOptions options;
  options.workers = workers.value_or(0);
  if (!workers) {
    options.hosts = hosts ? parse_hosts(*hosts) : read_host_file(*host_file);
    options.workers = static_cast<int>(options.hosts.size());
    if (const auto ssh =
            take_text(ssh_option, "a command that takes a host and a command", arguments))
      options.ssh = *ssh;
  }
  options.servers = take_option(servers_option, arguments).value_or(0);
  if (options.servers > 0 && !workers)
    throw ConfigurationError(concat(
        {"--servers starts parameter servers beside --workers, on this machine; for hosts, start "
         "the program on each with a TF_CONFIG that has a job 'ps', without ",
         flag}));
  options.restarts = take_option(restarts_option, arguments).value_or(0);
  options.arguments.assign(arguments.begin(), arguments.end());
  return options;
}

LOCKSTEP_INLINE int report_error(const char* what, ExitCode code) {
  std::fflush(stdout);
  const std::string line = logs_are_structured()
                               ? structured_log_line(what, LogLevel::error)
                               : concat({"error: ", printable_message(what), "\n"});
  std::fwrite(line.data(), 1, line.size(), stderr);
  return static_cast<int>(code);
}

// While stdin, stdout or stderr is closed, the next file or connection that is opened would take
// its descriptor, and so get the output.
LOCKSTEP_INLINE void occupy_standard_descriptors() noexcept {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor)
    if (::fcntl(descriptor, F_GETFD) < 0) (void)::open("/dev/null", O_RDONLY);  // writes fail
}

// Lost output may be the very purpose of the program.
LOCKSTEP_INLINE int check_output(int code) {
  errno = 0;
  const bool complete = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (complete || code != 0) return code;
  const std::string why = errno != 0 ? concat({": ", std::strerror(errno)}) : "";
  return report_error(
      concat({"the program has ended, but not all of its output could be written to stdout", why})
          .c_str(),
      ExitCode::failure);
}

LOCKSTEP_INLINE int call_and_report(int argc, char** argv, int (*function)(void*, int, char**),
                                    void* context) {
  ExitReport exit_report;
  const auto fail = [&](const char* what, ExitCode code) {
    exit_report.say(what, code);
    return report_error(what, code);
  };
  try {
    check_log_form();
    std::vector<char*> arguments(argv, argv + argc);
    if (const auto options = take_launch_options(arguments)) return launch_workers(*options);
    const IgnoredSignals ignored;  // until the end of the process, which writes once more
    const int count = static_cast<int>(arguments.size());
    arguments.push_back(nullptr);
    return check_output(function(context, count, arguments.data()));
  } catch (const Preempted& preempted) {
    exit_report.say(preempted.what(), preempted.exit_code());
    log_line(preempted.what());
    return static_cast<int>(preempted.exit_code());
  } catch (const Served& served) {
    log_line(served.what());
    return check_output(0);
  } catch (const CollectiveError& error) {
    const int code = fail(error.what(), error.exit_code());
    note_failure(error.failure());
    return code;
  } catch (const Error& error) {
    return fail(error.what(), error.exit_code());
  } catch (const std::bad_alloc& error) {
    return fail(concat({"out of memory: ", error.what(), limits_text(Resource::memory)}).c_str(),
                ExitCode::failure);
  } catch (const std::exception& error) {
    return fail(error.what(), ExitCode::failure);
  } catch (...) {
    return fail("an exception that is no std::exception", ExitCode::failure);
  }
}

LOCKSTEP_INLINE int run(int argc, char** argv, int (*function)(void*, int, char**), void* context) {
  occupy_standard_descriptors();
  return call_and_report(argc, argv, function, context);
}

}}}  // namespace lockstep::detail
