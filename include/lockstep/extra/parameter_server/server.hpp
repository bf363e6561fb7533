// ParameterServer: lets workers in, and serves them until all have gone.
#pragma once

#include <poll.h>
#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "lockstep/collectives/error.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/extra/parameter_server/backup.hpp"
#include "lockstep/extra/parameter_server/connection.hpp"
#include "lockstep/extra/parameter_server/detail/fits.hpp"
#include "lockstep/extra/parameter_server/detail/members.hpp"
#include "lockstep/extra/parameter_server/options.hpp"
#include "lockstep/extra/parameter_server/shard_keeper.hpp"
#include "lockstep/net/listener.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Serves all fits of the workers of a cluster: a thread for each connection. A worker whose
/// connection ends is forgotten: no other waits for it. A process that claims its rank takes its
/// place, and goes on where it was.
class ParameterServer {
 public:
  /// `listener` is the socket on which the server listens already.
  ParameterServer(ShardKeeper& keeper, PsPlace place, const ParameterServerOptions& options,
                  const PsTrust& trust, ListeningSocket& listener)
      : keeper_(keeper),
        place_(std::move(place)),
        options_(options),
        trust_(trust),
        listener_(listener),
        members_(place_, options),
        fits_(keeper, members_, place_, options),
        backup_(options.backup_dir, place_.index, place_.servers) {}
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;
  ~ParameterServer() { stop(); }

  /// Returns when all workers have said goodbye; or the chief has, and no other one has been
  /// connected for `timeout`. Throws CollectiveError when no worker has been connected for
  /// `startup_timeout`, ConfigurationError when all have gone because the chief cannot begin the
  /// fit, Preempted when the process was told to stop, after a last backup, and what
  /// the keeper throws.
  void serve() {
    fits_.restore(backup_);
    last_connected_ = members_.fit_began = members_.last_progress = Clock::now();
    while (!is_over()) {
      if (const ExitCode told = keeper_.told_to_stop(); told != ExitCode::success)
        leave_early(told);
      pollfd ready{listener_.descriptor(), POLLIN, 0};
      if (::poll(&ready, 1, 50) > 0) accept();
      tend();
    }
    stop();
    if (failure_) std::rethrow_exception(failure_);
    const PsMember& chief = members_.list.front();
    if (chief.has_left && chief.leaves_nothing && (chief.has_finished || fits_.begins_anew()))
      backup_.remove();
  }

 private:
  using Clock = PsMembers::Clock;
  using Lock = PsMembers::Lock;

  struct Conversation {
    std::thread thread{};
    std::string host{};
    PsConnection* connection = nullptr;
    bool is_stranger = true;  ///< has made no claim yet, and not been dropped
    bool has_ended = false;
  };
  void accept() {
    SocketName caller{};
    Descriptor socket = listener_.accept(caller);
    if (!socket.is_open()) return;
    make_room();
    Conversation& conversation = conversations_.emplace_back();
    try {
      const auto kept = std::make_shared<Descriptor>(std::move(socket));
      conversation.host = ip_text(caller);
      conversation.thread =
          start_thread("a worker of a parameter server",
                       [this, &conversation, kept] { converse(std::move(*kept), conversation); });
    } catch (const Error& error) {
      conversations_.pop_back();
      place_.say(error.what());  // the worker calls again
    }
  }
  // The oldest stranger goes, so that none can keep workers out.
  void make_room() {
    constexpr std::ptrdiff_t most_strangers = 256;
    const Lock lock(members_.mutex);
    const auto is_stranger = [](const Conversation& each) {
      return each.is_stranger && !each.has_ended && each.connection != nullptr;
    };
    if (std::ranges::count_if(conversations_, is_stranger) < most_strangers) return;
    Conversation& oldest = *std::ranges::find_if(conversations_, is_stranger);
    oldest.is_stranger = false;
    oldest.connection->shut_down();
  }
  void converse(Descriptor socket, Conversation& conversation) {
    PsConnection connection(std::move(socket), options_.timeout);
    {
      const Lock lock(members_.mutex);
      conversation.connection = &connection;
      if (members_.is_stopping) connection.shut_down();
    }
    std::exception_ptr failure;
    try {
      converse(connection, conversation);
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
  void converse(PsConnection& connection, Conversation& conversation) {
    connection.limit_stranger();
    PsMember* member = nullptr;
    int rank = -1;
    try {
      const PsClaim claim = admit(connection, trust_);
      rank = claim.rank;
      {
        const Lock lock(members_.mutex);
        conversation.is_stranger = false;
      }
      connection.trust();
      member = &take_place(connection, claim);
      connection.send(PsMessage::reply, "");
      answer(connection, *member);
      leave(*member, std::nullopt);
    } catch (const PeerUntrusted& untrusted) {
      name_stranger(conversation.host, untrusted.what());
    } catch (const WorkerRefused& refused) {
      place_.say(is_turned_away(rank, refused.what()), LogLevel::warning);
      if (member != nullptr) leave(*member, std::nullopt);
    } catch (const PeerSilent& silent) {
      if (member == nullptr) return;
      members_.accuse(*member, silent.what());
      leave(*member, silent.what());
    } catch (const ConnectionLost& lost) {
      if (member != nullptr) leave(*member, lost.what());
    } catch (const ConfigurationError&) {  // a refusal, of one that should ask
      if (member != nullptr) leave(*member, breaks_protocol("it sent a refusal"));
    } catch (...) {
      if (member != nullptr) leave(*member, "the server fails");
      throw;
    }
  }
  [[nodiscard]] PsMember& take_place(PsConnection& connection, const PsClaim& claim) {
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
  void answer(PsConnection& connection, PsMember& member) {
    for (;;) {
      const PsConnection::Head head = connection.receive_head();
      if (head.kind == PsMessage::alive) {
        PsConnection::expect(head, 0);
      } else if (head.kind == PsMessage::goodbye) {
        PsConnection::expect(head, 0);
        const Lock lock(members_.mutex);
        member.has_left = true;
        member.leaves_nothing = head.number != 0;
        return;
      } else if (head.kind == PsMessage::ended) {
        PsConnection::expect(head, 0);
        end(connection, member);
      } else if (!fits_.answer(connection, member, head)) {
        throw ConnectionLost(breaks_protocol("it asks for what a server does not know"));
      }
    }
  }
  void end(PsConnection& connection, PsMember& member) {
    bool is_known = false;
    {
      Lock lock(members_.mutex);
      if (members_.rank_of(member) != 0)
        throw ConnectionLost(breaks_protocol("it ends what is the chief's"));
      member.is_training = member.pulls = false;
      members_.wait(lock, connection, member, [&] {
        return std::ranges::none_of(members_.list,
                                    [](const PsMember& m) { return m.is_training || m.pulls; });
      });
      if (ending_ != Ending::known)
        ending_ = place_.index != 0 || member.has_finished ? Ending::asked : Ending::failed;
      members_.wait(lock, connection, member, [&] { return ending_ != Ending::asked; });
      is_known = ending_ == Ending::known;
    }
    connection.send(PsMessage::reply, {}, is_known ? 1 : 0);
  }
  /// `why`: the reason if the worker is lost; nothing if it has ended in order.
  void leave(PsMember& member, std::optional<std::string_view> why) {
    const Lock lock(members_.mutex);
    member.connection = nullptr;
    if (why && !member.has_left && !members_.is_stopping)
      place_.say(is_lost(members_.rank_of(member), *why), LogLevel::warning);
    member.is_training = member.is_waiting = member.has_sent = member.pulls = false;
    fits_.end_round_if_complete();
    members_.changed.notify_all();
  }
  void name_stranger(std::string_view host, std::string_view why) {
    const Lock lock(members_.mutex);
    strangers_.turned_away(place_.name(), host, printable(why, 2000));
  }
  // What is due from time to time.
  void tend() {
    bool backs_up = false;
    {
      const Lock lock(members_.mutex);
      fits_.end_round_if_complete();
      members_.forget_laggards();
      backs_up = fits_.copy_for(backup_);
    }
    if (backs_up) backup_.write();
    end_backup();
    for (auto each = conversations_.begin(); each != conversations_.end();) {
      const bool has_ended = [&] {
        const Lock lock(members_.mutex);
        return each->has_ended;
      }();
      if (has_ended) each->thread.join();
      each = has_ended ? conversations_.erase(each) : std::next(each);
    }
  }
  // Server 0 says first that all is over, and removes its file last: those of the others, which go
  // in between, are of no use to the next job, should one be left behind.
  void end_backup() {
    {
      const Lock lock(members_.mutex);
      if (ending_ != Ending::asked) return;
      if (place_.index == 0) {
        fits_.end();
        (void)fits_.copy_for(backup_);
      }
    }
    bool is_known = true;
    if (place_.index != 0)
      backup_.remove();
    else if (backup_.is_on())
      is_known = backup_.write();
    const Lock lock(members_.mutex);
    ending_ = is_known ? Ending::known : Ending::failed;
    members_.changed.notify_all();
  }
  [[nodiscard]] bool is_over() {
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
    // (A program that goes on nevertheless calls again at once. Workers call server 0 first.)
    const auto has_come = [](const PsMember& member) { return member.process != 0; };
    if (!fits_.failure().empty() && alone > std::chrono::seconds(2) &&
        (place_.index != 0 || std::ranges::all_of(members_.list, has_come)))
      throw ConfigurationError(place_.name() + fits_.failure());
    if (alone > options_.startup_timeout)
      throw CollectiveError({.operation = "serving parameters",
                             .seconds = std::chrono::duration<double>(alone).count(),
                             .reason = place_.name() + no_worker_came(options_.startup_timeout)});
    return false;
  }
  // Workers wait for a successor, as for that of a server that has died, and none of their updates
  // is lost.
  [[noreturn]] void leave_early(ExitCode code) {
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
  void stop() noexcept {
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

  ShardKeeper& keeper_;
  const PsPlace place_;
  const ParameterServerOptions& options_;
  const PsTrust& trust_;
  ListeningSocket& listener_;
  PsMembers members_;
  PsFits fits_;
  PsBackup backup_;
  /// What the chief has been told of the end of the training; under the members' mutex.
  enum class Ending { none, asked, known, failed } ending_ = Ending::none;
  std::exception_ptr failure_;
  Clock::time_point last_connected_ = Clock::now();
  RareLog strangers_;  // under the members' mutex
  std::list<Conversation> conversations_;
};

}}}  // namespace lockstep::detail
