// ConnectedServers: ParameterServers over TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/extra/parameter_server/client.hpp"
#include "lockstep/extra/parameter_server/connection.hpp"
#include "lockstep/extra/parameter_server/options.hpp"
#include "lockstep/extra/parameter_server/parameter_servers.hpp"
#include "lockstep/extra/parameter_server/server.hpp"
#include "lockstep/net/listener.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A worker connects when its first fit begins; a server listens from the beginning.
class ConnectedServers final : public ParameterServers {
 public:
  /// Throws ConfigurationError when an option makes no sense, a file of TLS cannot be used, or a
  /// server cannot listen: on a port that is taken, after startup_timeout.
  ConnectedServers(Place place, const ParameterServerOptions& options);

  [[nodiscard]] PsBegun begin(std::uint64_t fit, std::string_view signature) override {
    return client_->begin(fit, signature);
  }
  void put(std::size_t server, std::span<const std::byte> place,
           std::span<const std::byte> state) override {
    client_->put(server, place, state);
  }
  void pull(std::size_t server, std::span<std::byte> state) override {
    client_->pull(server, state);
  }
  void step(double learning_rate, bool stop_on_non_finite, std::span<const std::byte> place,
            std::span<const double> status, std::span<const PsExchange> exchanges) override {
    client_->step(learning_rate, stop_on_non_finite, place, status, exchanges);
  }
  void finish() override { client_->finish(); }
  [[nodiscard]] bool settle(std::size_t server, bool wants, std::span<const std::byte> given,
                            std::span<std::byte> taken) override {
    return client_->settle(server, wants, given, taken);
  }
  void abandon() noexcept override {
    if (client_) client_->hang_up();
  }
  void cannot_begin(std::string_view why) noexcept override {
    if (client_) client_->cannot_begin(why);
  }
  void say_goodbye() noexcept override {
    if (client_) client_->say_goodbye();
  }
  void serve(ShardKeeper& keeper) override;

 private:
  const ParameterServerOptions options_;
  const PsTrust trust_;
  std::optional<ListeningSocket> listener_;
  std::optional<ParameterClient> client_;
};

inline Descriptor open_server_port(const std::string& address,
                                   const ParameterServerOptions& options) {
  const Address own = parse_address(address);
  return listen_on_own({own.port, address, "parameter server: ", "its", "server"}, own.host,
                       options.bind_address, options.startup_timeout);
}

inline PsTrust trust_of(const ParameterServerOptions& options,
                        const ParameterServers::Place& place) {
  const TlsIdentity own =
      place.server >= 0 ? TlsIdentity::parameter_server(place.server) : TlsIdentity(place.rank);
  PsTrust trust{.secret = ClusterSecret::given_or_from_environment("")};
  trust.tls = TlsContext::make(
      TlsSettings::chosen_with_servers(options.tls, options.tls_files, own), trust.secret, own);
  return trust;
}

inline ConnectedServers::ConnectedServers(Place place, const ParameterServerOptions& options)
    : ParameterServers(std::move(place)), options_(options), trust_(trust_of(options_, place_)) {
  options_.validate();
  if (is_server())
    listener_.emplace(
        open_server_port(place_.servers[static_cast<std::size_t>(place_.server)], options_));
  else
    client_.emplace(place_.rank, place_.workers, place_.servers, options_, trust_);
}

inline void ConnectedServers::serve(ShardKeeper& keeper) {
  ParameterServer(keeper,
                  {.index = place_.server,
                   .servers = count(),
                   .workers = place_.workers,
                   .address = place_.servers[static_cast<std::size_t>(place_.server)],
                   .addresses = place_.addresses},
                  options_, trust_, *listener_)
      .serve();
}

}}}  // namespace lockstep::detail
