// Room for the sockets of Tcp: see TcpStartup.
#pragma once

#include <sys/resource.h>

#include <cstddef>

#include "lockstep/collectives/protocol/control_partners.hpp"
#include "lockstep/collectives/protocol/data_partners.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Sees to it that this process may have as many open files as a worker needs, and raises its limit
/// as far as the system lets it. Throws ConfigurationError when that is not enough: otherwise some
/// peers would be missing until the start-up times out.
inline void provide_descriptors(int rank, int world, std::size_t data_connections) {
  const std::size_t partners = count_data_partners(world);
  const bool meets_rank_0 = rank != 0 && !are_control_partners(0, rank, world);
  const std::size_t peers =
      rank == 0 ? static_cast<std::size_t>(world) - 1 : partners + (meets_rank_0 ? 1 : 0);
  constexpr rlim_t others = 32;  // standard streams, the port, event queues, data sets, logs
  const rlim_t needed = static_cast<rlim_t>(peers + partners * data_connections) + others;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  if (limit.rlim_max >= needed) {
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
    (void)::getrlimit(RLIMIT_NOFILE, &limit);
  }
  throw ConfigurationError(
      concat({"connections to ", peers, " other workers, to each one for control and to ", partners,
              " of them ", data_connections, " for data (CommunicationOptions::connections), take ",
              static_cast<std::size_t>(needed),
              " open files with some for the program itself, and this process may have ",
              static_cast<std::size_t>(limit.rlim_cur),
              " (RLIMIT_NOFILE); use fewer connections, or raise the limit (ulimit -n)"}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
