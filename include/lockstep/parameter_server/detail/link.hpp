// PsLink: a worker's connection to one parameter server, which may go and come back.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/parameter_server/connection.hpp"
#include "lockstep/parameter_server/options.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The worker that calls.
struct PsCaller {
  int rank = 0;
  int workers = 1;
  std::size_t servers = 1;
  const ParameterServerOptions& options;
  PsTrust trust{};
  std::uint64_t process = 0;  ///< random: tells this process from an earlier one of the rank
};

/// The connection, and what to do until there is one again. All but `in_use` is for the thread that
/// has locked it.
class PsLink {
 public:
  using Clock = std::chrono::steady_clock;
  using Send = FunctionRef<void(PsConnection&)>;
  using Receive = FunctionRef<void(PsConnection&, const PsConnection::Head&)>;

  PsLink(const PsCaller& caller, std::size_t index, std::string address)
      : caller_(caller), index_(index), address_(std::move(address)) {}

  [[nodiscard]] std::size_t index() const noexcept { return index_; }

  /// Sends, and receives the reply; begins anew when the connection is lost meanwhile. Waits for a
  /// silent server for at most startup_timeout, and until `until` while the server says that it
  /// waits for others. Throws CollectiveError then, ConfigurationError when the server refuses.
  void converse(std::string_view operation, Send send, Receive receive,
                std::optional<Clock::time_point> until = std::nullopt);
  /// Throws ConnectionLost.
  void connect(Clock::time_point until);
  /// The head of the reply; until it comes, the server keeps this worker waiting for others.
  [[nodiscard]] PsConnection::Head reply(std::string_view operation,
                                         std::optional<Clock::time_point> until);
  /// Throws CollectiveError: the run cannot go on. `address`: of the server that does not answer,
  /// if one does not; the launcher is told of it.
  [[noreturn]] void fail(std::string_view operation, Clock::time_point since,
                         std::string_view reason, const std::string& address = "") const;

  std::mutex in_use;
  std::optional<PsConnection> connection;
  std::string why;  ///< why there is no connection

 private:
  [[nodiscard]] std::string name() const;

  const PsCaller& caller_;
  const std::size_t index_;
  const std::string address_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/parameter_server/detail/link.ipp"
#endif
