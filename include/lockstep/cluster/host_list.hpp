// The hosts that `--hosts` and `--hostfile` name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Reads "a:2,b" as a, a, b: a host for each worker, in this order. A host is what ssh takes: a
/// name, an address ("[fd00::1]:2" with its number of workers), an entry of ssh's configuration,
/// with or without "user@". Throws ConfigurationError, naming the entry, when it is none, or when
/// there are more than 1024 workers.
[[nodiscard]] std::vector<std::string> parse_hosts(std::string_view text);

/// Reads a host file: in each line a host, and how many workers it takes, as "a:2", as "a slots=2"
/// (Open MPI's form) or as "a" for one. A host in two lines takes the workers of both. Empty
/// lines and what follows a '#' do not count. Throws ConfigurationError, naming the line.
[[nodiscard]] std::vector<std::string> parse_host_file(std::string_view text);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/cluster/host_list.ipp"
#endif
