// PsLink: a worker's connection to one parameter server, which may go and come back.
#pragma once

#include <poll.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/parameter_server/connection.hpp"
#include "lockstep/extra/parameter_server/options.hpp"
#include "lockstep/net/rare_log.hpp"

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

inline std::string PsLink::name() const {
  return concat({"parameter server ", index_, " (", address_, ")"});
}

inline void PsLink::fail(std::string_view operation, Clock::time_point since,
                         std::string_view reason, const std::string& address) const {
  throw CollectiveError({.address = address,
                         .operation = std::string(operation),
                         .seconds = std::chrono::duration<double>(Clock::now() - since).count(),
                         .reason = concat({"worker ", caller_.rank, ": ", name(), ": ", reason})});
}

inline void PsLink::connect(Clock::time_point until) {
  const Address place = parse_address(address_);
  std::string reason = "the name has no address";
  Descriptor socket = call_host(place.host, place.port, std::chrono::seconds(2), until, reason);
  if (!socket.is_open()) throw ConnectionLost(reason);
  connection.emplace(std::move(socket), caller_.options.timeout);
  connection->on_silence([this](std::chrono::seconds silent) {
    log_line(concat({"worker ", caller_.rank, " waits for ", name(), ", which has been silent for ",
                     silent.count(), " s; after ", duration_text(caller_.options.timeout),
                     " (ParameterServerOptions::timeout) its connection counts as lost"}));
  });
  try {
    claim_place(*connection, caller_.trust,
                {.rank = caller_.rank,
                 .workers = caller_.workers,
                 .server = static_cast<int>(index_),
                 .servers = static_cast<int>(caller_.servers),
                 .max_staleness = caller_.options.max_staleness.value_or(-1),
                 .process = caller_.process});
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(concat({"worker ", caller_.rank, ": ", name(), ": ", error.what()}));
  }
  PsConnection::expect(reply("start-up", until), 0);
}

/// The head of the reply; until it comes, the server keeps this worker waiting for others.
inline PsConnection::Head PsLink::reply(std::string_view operation,
                                        std::optional<Clock::time_point> until) {
  const auto begin = Clock::now();
  RareLog reports;
  for (;;) {
    const auto head = connection->receive_head();
    if (head.kind == PsMessage::reply) return head;
    if (head.kind != PsMessage::waiting && head.kind != PsMessage::refusal)
      throw ConnectionLost("answers what was not asked");
    const std::string text = printable(connection->receive_text(head, 1 << 16), 2000);
    if (head.kind == PsMessage::refusal) {
      const ExitCode code = failure_code(static_cast<int>(head.number));
      if (code == ExitCode::lost_peer) fail(operation, begin, text);
      throw ConfigurationError(
          concat({operation, ": ", name(), " refuses worker ", caller_.rank, ": ", text}));
    }
    const auto now = Clock::now();
    if (until && now >= *until)
      fail(operation, begin,
           concat({"waits in vain for ", text, "; are they started, with this cluster?"}));
    if (!reports.is_due(now)) continue;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begin).count();
    log_line(concat({operation, ": worker ", caller_.rank, " has waited ", seconds, " s at ",
                     name(), " for ", text}));
  }
}

inline void PsLink::converse(std::string_view operation, Send send, Receive receive,
                             std::optional<Clock::time_point> until) {
  const auto begin = Clock::now();
  const auto deadline = begin + caller_.options.startup_timeout;
  RareLog reports;
  bool is_trusted = true;
  const auto succeeds = [&] {
    try {
      if (!connection) connect(deadline);
      send(*connection);
      receive(*connection, reply(operation, until));
      return true;
    } catch (const ConnectionLost& lost) {
      connection.reset();
      why = lost.what();
      const bool was_trusted = is_trusted;
      is_trusted = dynamic_cast<const PeerUntrusted*>(&lost) == nullptr;
      if (was_trusted && !is_trusted) reports.hasten();  // no use in waiting to say so
      return false;
    } catch (...) {
      connection.reset();
      throw;
    }
  };
  constexpr auto interval = std::chrono::milliseconds(100);
  for (; !succeeds(); ::poll(nullptr, 0, static_cast<int>(interval.count()))) {
    const auto now = Clock::now();
    if (now + 2 * interval >= deadline)  // without time for an answer, it would not tell why
      fail(operation, begin,
           is_trusted ? concat({why, ", and it has not come back for ",
                                duration_text(caller_.options.startup_timeout),
                                "; start it (again), with the backup_dir that it had"})
                      : why,
           is_trusted ? address_ : std::string());  // one that TLS refuses is at work for others
    if (reports.is_due(now))
      log_line(concat({operation, ": worker ", caller_.rank, " waits for ", name(), ": ", why}));
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
