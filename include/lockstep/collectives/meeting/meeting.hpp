// How ranks that know one address learn those of all.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What a rank knows before it has met the others.
struct Meeting {
  int rank = 0;
  int size = 1;
  /// "host:port", where rank 0 waits for the others; if another program has the port, on the first
  /// free one of the seven that follow.
  std::string address{};
  std::string job{};  ///< two jobs that meet on one machine differ in it
  /// Where the ranks meet in a store that all reach (Redis, etcd, a shared folder, MPI's
  /// all-gather), and not at `address`: leaves `mine`, the rank's "host:port", there, waits until
  /// all have done so, and returns the addresses of all, by rank; anew when the ranks meet again.
  /// What it throws, meet() throws.
  std::function<std::vector<std::string>(const std::string& mine)> exchange{};
};

/// How many ports a meeting may take: from that of its address.
inline constexpr int meeting_ports = 8;

/// Opens a port for this rank's peers to call, kept in `port` (which may hold one already), and
/// exchanges its address with those of the others: rank 0 waits for all of them, and tells each the
/// whole list. Returns "host:port" by rank, the same list on every rank. For a rank on rank 0's
/// machine, the host is the one in the meeting's address; for any other, `options.bind_address`, or
/// else the IP address from which it called.
///
/// Waits until all have come, at most options.startup_timeout; every 5 s, rank 0 says on stderr
/// which ranks are missing, and the others why they cannot reach rank 0. Listens on the loopback
/// interface if the meeting's address belongs to it, else on options.bind_address, or else on all
/// interfaces. With a cluster secret (as in Rendezvous::secret, which `secret` stands for), each
/// side proves that it knows it before it is told an address, and the list itself is proved; a
/// caller that cannot is turned away. With `options.tls`, all of it is encrypted, and a caller with
/// the certificate of another rank is refused.
///
/// With `meeting.exchange`, the ranks meet there, and nothing is said to rank 0. The host of a rank
/// is `options.bind_address`, or else the name of its machine.
///
/// Throws ConfigurationError when this rank's place is taken, its number of ranks is another, a
/// secret is missing, or the store gives other than an address for each rank; CollectiveError, exit
/// code 138, naming the missing rank, when the time is over.
[[nodiscard]] std::vector<std::string> meet(const Meeting& meeting,
                                            const CommunicationOptions& options,
                                            const std::shared_ptr<KeptPort>& port,
                                            const std::string& secret = {});

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/meeting/meeting.ipp"
#endif
