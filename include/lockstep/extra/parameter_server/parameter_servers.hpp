// ParameterServers: a process's part in training with parameter servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/extra/parameter_server/client.hpp"
#include "lockstep/extra/parameter_server/connection.hpp"
#include "lockstep/extra/parameter_server/options.hpp"
#include "lockstep/extra/parameter_server/server.hpp"
#include "lockstep/extra/parameter_server/shard_keeper.hpp"
#include "lockstep/net/listener.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// On a worker it stands for all servers, on a server for the server itself. A worker connects when
/// its first fit begins; a server listens from the beginning. One thread at a time calls members.
class ParameterServers {
 public:
  /// `rank`: this worker's among all; for a server -1, and `server` is its index.
  struct Place {
    int rank = 0;
    int workers = 1;
    int server = -1;
    std::vector<std::string> servers{};    ///< "host:port" of each
    std::vector<std::string> addresses{};  ///< of the workers, by which their launcher knows them
  };

  /// Throws ConfigurationError when an option makes no sense, a file of TLS cannot be used, or a
  /// server cannot listen: on a port that is taken, after startup_timeout.
  ParameterServers(Place place, const ParameterServerOptions& options)
      : place_(std::move(place)), options_(options), trust_(trust()) {
    options_.validate();
    if (!is_server()) {
      client_.emplace(place_.rank, place_.workers, place_.servers, options_, trust_);
      return;
    }
    const Address own = parse_address(address());
    listener_.emplace(listen_on_own({own.port, address(), "parameter server: ", "its", "server"},
                                    own.host, options_.bind_address, options_.startup_timeout));
  }

  [[nodiscard]] bool is_server() const noexcept { return place_.server >= 0; }
  [[nodiscard]] int server() const noexcept { return place_.server; }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(place_.servers.size()); }
  [[nodiscard]] int workers() const noexcept { return place_.workers; }
  [[nodiscard]] bool in_rounds() const noexcept { return options_.in_rounds(); }

  /// What a worker asks of the servers.
  [[nodiscard]] ParameterClient& client() noexcept { return *client_; }
  /// What a server does: see ParameterServer::serve.
  void serve(ShardKeeper& keeper) {
    ParameterServer(keeper,
                    {.index = place_.server,
                     .servers = count(),
                     .workers = place_.workers,
                     .address = address(),
                     .addresses = place_.addresses},
                    options_, trust_, *listener_)
        .serve();
  }

  // What a worker's fit knows of itself.

  std::uint64_t fits = 0;  ///< begun by this process
  bool is_in_fit = false;  ///< until it has made its steps
  bool is_current = true;  ///< slots and counters of this worker are those of the servers
  std::vector<std::byte> next_place{};  ///< where training goes on after the step that is made next

 private:
  [[nodiscard]] const std::string& address() const {
    return place_.servers[static_cast<std::size_t>(place_.server)];
  }
  [[nodiscard]] PsTrust trust() const {
    const TlsIdentity own =
        is_server() ? TlsIdentity::parameter_server(place_.server) : TlsIdentity(place_.rank);
    PsTrust trust{.secret = ClusterSecret::given_or_from_environment("")};
    trust.tls = TlsContext::make(
        TlsSettings::chosen_with_servers(options_.tls, options_.tls_files, own), trust.secret, own);
    return trust;
  }

  const Place place_;
  const ParameterServerOptions options_;
  const PsTrust trust_;
  std::optional<ListeningSocket> listener_;
  std::optional<ParameterClient> client_;
};

}}}  // namespace lockstep::detail
