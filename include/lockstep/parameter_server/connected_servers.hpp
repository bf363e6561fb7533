// ConnectedServers: ParameterServers over TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lockstep/collectives/meeting/socket.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/parameter_server/client.hpp"
#include "lockstep/parameter_server/connection.hpp"
#include "lockstep/parameter_server/options.hpp"
#include "lockstep/parameter_server/parameter_servers.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
  void abandon() noexcept override {
    if (client_) client_->hang_up();
  }
  void say_goodbye() noexcept override {
    if (client_) client_->say_goodbye();
  }
  LOCKSTEP_INLINE_VIRTUAL void serve(ShardKeeper& keeper) override;

 private:
  const ParameterServerOptions options_;
  const PsTrust trust_;
  MeetingSocket listener_;
  std::optional<ParameterClient> client_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/parameter_server/connected_servers.ipp"
#endif
