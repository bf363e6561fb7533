#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/collectives/meeting/conversation.hpp"
#include "lockstep/collectives/meeting/meeting.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/listener.hpp"
#include "lockstep/net/rare_log.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

// In a Conversation of this kind, fields of text, each with a new line behind it:
//
//     guest                                  server (rank 0)
//     claim(rank, size, job, host, port) ->
//                                        <-  welcome(addresses), when all are there,
//                                            or refusal(kind, why)
inline constexpr std::string_view meeting_kind = "meeting";
inline constexpr std::size_t longest_list = std::size_t{1} << 23;  // bytes of all addresses

struct MeetingClaim {
  int rank = 0;
  int size = 0;
  std::string job{};
  std::string host{};  ///< empty: that from which the call comes
  int port = 0;

  [[nodiscard]] std::string text() const {
    return concat({rank, "\n", size, "\n", printable(job, 500), "\n", host, "\n", port, "\n"});
  }
  [[nodiscard]] static std::optional<MeetingClaim> read(std::string_view message) {
    const auto fields = fields_of(message);
    MeetingClaim claim;
    if (fields.size() != 5 || !read_number(fields[0], claim.rank) || claim.rank < 0 ||
        !read_number(fields[1], claim.size) || !read_number(fields[4], claim.port) ||
        claim.port < 1 || claim.port > 65'535 ||
        !(fields[3].empty() || is_address(to_string(Address{fields[3], 1}))))
      return std::nullopt;
    claim.job = fields[2];
    claim.host = fields[3];
    return claim;
  }
};

/// What the server says in the end.
struct MeetingAnswer {
  enum class Kind { welcome, other_job, refused };

  Kind kind = Kind::welcome;
  std::vector<std::string> lines{};  ///< the addresses, or why not

  static constexpr std::array<std::string_view, 3> names{"welcome", "other job", "refused"};

  [[nodiscard]] std::string text() const {
    std::string text = concat({names[static_cast<std::size_t>(kind)], "\n"});
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }
  [[nodiscard]] static std::optional<MeetingAnswer> read(std::string_view message) {
    const auto fields = fields_of(message);
    const auto name = fields.size() < 2 ? names.end() : std::ranges::find(names, fields[0]);
    if (name == names.end()) return std::nullopt;
    return MeetingAnswer{static_cast<Kind>(name - names.begin()),
                         {fields.begin() + 1, fields.end()}};
  }
};

/// The host at which others call this process, where it listens on one interface; else empty.
[[nodiscard]] inline std::string bound_host(const CommunicationOptions& options) {
  const std::string& host = options.bind_address;
  return host == "0.0.0.0" || host == "::" ? std::string() : host;
}

/// "worker 1, 3": those without an address, 20 of them at most.
[[nodiscard]] inline std::string missing_ranks(const std::vector<std::string>& addresses) {
  std::string text;
  int shown = 0;
  for (std::size_t rank = 0; rank < addresses.size(); ++rank)
    if (addresses[rank].empty() && shown++ < 20)
      text += concat({text.empty() ? "worker " : ", ", rank});
  return shown <= 20 ? text : concat({text, " and ", shown - 20, " more"});
}

/// What a rank of a meeting goes by.
struct MeetingTask {
  using Clock = std::chrono::steady_clock;

  const Meeting& meeting;
  const CommunicationOptions& options;
  const ClusterSecret& secret;
  const std::shared_ptr<const TlsContext> tls;  ///< null without TLS
  const int port;                               ///< on which this rank listens to its peers
  const Address place = parse_address(meeting.address);
  const Clock::time_point begin = Clock::now(), deadline = begin + options.startup_timeout;

  [[nodiscard]] bool is_late() const { return Clock::now() >= deadline; }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
};

/// Calls rank 0 until it answers, and asks for the list of addresses.
class MeetingGuest : MeetingTask {
 public:
  explicit MeetingGuest(const MeetingTask& task) : MeetingTask(task) {}

  [[nodiscard]] std::vector<std::string> ask() {
    for (;;) {
      std::vector<SocketName> names = resolve(place.host, place.port, why_);
      for (int i = 0; i < meeting_ports && place.port + i <= 65'535; ++i)
        for (SocketName& name : names) {
          set_port(name, place.port + i);
          if (auto addresses = ask_at(name)) return std::move(*addresses);
          if (is_late()) fail();
        }
      if (is_late()) fail();
      report();
      ::poll(nullptr, 0, 200);
    }
  }

 private:
  using Addresses = std::vector<std::string>;

  [[nodiscard]] std::optional<Addresses> ask_at(const SocketName& name) {
    Descriptor socket = call_socket(name, in_seconds(2), why_of_call_);
    if (!socket.is_open()) return none(why_of_call_);
    auto session = TlsSession::call(tls, socket.get(), 0);
    return converse({std::move(socket), std::move(session), secret, Conversation::Side::caller,
                     meeting_kind, longest_list});
  }

  [[nodiscard]] std::optional<Addresses> converse(Conversation talk) {
    std::vector<std::string> heard;
    const auto hears = [&] { return !(heard = talk.hear()).empty(); };
    wait(talk, in_seconds(2), [&] { return hears() || talk.has_met(); });
    if (talk.lacks_secret())  // which may be that of another job
      return none(secret_missing);
    if (!talk.problem().empty()) return none(talk.problem());
    if (!talk.has_met()) return none(another_has_port(tls != nullptr));
    const MeetingClaim claim{meeting.rank, meeting.size, meeting.job, bound_host(options), port};
    talk.say(claim.text());
    wait(talk, deadline, hears);
    if (heard.empty() && !talk.problem().empty()) return none(talk.problem());
    if (heard.empty()) return none(ended_too_early);
    const auto answer = MeetingAnswer::read(heard.front());
    if (!answer) return none(answers_nonsense);
    switch (answer->kind) {
      case MeetingAnswer::Kind::other_job:
        return none(another_job_meets);
      case MeetingAnswer::Kind::refused:
        throw ConfigurationError(
            turns_this_away(meeting.address, printable(answer->lines.front(), 300)));
      case MeetingAnswer::Kind::welcome:
        break;
    }
    if (answer->lines.size() != static_cast<std::size_t>(meeting.size) ||
        !std::ranges::all_of(answer->lines, is_address))
      return none(answers_nonsense);
    return answer->lines;
  }

  // Until it is over, the other side has ended the conversation, or the time has come.
  template <class Condition>
  static void wait(Conversation& talk, Clock::time_point until, Condition is_over) {
    while (!is_over() && talk.is_open()) {
      pollfd ready{talk.descriptor(), talk.events(), 0};
      if (!poll_until(ready, until)) return;
    }
  }

  [[nodiscard]] Clock::time_point in_seconds(int seconds) const {
    return std::min(deadline, Clock::now() + std::chrono::seconds(seconds));
  }

  // "Connection refused" by a later port says less than what an earlier one has answered.
  // An attempt that the deadline has cut short says nothing.
  std::nullopt_t none(std::string_view why) {
    if (is_late() && !(why_.empty() && last_why_.empty())) return std::nullopt;
    if (why_.empty() || why != std::strerror(ECONNREFUSED)) why_ = why;
    return std::nullopt;
  }

  void report() {
    if (reports_.is_due())
      log_line(concat(
          {"start-up: ", waits_for_it(meeting.rank, "worker 0 at " + meeting.address, why_)}));
    last_why_ = std::exchange(why_, {});
  }

  [[noreturn]] void fail() const {
    const std::string& why = why_.empty() ? last_why_ : why_;
    throw CollectiveError({.failed_rank = 0,
                           .address = meeting.address,
                           .operation = "start-up",
                           .seconds = seconds(),
                           .reason = did_not_tell(meeting.rank, why)});
  }

  RareLog reports_;
  std::string why_;          // why rank 0 could not be asked
  std::string last_why_;     // the same, in the round before
  std::string why_of_call_;  // why the last call failed
};

/// Rank 0, which serves a meeting: waits for the other ranks, and tells them the list of addresses.
class MeetingServer : MeetingTask {
 public:
  explicit MeetingServer(const MeetingTask& task)
      : MeetingTask(task),
        addresses_(static_cast<std::size_t>(meeting.size)),
        contests_(addresses_.size()) {
    addresses_.front() = to_string(Address{place.host, static_cast<std::uint16_t>(port)});
  }

  [[nodiscard]] std::vector<std::string> wait() {
    open();
    while (!all_are_there()) {
      if (is_late()) fail();
      poll_once(std::min(deadline, log_.due()));
      if (!all_are_there() && log_.is_due()) report();
    }
    // A guest that has gone with its list loses its place; the list stays as it was sent.
    std::vector<std::string> all = addresses_;
    const std::string list = MeetingAnswer{MeetingAnswer::Kind::welcome, all}.text();
    for (Guest& guest : guests_->all())
      if (guest.place > 0) guest.talk.say(list);
    const auto end = std::min(deadline, Clock::now() + std::chrono::seconds(10));
    while (Clock::now() < end && std::ranges::any_of(guests_->all(), [](const Guest& guest) {
             return guest.talk.is_open() && guest.talk.has_more_to_send();
           }))
      poll_once(end);
    return all;
  }

 private:
  static constexpr int most_at_once = 16;  // that are accepted before others are served
  static constexpr std::size_t longest_message = 2048;

  using Guest = Guests<Conversation>::Guest;

  // Processes that claim a place that is taken: when they began to call, and have called last.
  struct Contest {
    Clock::time_point first{}, last{};
  };

  // On the first port that is free. While all are taken, tries again.
  void open() {
    for (;;) {
      for (int i = 0; i < meeting_ports && place.port + i <= 65'535; ++i) {
        Descriptor socket = listen_for(place.host, options.bind_address, place.port + i);
        if (socket.is_open())
          return void(guests_.emplace(ListeningSocket(std::move(socket)), meeting.size));
        if (errno != EADDRINUSE)
          throw ConfigurationError(concat({"rank 0 cannot listen on port ", place.port + i,
                                           ", where the other workers look for it (",
                                           meeting.address, "): ", system_error_text(errno)}));
      }
      if (is_late())
        throw ConfigurationError(
            concat({"rank 0 cannot listen on port ", place.port, " nor on the ", meeting_ports - 1,
                    " that follow, where the other workers look for it (", meeting.address,
                    "): other programs have them"}));
      ::poll(nullptr, 0, 200);
    }
  }

  [[nodiscard]] bool all_are_there() const {
    return std::ranges::none_of(addresses_,
                                [](const std::string& address) { return address.empty(); });
  }

  void poll_once(Clock::time_point until) {
    std::vector<pollfd> watched;
    guests_->watch(watched);
    if (::poll(watched.data(), watched.size(), std::min(1000, time_until(until))) > 0) {
      std::size_t i = 1;
      for (Guest& guest : guests_->all())
        if (watched[i++].revents != 0) serve(guest);
      if (watched.front().revents != 0)
        guests_->accept(tls, secret, most_at_once, meeting_kind, longest_message);
    }
    guests_->all().remove_if([this](const Guest& guest) {
      const bool is_done = guest.leaves && !guest.talk.has_more_to_send();
      const bool too_slow =
          guest.place < 0 && Clock::now() - guest.since > std::chrono::seconds(10);
      if (guest.place > 0 && !guest.talk.is_open())
        addresses_[static_cast<std::size_t>(guest.place)].clear();
      if (too_slow && guest.talk.has_met() && !guest.leaves) log_guest(guest, did_not_say_who);
      return !guest.talk.is_open() || is_done || too_slow;
    });
  }

  void serve(Guest& guest) {
    for (const std::string& message : guest.talk.hear()) {
      if (guest.place > 0 || guest.leaves) return guest.talk.close();  // it has nothing left to say
      take_claim(guest, message);
      if (!guest.talk.is_open()) return;
    }
    if (!guest.talk.problem().empty()) log_guest(guest, guest.talk.problem());
  }

  void take_claim(Guest& guest, const std::string& message) {
    using Kind = MeetingAnswer::Kind;
    const auto claim = MeetingClaim::read(message);
    if (!claim) return guest.talk.close();
    if (claim->job != printable(meeting.job, 500))
      return answer(guest, Kind::other_job, another_job_meets);
    if (claim->size != meeting.size)
      return refuse(guest, expects_other_size(claim->size, meeting.size));
    if (claim->rank < 1 || claim->rank >= meeting.size)
      return refuse(guest, has_no_such_rank(claim->rank, meeting.size));
    if (const std::string denial = guest.talk.denies(claim->rank); !denial.empty())
      return refuse(guest, denial);
    std::string& address = addresses_[static_cast<std::size_t>(claim->rank)];
    if (!address.empty()) {
      // Its machine may have died without a word, and this be the process that takes its place:
      // until the connection has told, the newcomer calls again.
      Contest& contest = contests_[static_cast<std::size_t>(claim->rank)];
      const auto now = Clock::now();
      if (now - contest.last > std::chrono::seconds(3)) contest.first = now;
      contest.last = now;
      if (now - contest.first < Conversation::silence + std::chrono::seconds(2))
        return guest.talk.close();
      return refuse(guest, has_rank_of_other(claim->rank, address));
    }
    const std::string& host = !claim->host.empty()       ? claim->host
                              : guest.is_on_this_machine ? place.host
                                                         : guest.ip;
    address = to_string(Address{host, static_cast<std::uint16_t>(claim->port)});
    guest.place = claim->rank;
  }

  void answer(Guest& guest, MeetingAnswer::Kind kind, const std::string& why) {
    guest.talk.say(MeetingAnswer{kind, {why}}.text());
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
    log_line(concat({"start-up: ", waits_at(meeting.address, guests_->port(),
                                            missing_ranks(addresses_), meeting.size)}));
  }

  [[noreturn]] void fail() const {
    const auto first = std::ranges::find_if(
        addresses_, [](const std::string& address) { return address.empty(); });
    throw CollectiveError(
        {.failed_rank = static_cast<int>(first - addresses_.begin()),
         .operation = "start-up",
         .seconds = seconds(),
         .reason = did_not_come(meeting.address, duration_text(options.startup_timeout),
                                missing_ranks(addresses_), place.port,
                                std::min(65'535, place.port + meeting_ports - 1))});
  }

  RareLog log_;
  std::optional<Guests<Conversation>> guests_;
  std::vector<std::string> addresses_;  // by rank; empty: not there
  std::vector<Contest> contests_;       // by rank
};

/// The port on which this rank listens to its peers, opened where there is none yet.
LOCKSTEP_INLINE int open_own_port(const std::string& place_host,
                                  const CommunicationOptions& options, KeptPort& port) {
  const Descriptor kept(port.copy());
  return kept.is_open() ? port_of(own_name(kept.get()))
                        : open_free_port(place_host, options.bind_address, port);
}

LOCKSTEP_INLINE std::vector<std::string> exchange_in_store(const Meeting& meeting,
                                                           const CommunicationOptions& options,
                                                           int port) {
  std::string host = bound_host(options);
  if (host.empty()) {
    char name[256] = "";
    ::gethostname(name, sizeof name - 1);
    host = name;
  }
  const std::string mine = to_string(Address{host, static_cast<std::uint16_t>(port)});
  auto all = meeting.exchange(mine);
  if (all.size() != static_cast<std::size_t>(meeting.size) || !std::ranges::all_of(all, is_address))
    throw ConfigurationError(
        concat({"Meeting::exchange must return \"host:port\" of each of the ", meeting.size,
                " ranks, and worker ", meeting.rank, " got ", all.size(), " texts"}));
  if (const std::string& given = all[static_cast<std::size_t>(meeting.rank)]; given != mine)
    throw ConfigurationError(concat(
        {"Meeting::exchange must return what each rank has given it, in the order of ranks: ",
         "worker ", meeting.rank, " gave ", mine, " and got '", printable(given, 100),
         "' in its place: does the store hold another run's addresses?"}));
  return all;
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<std::string> meet(const Meeting& meeting,
                                              const CommunicationOptions& options,
                                              const std::shared_ptr<KeptPort>& port,
                                              const std::string& secret) {
  options.validate();
  const auto known = detail::ClusterSecret::given_or_from_environment(secret);
  const auto tls = detail::TlsContext::make(detail::TlsSettings::chosen(options, meeting.rank),
                                            known, meeting.rank);
  const std::string host = meeting.exchange ? "" : parse_address(meeting.address).host;
  const int own = detail::open_own_port(host, options, *port);
  std::vector<std::string> addresses =
      meeting.exchange    ? detail::exchange_in_store(meeting, options, own)
      : meeting.rank == 0 ? detail::MeetingServer({meeting, options, known, tls, own}).wait()
                          : detail::MeetingGuest({meeting, options, known, tls, own}).ask();
  detail::note_address(addresses[static_cast<std::size_t>(meeting.rank)]);
  return addresses;
}

}}  // namespace lockstep
