#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/collectives/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/parameter_server/server.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE ParameterServer::ParameterServer(ShardKeeper& keeper, PsPlace place,
                                                 const ParameterServerOptions& options,
                                                 const PsTrust& trust,
                                                 const MeetingSocket& listener)
    : keeper_(keeper),
      place_(std::move(place)),
      options_(options),
      trust_(trust),
      listener_(listener),
      members_(place_, options),
      fits_(keeper, members_, place_, options),
      backup_(options.backup_dir, place_.index) {}

LOCKSTEP_INLINE ParameterServer::~ParameterServer() { stop(); }

LOCKSTEP_INLINE void ParameterServer::serve() {
  fits_.restore(backup_);
  last_connected_ = members_.fit_began = members_.last_progress = Clock::now();
  while (!is_over()) {
    if (const ExitCode told = keeper_.told_to_stop(); told != ExitCode::success) leave_early(told);
    pollfd ready{listener_.get(), POLLIN, 0};
    if (::poll(&ready, 1, 50) > 0) accept();
    tend();
  }
  stop();
  if (failure_) std::rethrow_exception(failure_);
  const PsMember& chief = members_.list.front();
  if (chief.has_left && chief.has_finished) backup_.remove();
}

// Workers wait for a successor, as for that of a server that has died, and none of their updates is
// lost.
LOCKSTEP_INLINE void ParameterServer::leave_early(ExitCode code) {
  stop();
  bool backs_up = false;
  {
    const Lock lock(members_.mutex);
    backs_up = fits_.copy_for(backup_, true);
  }
  if (backs_up) backup_.write();
  throw Preempted(concat({"parameter server ", place_.index, " was told to stop",
                          backup_.is_on() ? "; started again, it goes on from its backup" : ""}),
                  code);
}

// What is due from time to time.
LOCKSTEP_INLINE void ParameterServer::tend() {
  bool backs_up = false;
  {
    const Lock lock(members_.mutex);
    fits_.end_round_if_complete();
    members_.forget_laggards();
    backs_up = fits_.copy_for(backup_);
  }
  if (backs_up) backup_.write();
  for (auto each = conversations_.begin(); each != conversations_.end();) {
    const bool has_ended = [&] {
      const Lock lock(members_.mutex);
      return each->has_ended;
    }();
    if (has_ended) each->thread.join();
    each = has_ended ? conversations_.erase(each) : std::next(each);
  }
}

LOCKSTEP_INLINE bool ParameterServer::is_over() {
  const Lock lock(members_.mutex);
  if (members_.is_stopping) return true;
  const auto now = Clock::now();
  const auto is_connected = [](const PsMember& member) { return member.connection != nullptr; };
  if (std::ranges::any_of(members_.list, is_connected)) {
    last_connected_ = now;
    return false;
  }
  if (std::ranges::all_of(members_.list, [](const PsMember& member) { return member.has_left; }))
    return true;
  const auto alone = now - last_connected_;
  const PsMember& chief = members_.list.front();
  const bool is_told = keeper_.told_to_stop() != ExitCode::success;
  if (chief.has_left && (alone > options_.timeout || (is_told && chief.has_finished))) {
    place_.say("the chief has finished, and no other worker is there: it ends");
    return true;
  }
  if (alone > options_.startup_timeout)
    throw CollectiveError(
        {.operation = "serving parameters",
         .seconds = std::chrono::duration<double>(alone).count(),
         .reason = concat({"parameter server ", place_.index, " (", place_.address,
                           ") waits for workers, and none has been connected for ",
                           duration_text(options_.startup_timeout),
                           "; are they started, with this server in their TF_CONFIG?"})});
  return false;
}

LOCKSTEP_INLINE void ParameterServer::stop() noexcept {
  {
    const Lock lock(members_.mutex);
    members_.is_stopping = true;
    for (const Conversation& each : conversations_)
      if (each.connection != nullptr) each.connection->shut_down();
  }
  members_.changed.notify_all();
  for (Conversation& each : conversations_)
    if (each.thread.joinable()) each.thread.join();
  conversations_.clear();
}

LOCKSTEP_INLINE void ParameterServer::accept() {
  constexpr std::size_t most_strangers = 64;
  SocketName caller{};
  socklen_t size = sizeof caller;
  MeetingSocket socket(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&caller), &size,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) {
    // Without a descriptor to spare, the caller stays at the door, and poll would return at once.
    ::poll(nullptr, 0, 50);
    return;
  }
  if (conversations_.size() >= 2 * members_.list.size() + most_strangers) return;
  Conversation& conversation = conversations_.emplace_back();
  try {
    const auto kept = std::make_shared<MeetingSocket>(std::move(socket));
    conversation.host = ip_text(caller);
    conversation.thread =
        start_thread("a worker of a parameter server",
                     [this, &conversation, kept] { converse(std::move(*kept), conversation); });
  } catch (const Error& error) {
    conversations_.pop_back();
    place_.say(error.what());  // the worker calls again
  }
}

LOCKSTEP_INLINE void ParameterServer::converse(MeetingSocket socket, Conversation& conversation) {
  PsConnection connection(std::move(socket), options_.timeout);
  {
    const Lock lock(members_.mutex);
    conversation.connection = &connection;
    if (members_.is_stopping) connection.shut_down();
  }
  std::exception_ptr failure;
  try {
    converse(connection, conversation.host);
  } catch (...) {
    failure = std::current_exception();
  }
  const Lock lock(members_.mutex);
  conversation.connection = nullptr;
  conversation.has_ended = true;
  if (!failure) return;
  if (!failure_) failure_ = failure;
  members_.is_stopping = true;
  members_.changed.notify_all();
}

LOCKSTEP_INLINE void ParameterServer::converse(PsConnection& connection, const std::string& host) {
  connection.limit(Clock::now() + std::chrono::seconds(10));
  PsMember* member = nullptr;
  int rank = -1;
  try {
    const PsClaim claim = admit(connection, trust_);
    rank = claim.rank;
    connection.limit(Clock::time_point::max());
    member = &take_place(connection, claim);
    connection.send(PsMessage::reply, "");
    answer(connection, *member);
    leave(*member, std::nullopt);
  } catch (const PeerUntrusted& untrusted) {
    name_stranger(host, untrusted.what());
  } catch (const WorkerRefused& refused) {
    place_.say(concat({"worker ", rank, " is turned away: ", refused.what(),
                       "; the server waits for those that it can serve"}),
               LogLevel::warning);
    if (member != nullptr) leave(*member, std::nullopt);
  } catch (const ConnectionLost& lost) {
    if (member != nullptr) leave(*member, lost.what());
  } catch (const ConfigurationError&) {  // a refusal, of one that should ask
    if (member != nullptr) leave(*member, "breaks the protocol");
  } catch (...) {
    if (member != nullptr) leave(*member, "the server fails");
    throw;
  }
}

// One line a second, and the same one each five: a process that is turned away calls again ten
// times in one.
LOCKSTEP_INLINE void ParameterServer::name_stranger(std::string_view host, std::string_view why) {
  const std::string text =
      concat({"a process at ", host, " ", printable(why, 2000), "; it is turned away"});
  const Lock lock(members_.mutex);
  const auto now = Clock::now();
  if (now < stranger_named_ +
                (text == last_stranger_ ? std::chrono::seconds(5) : std::chrono::seconds(1)))
    return;
  stranger_named_ = now;
  last_stranger_ = text;
  place_.say(text);
}

LOCKSTEP_INLINE PsMember& ParameterServer::take_place(PsConnection& connection,
                                                      const PsClaim& claim) {
  const auto refuse_unless = [&](std::string_view what, std::int64_t theirs, std::int64_t mine) {
    if (theirs == mine) return;
    const std::string why =
        concat({"this worker has ", what, " ", theirs, ", the server has ", mine,
                ": start all processes with the same cluster and options"});
    refuse_worker(connection, why, ExitCode::usage);
  };
  refuse_unless("a number of workers of", claim.workers, place_.workers);
  refuse_unless("a number of parameter servers of", claim.servers, place_.servers);
  refuse_unless("called parameter server", claim.server, place_.index);
  refuse_unless("max_staleness (-1: no limit)", claim.max_staleness,
                options_.max_staleness.value_or(-1));
  if (claim.rank < 0 || claim.rank >= place_.workers)
    refuse_unless("the rank", claim.rank, place_.workers - 1);
  Lock lock(members_.mutex);
  return members_.take_place(lock, connection, claim);
}

LOCKSTEP_INLINE void ParameterServer::leave(PsMember& member, std::optional<std::string_view> why) {
  const Lock lock(members_.mutex);
  member.connection = nullptr;
  if (why && !member.has_left && !members_.is_stopping)
    place_.say(concat({"worker ", members_.rank_of(member), " is lost: ", *why,
                       "; the others go on, and it may come back"}),
               LogLevel::warning);
  member.is_training = member.is_waiting = member.has_sent = member.pulls = false;
  fits_.end_round_if_complete();
  members_.changed.notify_all();
}

LOCKSTEP_INLINE void ParameterServer::answer(PsConnection& connection, PsMember& member) {
  for (;;) {
    const PsConnection::Head head = connection.receive_head();
    if (head.kind == PsMessage::alive) {
      PsConnection::expect(head, 0);
    } else if (head.kind == PsMessage::goodbye) {
      PsConnection::expect(head, 0);
      const Lock lock(members_.mutex);
      member.has_left = true;
      return;
    } else if (!fits_.answer(connection, member, head)) {
      throw ConnectionLost("asks for what a parameter server does not know");
    }
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
