// The ranks but 0 in a meeting.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/meeting/connection.hpp"
#include "lockstep/collectives/meeting/detail/words.hpp"
#include "lockstep/collectives/meeting/meeting.hpp"
#include "lockstep/collectives/tls/tls_context.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/rare_log.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Calls rank 0 until it answers, and asks for the list of addresses.
class MeetingGuest {
 public:
  /// `tls` is null without TLS; `port` is that on which this rank listens to its peers.
  MeetingGuest(const Meeting& meeting, const CommunicationOptions& options,
               const ClusterSecret& secret, std::shared_ptr<const TlsContext> tls, int port)
      : meeting_(meeting),
        options_(options),
        secret_(secret),
        tls_(std::move(tls)),
        place_(parse_address(meeting.address)),
        port_(port) {}

  [[nodiscard]] std::vector<std::string> ask() {
    for (;;) {
      std::vector<SocketName> names = resolve(place_.host, place_.port, why_);
      for (int i = 0; i < meeting_ports && place_.port + i <= 65'535; ++i)
        for (SocketName& name : names) {
          set_port(name, place_.port + i);
          if (auto addresses = ask_at(name)) return std::move(*addresses);
          if (Clock::now() >= deadline_) fail();
        }
      if (Clock::now() >= deadline_) fail();
      report();
      ::poll(nullptr, 0, 200);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Addresses = std::vector<std::string>;

  [[nodiscard]] std::optional<Addresses> ask_at(const SocketName& name) {
    Descriptor socket = call_socket(name, in_seconds(2), why_of_call_);
    if (!socket.is_open()) return none(why_of_call_);
    auto tls = tls_ == nullptr ? nullptr : TlsSession::call(tls_, socket.get(), 0);
    return converse(MeetingConnection(std::move(socket), std::move(tls)));
  }

  [[nodiscard]] std::optional<Addresses> converse(MeetingConnection connection) {
    const MeetingHello mine = MeetingHello::make(secret_);
    connection.send(mine.text());
    const auto hello = next(connection, 2048, in_seconds(2));
    const auto theirs = hello ? MeetingHello::read(*hello) : std::nullopt;
    if (!theirs && !connection.problem().empty()) return none(connection.problem());
    if (!theirs)
      return none(tls_ == nullptr ? "another program has the port"
                                  : "another program has the port, or LOCKSTEP_TLS (or "
                                    "CommunicationOptions::tls) is not the same on all workers");
    if (theirs->has_secret && !secret_.is_set())
      throw ConfigurationError(
          concat({"start-up: rank 0 at ", meeting_.address,
                  " has a cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker, rank ",
                  meeting_.rank, ", has none: give all workers the same"}));
    if (!theirs->has_secret && secret_.is_set())
      return none(
          "has no cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has one: give all workers "
          "the same");
    const MeetingSeal seal(secret_, mine, *theirs);
    const auto proof = next(connection, 2048, in_seconds(2));
    if (!proof || !seal.opened("meeting host", *proof))
      return none("cannot prove that it knows the cluster secret (LOCKSTEP_CLUSTER_SECRET)");
    const bool any = options_.bind_address == "0.0.0.0" || options_.bind_address == "::";
    const MeetingClaim claim{meeting_.rank, meeting_.size, meeting_.job,
                             any ? "" : options_.bind_address, port_};
    connection.send(seal.sealed("meeting guest", claim.text()));
    const auto message = next(connection, std::size_t{1} << 23, deadline_);
    if (!message && !connection.problem().empty()) return none(connection.problem());
    if (!message) return none("ended the conversation before all had come");
    const auto content = seal.opened("meeting answer", *message);
    const auto answer = content ? MeetingAnswer::read(*content) : std::nullopt;
    if (!answer) return none("gives no valid answer");
    switch (answer->kind) {
      case MeetingAnswer::Kind::other_job:
        return none("another job meets there");
      case MeetingAnswer::Kind::refused:
        throw ConfigurationError(
            concat({"start-up: rank 0 at ", meeting_.address, " turns this worker away: it ",
                    printable(answer->lines.front(), 300)}));
      case MeetingAnswer::Kind::welcome:
        break;
    }
    if (answer->lines.size() != static_cast<std::size_t>(meeting_.size))
      return none("gives no valid answer");
    for (const std::string& address : answer->lines) (void)parse_address(address);
    return answer->lines;
  }

  // The next message, or nothing at the end of the stream or of the time.
  [[nodiscard]] static std::optional<std::string> next(MeetingConnection& connection,
                                                       std::size_t longest,
                                                       Clock::time_point until) {
    for (;;) {
      connection.flush();
      if (auto message = connection.take()) return message;
      if (!connection.is_open()) return std::nullopt;
      pollfd ready{connection.descriptor(), connection.events(), 0};
      if (!poll_until(ready, until)) return std::nullopt;
      connection.receive(longest);
    }
  }

  [[nodiscard]] Clock::time_point in_seconds(int seconds) const {
    return std::min(deadline_, Clock::now() + std::chrono::seconds(seconds));
  }

  // "Connection refused" by a later port says less than what an earlier one has answered.
  // An attempt that the deadline has cut short says nothing.
  std::nullopt_t none(std::string_view why) {
    if (Clock::now() >= deadline_ && !(why_.empty() && last_why_.empty())) return std::nullopt;
    if (why_.empty() || why != std::strerror(ECONNREFUSED)) why_ = why;
    return std::nullopt;
  }

  void report() {
    if (reports_.is_due())
      log_line(concat({"start-up: worker ", meeting_.rank, " looks for worker 0 at ",
                       meeting_.address, ": ", why_}));
    last_why_ = std::exchange(why_, {});
  }

  [[noreturn]] void fail() const {
    const std::string& why = why_.empty() ? last_why_ : why_;
    throw CollectiveError(
        {.failed_rank = 0,
         .address = meeting_.address,
         .operation = "start-up",
         .seconds = std::chrono::duration<double>(Clock::now() - begin_).count(),
         .reason = concat({"did not tell worker ", meeting_.rank, " the other workers' addresses: ",
                           why.empty() ? "it does not answer" : why.c_str(),
                           "; is it started, on that host, and may this one connect to it?"})});
  }

  const Meeting& meeting_;
  const CommunicationOptions& options_;
  const ClusterSecret& secret_;
  const std::shared_ptr<const TlsContext> tls_;
  const Address place_;
  const int port_;
  const Clock::time_point begin_ = Clock::now();
  const Clock::time_point deadline_ = begin_ + options_.startup_timeout;
  RareLog reports_;
  std::string why_;          // why rank 0 could not be asked
  std::string last_why_;     // the same, in the round before
  std::string why_of_call_;  // why the last call was in vain
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
