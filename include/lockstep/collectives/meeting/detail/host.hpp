// Rank 0 in a meeting.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
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
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/listener.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Waits for the other ranks, and tells them the list of addresses.
class MeetingHost {
 public:
  /// `tls` is null without TLS; `port` is that on which rank 0 itself listens to its peers.
  MeetingHost(const Meeting& meeting, const CommunicationOptions& options,
              const ClusterSecret& secret, std::shared_ptr<const TlsContext> tls, int port)
      : meeting_(meeting),
        options_(options),
        secret_(secret),
        tls_(std::move(tls)),
        place_(parse_address(meeting.address)),
        addresses_(static_cast<std::size_t>(meeting.size)),
        contests_(addresses_.size()) {
    addresses_.front() = to_string(Address{place_.host, static_cast<std::uint16_t>(port)});
  }

  [[nodiscard]] std::vector<std::string> wait() {
    open();
    while (!all_are_there()) {
      if (Clock::now() >= deadline_) fail();
      poll_once(std::min(deadline_, log_.due()));
      if (!all_are_there() && log_.is_due()) report();
    }
    // A guest that has gone with its list loses its place; the list stays as it was sent.
    std::vector<std::string> all = addresses_;
    const std::string list = MeetingAnswer{MeetingAnswer::Kind::welcome, all}.text();
    for (Guest& guest : guests_)
      if (guest.rank > 0) guest.connection.send(guest.seal->sealed(answers, list));
    const auto end = std::min(deadline_, Clock::now() + std::chrono::seconds(10));
    while (Clock::now() < end && std::ranges::any_of(guests_, [](const Guest& guest) {
             return guest.connection.is_open() && guest.connection.has_more_to_send();
           }))
      poll_once(end);
    return all;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr std::string_view proves = "meeting host";
  static constexpr std::string_view claims = "meeting guest";
  static constexpr std::string_view answers = "meeting answer";
  static constexpr std::size_t most_strangers = 256;  // that may be in the middle of a conversation
  static constexpr std::size_t longest_message = 2048;

  struct Guest {
    MeetingConnection connection;
    std::string ip;
    bool is_on_this_machine;
    Clock::time_point since = Clock::now();
    MeetingHello mine{};
    std::optional<MeetingSeal> seal{};
    int rank = -1;  // once its claim is accepted
    bool leaves = false;
  };

  // Processes that claim a place that is taken: when they began to call, and have called last.
  struct Contest {
    Clock::time_point first{}, last{};
  };

  // On the first port that is free. While all are taken, tries again.
  void open() {
    for (;;) {
      for (int i = 0; i < meeting_ports && place_.port + i <= 65'535; ++i) {
        Descriptor socket = listen_for(place_.host, options_.bind_address, place_.port + i);
        if (socket.is_open()) return void(listener_.emplace(std::move(socket)));
        if (errno != EADDRINUSE)
          throw ConfigurationError(concat({"rank 0 cannot listen on port ", place_.port + i,
                                           ", where the other workers look for it (",
                                           meeting_.address, "): ", system_error_text(errno)}));
      }
      if (Clock::now() >= deadline_)
        throw ConfigurationError(
            concat({"rank 0 cannot listen on port ", place_.port, " nor on the ", meeting_ports - 1,
                    " that follow, where the other workers look for it (", meeting_.address,
                    "): other programs have them"}));
      ::poll(nullptr, 0, 200);
    }
  }

  [[nodiscard]] bool all_are_there() const {
    return std::ranges::none_of(addresses_,
                                [](const std::string& address) { return address.empty(); });
  }

  void poll_once(Clock::time_point until) {
    std::vector<pollfd> watched{{listener_->descriptor(), POLLIN, 0}};
    for (const Guest& guest : guests_)
      watched.push_back({guest.connection.descriptor(), guest.connection.events(), 0});
    if (::poll(watched.data(), watched.size(), std::min(1000, time_until(until))) > 0) {
      std::size_t i = 1;
      for (Guest& guest : guests_)
        if (watched[i++].revents != 0) serve(guest);
      if (watched.front().revents != 0) accept();
    }
    for (const Guest& guest : guests_) {
      const bool too_slow = guest.rank < 0 && Clock::now() - guest.since > std::chrono::seconds(10);
      if (guest.rank > 0 && !guest.connection.is_open())
        addresses_[static_cast<std::size_t>(guest.rank)].clear();
      if (too_slow && guest.seal && !guest.leaves)
        log_guest(guest, "did not finish its introduction");
    }
    guests_.remove_if([](const Guest& guest) {
      const bool is_done = guest.leaves && !guest.connection.has_more_to_send();
      const bool too_slow = guest.rank < 0 && Clock::now() - guest.since > std::chrono::seconds(10);
      return !guest.connection.is_open() || is_done || too_slow;
    });
  }

  void accept() {
    for (;;) {
      SocketName peer{};
      Descriptor socket = listener_->accept(peer);
      if (!socket.is_open()) return;
      const std::string ip = ip_text(peer);
      const bool here = is_loopback(ip) || ip == ip_text(own_name(socket.get()));
      const auto strangers =
          std::ranges::count_if(guests_, [](const Guest& guest) { return guest.rank < 0; });
      if (static_cast<std::size_t>(strangers) >= most_strangers)
        guests_.erase(
            std::ranges::find_if(guests_, [](const Guest& guest) { return guest.rank < 0; }));
      auto tls = tls_ == nullptr ? nullptr : TlsSession::answer(tls_, socket.get());
      guests_.push_back(Guest{.connection = MeetingConnection(std::move(socket), std::move(tls)),
                              .ip = ip,
                              .is_on_this_machine = here});
      guests_.back().mine = MeetingHello::make(secret_);
    }
  }

  void serve(Guest& guest) {
    guest.connection.flush();
    guest.connection.receive(longest_message);
    if (!guest.connection.problem().empty()) return log_guest(guest, guest.connection.problem());
    while (const auto message = guest.connection.take()) {
      if (guest.rank > 0 || guest.leaves)
        return guest.connection.close();  // it has nothing left to say
      if (!guest.seal)
        take_hello(guest, *message);
      else
        take_claim(guest, *message);
      if (!guest.connection.is_open()) return;
    }
    if (!guest.connection.is_open() && guest.seal && guest.rank < 0 && secret_.is_set())
      log_guest(guest, "goes at rank 0's proof: has it another secret (LOCKSTEP_CLUSTER_SECRET)?");
  }

  void take_hello(Guest& guest, const std::string& message) {
    const auto theirs = MeetingHello::read(message);
    if (!theirs) return guest.connection.close();  // it speaks something else
    guest.connection.send(guest.mine.text());
    if (theirs->has_secret != secret_.is_set()) {
      log_guest(guest, concat({"has ", theirs->has_secret ? "a" : "no",
                               " cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has ",
                               theirs->has_secret ? "none" : "one", ": give all the same"}));
      guest.leaves = true;
      return;
    }
    guest.seal.emplace(secret_, *theirs, guest.mine);
    guest.connection.send(guest.seal->sealed(proves, "rank 0\n"));
  }

  void take_claim(Guest& guest, const std::string& message) {
    using Kind = MeetingAnswer::Kind;
    const auto content = guest.seal->opened(claims, message);
    if (!content) {
      log_guest(guest, "cannot prove that it knows the cluster secret (LOCKSTEP_CLUSTER_SECRET)");
      return guest.connection.close();
    }
    const auto claim = MeetingClaim::read(*content);
    if (!claim) return guest.connection.close();
    if (claim->job != printable(meeting_.job, 500))
      return answer(guest, Kind::other_job, "meets for another job");
    if (claim->size != meeting_.size)
      return refuse(guest, concat({"expects ", claim->size, " workers, and rank 0 expects ",
                                   meeting_.size, ": start all with the same number"}));
    if (claim->rank < 1 || claim->rank >= meeting_.size)
      return refuse(guest, concat({"claims to be rank ", claim->rank, " of ", meeting_.size,
                                   ", as rank 0 is here"}));
    if (const std::string denial = guest.connection.denies(claim->rank); !denial.empty())
      return refuse(guest, denial);
    std::string& address = addresses_[static_cast<std::size_t>(claim->rank)];
    if (!address.empty()) {
      // Its machine may have died without a word, and this be the process that takes its place:
      // until the connection has told, the newcomer calls again.
      Contest& contest = contests_[static_cast<std::size_t>(claim->rank)];
      const auto now = Clock::now();
      if (now - contest.last > std::chrono::seconds(3)) contest.first = now;
      contest.last = now;
      if (now - contest.first < MeetingConnection::silence + std::chrono::seconds(2))
        return guest.connection.close();
      return refuse(
          guest, concat({"claims to be rank ", claim->rank, ", and so does the worker at ", address,
                         ": each needs a rank of its own"}));
    }
    const bool has_host =
        !claim->host.empty() && claim->host.find_first_of(" []/") == std::string::npos;
    const std::string& host = has_host                   ? claim->host
                              : guest.is_on_this_machine ? place_.host
                                                         : guest.ip;
    address = to_string(Address{host, static_cast<std::uint16_t>(claim->port)});
    guest.rank = claim->rank;
  }

  void answer(Guest& guest, MeetingAnswer::Kind kind, const std::string& why) {
    guest.connection.send(guest.seal->sealed(answers, MeetingAnswer{kind, {why}}.text()));
    guest.leaves = true;
  }
  void refuse(Guest& guest, const std::string& why) {
    log_guest(guest, why);
    answer(guest, MeetingAnswer::Kind::refused, why);
  }

  void log_guest(const Guest& guest, std::string_view what) {
    log_.turned_away("start-up: ", guest.ip, what);
  }

  void report() {
    log_line(concat({"start-up: worker 0 waits at ", meeting_.address, " (port ", listener_->port(),
                     ") for ", missing_ranks(addresses_), " of ", meeting_.size}));
  }

  [[noreturn]] void fail() const {
    const auto first = std::ranges::find_if(
        addresses_, [](const std::string& address) { return address.empty(); });
    throw CollectiveError(
        {.failed_rank = static_cast<int>(first - addresses_.begin()),
         .operation = "start-up",
         .seconds = std::chrono::duration<double>(Clock::now() - begin_).count(),
         .reason = concat(
             {"did not come to ", meeting_.address, ", where worker 0 waits for all within ",
              duration_text(options_.startup_timeout), "; missing: ", missing_ranks(addresses_),
              ". Are all started, and may they connect to this host's ports ", place_.port, " to ",
              std::min(65'535, place_.port + meeting_ports - 1), "?"})});
  }

  const Meeting& meeting_;
  const CommunicationOptions& options_;
  const ClusterSecret& secret_;
  const std::shared_ptr<const TlsContext> tls_;
  const Address place_;
  const Clock::time_point begin_ = Clock::now();
  const Clock::time_point deadline_ = begin_ + options_.startup_timeout;
  RareLog log_;
  std::optional<ListeningSocket> listener_;
  std::list<Guest> guests_;
  std::vector<std::string> addresses_;  // by rank; empty: not there
  std::vector<Contest> contests_;       // by rank
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
