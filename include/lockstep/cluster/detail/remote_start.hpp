// How workers on other hosts are started, and where they meet.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "lockstep/cluster/detail/worker_process.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/launchers/known_launchers.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The port at which workers on other hosts meet differs from launcher to launcher.
[[nodiscard, gnu::cold]] inline RemoteStart remote_start(const LaunchOptions& options) {
  if (options.hosts.empty()) return {};
  RemoteStart start;
  start.ssh = words_of(options.ssh);
  if (start.ssh.empty()) throw ConfigurationError("the ssh command is empty");
  start.workers = options.workers;
  start.job = new_job_name();
  std::string host = options.hosts.front().substr(options.hosts.front().find('@') + 1);
  const auto is_first = [&](const std::string& other) { return other == options.hosts.front(); };
  if (std::all_of(options.hosts.begin(), options.hosts.end(), is_first)) host = "127.0.0.1";
  const char* const given = std::getenv("LOCKSTEP_MEETING_ADDRESS");
  start.meeting = given != nullptr ? given : address_text(host, port_of_job(start.job));
  (void)parse_address(start.meeting);
  std::error_code error;
  start.folder = std::filesystem::current_path(error).string();
  if (error) throw Error(concat({"the current folder has no name: ", error.message()}));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("LD_LIBRARY_PATH=") ||
        (text.starts_with("LOCKSTEP_") && !text.starts_with("LOCKSTEP_LISTEN"))) {
      if (text.find('\n') != std::string_view::npos)
        throw ConfigurationError(
            concat({"--hosts: the value of ", text.substr(0, text.find('=')),
                    " has a line break, and is passed on to the hosts as a line; take it out"}));
      start.environment.emplace_back(text);
    }
  }
  return start;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
