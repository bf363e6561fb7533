#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/reduction/reduce_share.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/parameter_server/numbers.hpp"
#include "lockstep/parameter_server/server.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

inline constexpr std::uint64_t ps_longest_place = std::uint64_t{1} << 16;
inline constexpr std::uint64_t ps_longest_signature = std::uint64_t{1} << 24;

LOCKSTEP_INLINE ParameterServer::ParameterServer(ShardKeeper& keeper, PsPlace place,
                                                 const ParameterServerOptions& options,
                                                 const ClusterSecret& secret,
                                                 const MeetingSocket& listener)
    : keeper_(keeper),
      place_(std::move(place)),
      options_(options),
      secret_(secret),
      listener_(listener),
      members_(static_cast<std::size_t>(place_.workers)),
      backup_(options.backup_dir, place_.index),
      sum_of_status_(keeper.status_size()) {}

LOCKSTEP_INLINE ParameterServer::~ParameterServer() { stop(); }

LOCKSTEP_INLINE void ParameterServer::say(std::string_view text) const {
  log_line(concat({"parameter server ", place_.index, " (", place_.address, "): ", text}));
}

LOCKSTEP_INLINE void ParameterServer::serve() {
  has_state_ = backup_.restore(keeper_, progress_);
  progress_.places.resize(members_.size());
  if (has_state_) say("goes on from its backup");
  last_connected_ = fit_began_ = last_progress_ = Clock::now();
  while (!is_over()) {
    pollfd ready{listener_.get(), POLLIN, 0};
    if (::poll(&ready, 1, 50) > 0) accept();
    tend();
  }
  stop();
  if (failure_) std::rethrow_exception(failure_);
  const Member& chief = members_.front();
  if (chief.has_left && chief.has_finished) backup_.remove();
}

// What is due from time to time.
LOCKSTEP_INLINE void ParameterServer::tend() {
  bool backs_up = false;
  {
    const Lock lock(mutex_);
    end_round_if_complete();  // once enough time has passed, without those that have not come
    forget_laggards();
    backs_up =
        backup_.is_on() && has_state_ && (backup_is_due_ || updates_ >= options_.backup_freq);
    if (backs_up) backup_.copy(keeper_, progress_);
    if (backs_up) updates_ = 0;
    if (backs_up) backup_is_due_ = false;
  }
  if (backs_up) backup_.write();
  for (auto each = conversations_.begin(); each != conversations_.end();) {
    const bool has_ended = [&] {
      const Lock lock(mutex_);
      return each->has_ended;
    }();
    if (has_ended) each->thread.join();
    each = has_ended ? conversations_.erase(each) : std::next(each);
  }
}

LOCKSTEP_INLINE bool ParameterServer::is_over() {
  const Lock lock(mutex_);
  if (is_stopping_) return true;
  const auto now = Clock::now();
  const auto is_connected = [](const Member& member) { return member.connection != nullptr; };
  if (std::ranges::any_of(members_, is_connected)) {
    last_connected_ = now;
    return false;
  }
  if (std::ranges::all_of(members_, [](const Member& member) { return member.has_left; }))
    return true;
  const auto alone = now - last_connected_;
  if (members_.front().has_left && alone > options_.timeout) {
    say("the chief has finished, and no other worker is there: it ends");
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
    const Lock lock(mutex_);
    is_stopping_ = true;
    for (const Conversation& each : conversations_)
      if (each.connection != nullptr) each.connection->shut_down();
  }
  changed_.notify_all();
  for (Conversation& each : conversations_)
    if (each.thread.joinable()) each.thread.join();
  conversations_.clear();
}

// --- connections ---------------------------------------------------------------------------------

LOCKSTEP_INLINE void ParameterServer::accept() {
  constexpr std::size_t most_strangers = 64;
  MeetingSocket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open() || conversations_.size() >= 2 * members_.size() + most_strangers) return;
  Conversation& conversation = conversations_.emplace_back();
  try {
    const auto kept = std::make_shared<MeetingSocket>(std::move(socket));
    conversation.thread =
        start_thread("a worker of a parameter server",
                     [this, &conversation, kept] { converse(std::move(*kept), conversation); });
  } catch (const Error& error) {
    conversations_.pop_back();
    say(error.what());  // the worker calls again
  }
}

LOCKSTEP_INLINE void ParameterServer::converse(MeetingSocket socket, Conversation& conversation) {
  PsConnection connection(std::move(socket), options_.timeout);
  {
    const Lock lock(mutex_);
    conversation.connection = &connection;
    if (is_stopping_) connection.shut_down();
  }
  std::exception_ptr failure;
  try {
    converse(connection);
  } catch (...) {
    failure = std::current_exception();
  }
  const Lock lock(mutex_);
  conversation.connection = nullptr;
  conversation.has_ended = true;
  if (!failure) return;
  if (!failure_) failure_ = failure;
  is_stopping_ = true;
  changed_.notify_all();
}

LOCKSTEP_INLINE void ParameterServer::converse(PsConnection& connection) {
  connection.limit(Clock::now() + std::chrono::seconds(10));
  Member* member = nullptr;
  try {
    const PsClaim claim = admit(connection, secret_);
    connection.limit(Clock::time_point::max());
    member = &take_place(connection, claim);
    connection.send(PsMessage::reply, "");
    answer(connection, *member);
    leave(*member, "");
  } catch (const ConnectionLost& lost) {
    if (member != nullptr) leave(*member, lost.what());
  } catch (const ConfigurationError&) {  // a refusal, of one that should ask
    if (member != nullptr) leave(*member, "breaks the protocol");
  } catch (...) {
    if (member != nullptr) leave(*member, "the server fails");
    throw;
  }
}

LOCKSTEP_INLINE void refuse_worker(PsConnection& connection, std::string_view why, ExitCode code) {
  connection.send(PsMessage::refusal, {std::as_bytes(std::span(why))},
                  static_cast<std::uint64_t>(code));
  throw ConnectionLost(std::string(why));
}

LOCKSTEP_INLINE ParameterServer::Member& ParameterServer::take_place(PsConnection& connection,
                                                                     const PsClaim& claim) {
  const auto refuse_unless = [&](std::string_view what, std::int64_t theirs, std::int64_t mine) {
    if (theirs == mine) return;
    const std::string why =
        concat({"this worker has ", what, " ", theirs, ", the server has ", mine,
                ": start all processes with the same cluster and options"});
    say(concat({"a worker of rank ", claim.rank, " is turned away: ", why}));
    refuse_worker(connection, why, ExitCode::usage);
  };
  refuse_unless("a number of workers of", claim.workers, place_.workers);
  refuse_unless("a number of parameter servers of", claim.servers, place_.servers);
  refuse_unless("called parameter server", claim.server, place_.index);
  refuse_unless("max_staleness (-1: no limit)", claim.max_staleness,
                options_.max_staleness.value_or(-1));
  if (claim.rank < 0 || claim.rank >= place_.workers)
    refuse_unless("the rank", claim.rank, place_.workers - 1);
  Lock lock(mutex_);
  Member& member = members_[static_cast<std::size_t>(claim.rank)];
  // The former process of this rank, or its former connection, whose end was not noticed.
  while (member.connection != nullptr) {
    if (is_stopping_) throw ConnectionLost("the server ends");
    member.connection->shut_down();
    changed_.wait_for(lock, std::chrono::milliseconds(100));
  }
  if (is_stopping_) throw ConnectionLost("the server ends");
  member.connection = &connection;
  last_progress_ = Clock::now();
  if (member.process != claim.process) {
    member.process = claim.process;
    member.last_step = 0;
    member.has_finished = member.has_left = false;
  }
  return member;
}

LOCKSTEP_INLINE void ParameterServer::leave(Member& member, std::string_view why) {
  const Lock lock(mutex_);
  member.connection = nullptr;
  if (!member.has_left && !is_stopping_)
    say(concat({"worker ", rank_of(member), " is lost: ", why,
                "; the others go on, and it may come back"}));
  member.is_training = member.is_waiting = member.has_sent = member.pulls = false;
  end_round_if_complete();
  changed_.notify_all();
}

LOCKSTEP_INLINE void ParameterServer::answer(PsConnection& connection, Member& member) {
  for (;;) {
    const PsConnection::Head head = connection.receive_head();
    switch (head.kind) {
      case PsMessage::alive:
        PsConnection::expect(head, 0);
        break;
      case PsMessage::begin:
        begin(connection, member, head);
        break;
      case PsMessage::put:
        put(connection, member, head);
        break;
      case PsMessage::pull:
        pull(connection, member, head);
        break;
      case PsMessage::step:
        step(connection, member, head);
        break;
      case PsMessage::finish:
        finish(connection, member, head);
        break;
      case PsMessage::goodbye: {
        PsConnection::expect(head, 0);
        const Lock lock(mutex_);
        member.has_left = true;
        return;
      }
      default:
        throw ConnectionLost("asks for what a parameter server does not know");
    }
  }
}

// --- waiting -------------------------------------------------------------------------------------

LOCKSTEP_INLINE void ParameterServer::wait(Lock& lock, PsConnection& connection, Member& member,
                                           FunctionRef<bool()> is_over) {
  struct Waiting {
    bool& flag;
    ~Waiting() { flag = false; }
  };
  struct Relock {
    Lock& lock;
    ~Relock() { lock.lock(); }
  };
  constexpr auto interval = std::chrono::seconds(1);
  auto next = Clock::now() + interval;
  while (!is_over()) {
    if (is_stopping_) throw ConnectionLost("the server ends");
    member.is_waiting = true;
    const Waiting waiting{member.is_waiting};
    changed_.wait_until(lock, next);
    if (Clock::now() < next || is_over()) continue;
    next = Clock::now() + interval;
    const std::string text = laggards();
    lock.unlock();
    const Relock relock{lock};
    if (connection.has_ended()) throw ConnectionLost("closed the connection");
    connection.send(PsMessage::waiting, text);
  }
}

LOCKSTEP_INLINE std::string ParameterServer::laggards() const {
  std::string text;
  for (const Member& member : members_) {
    if (member.is_waiting || (member.has_finished && !member.pulls)) continue;
    const char* const how = member.connection == nullptr ? " (not connected)"
                            : member.is_training         ? ""
                            : member.pulls               ? " (has not taken the result yet)"
                                                         : " (has not begun)";
    text += concat({text.empty() ? "worker " : ", ", rank_of(member), how});
  }
  return text;
}

// A worker that lives, but makes no step, while others wait.
LOCKSTEP_INLINE void ParameterServer::forget_laggards() {
  const auto is_waiting = [](const Member& member) { return member.is_waiting; };
  const auto now = Clock::now();
  if (std::ranges::none_of(members_, is_waiting)) last_progress_ = now;
  if (now - last_progress_ <= options_.progress_limit()) return;
  last_progress_ = now;
  for (Member& member : members_) {
    const bool is_awaited = !member.is_waiting && (member.is_training || member.pulls);
    if (!is_awaited || member.connection == nullptr) continue;
    say(concat({"worker ", rank_of(member), " lives, but has made no step for ",
                duration_text(options_.progress_limit()), " while others wait: it is left out"}));
    member.connection->shut_down();
  }
}

LOCKSTEP_INLINE std::int64_t ParameterServer::slowest() const {
  std::int64_t clock = std::numeric_limits<std::int64_t>::max();
  for (const Member& member : members_)
    if (member.is_training) clock = std::min(clock, member.clock);
  return clock == std::numeric_limits<std::int64_t>::max() ? 0 : clock;
}

// All ranks have begun the fit, or have had the time to.
LOCKSTEP_INLINE bool ParameterServer::all_have_come() const {
  return Clock::now() - fit_began_ > options_.startup_timeout ||
         std::ranges::all_of(members_, [](const Member& member) { return member.has_joined; });
}

// --- what workers ask for ------------------------------------------------------------------------

LOCKSTEP_INLINE void ParameterServer::join(Member& member) {
  if (member.is_training) return;
  member.clock = slowest();
  member.is_training = member.has_joined = true;
  member.has_finished = false;
  changed_.notify_all();
}

LOCKSTEP_INLINE void ParameterServer::begin(PsConnection& connection, Member& member,
                                            const PsConnection::Head& head) {
  const std::string text = connection.receive_text(head, ps_longest_signature);
  if (text.size() < 8) throw ConnectionLost("begins no fit");
  std::array<std::byte, 8> first{};
  std::memcpy(first.data(), text.data(), first.size());
  std::uint64_t fit = 0;
  unpack_numbers(first, fit);
  if (const auto difference = keeper_.difference(std::string_view(text).substr(8))) {
    say(concat({"worker ", rank_of(member), " is turned away: ", *difference}));
    refuse_worker(connection, *difference, ExitCode::usage);
  }
  Lock lock(mutex_);
  const bool is_chief = rank_of(member) == 0;
  // It is in no other fit: neither in one that an exception has ended, nor in the one before.
  member.is_training = member.has_sent = member.pulls = false;
  if (fit > progress_.fit) member.has_joined = member.has_finished = true;
  end_round_if_complete();
  changed_.notify_all();
  if (is_chief && fit > progress_.fit) {
    wait(lock, connection, member, [&] {
      return std::ranges::none_of(members_,
                                  [](const Member& m) { return m.is_training || m.pulls; });
    });
    for (Member& each : members_) each.has_joined = each.has_finished = false;
    progress_ = {.fit = fit};
    progress_.places.resize(members_.size());
    has_state_ = false;
    fit_began_ = Clock::now();
  }
  auto verdict = PsVerdict::join;
  if (is_chief && fit == progress_.fit && !has_state_) {
    verdict = PsVerdict::give_state;
  } else {
    wait(lock, connection, member, [&] {
      const auto has_sent = [](const Member& each) { return each.has_sent; };
      if (progress_.fit > fit) return has_state_;
      // A round that is under way is one of those that have come before.
      return progress_.fit == fit && has_state_ &&
             (!all_have_come() || std::ranges::none_of(members_, has_sent));
    });
    if (progress_.fit > fit)
      verdict = PsVerdict::is_over;
    else
      join(member);
  }
  const auto& own = progress_.places[static_cast<std::size_t>(rank_of(member))];
  const std::vector<std::byte> place = own.empty() ? progress_.begin : own;
  lock.unlock();
  connection.send(PsMessage::reply, {pack_numbers(static_cast<std::uint64_t>(verdict)), place});
}

LOCKSTEP_INLINE void refuse_restarted(std::unique_lock<std::mutex>& lock,
                                      PsConnection& connection) {
  lock.unlock();
  refuse_worker(connection,
                "it was started again, without what it held before, since it has no backup "
                "(ParameterServerOptions::backup_dir): start all processes again",
                ExitCode::lost_peer);
}

LOCKSTEP_INLINE void ParameterServer::need_state(Lock& lock, PsConnection& connection,
                                                 Member& member) {
  wait(lock, connection, member, [&] {
    return has_state_ || progress_.fit == 0 || Clock::now() - fit_began_ > options_.startup_timeout;
  });
  if (!has_state_) refuse_restarted(lock, connection);
}

LOCKSTEP_INLINE void ParameterServer::put(PsConnection& connection, Member& member,
                                          const PsConnection::Head& head) {
  const std::size_t bytes = keeper_.state_bytes();
  if (head.size < bytes || head.size - bytes > ps_longest_place) PsConnection::expect(head, bytes);
  std::vector<std::byte> place(head.size - bytes), state(bytes);
  connection.receive(place);
  connection.receive(state);
  {
    Lock lock(mutex_);
    if (rank_of(member) != 0) throw ConnectionLost("gives a state that was not asked for");
    if (progress_.fit == 0 || head.number != progress_.fit) refuse_restarted(lock, connection);
    if (!has_state_) {  // else the worker has not heard that it was taken
      keeper_.load(state);
      progress_.begin = std::move(place);
      has_state_ = backup_is_due_ = true;
    }
    join(member);
  }
  connection.send(PsMessage::reply, "");
}

LOCKSTEP_INLINE void ParameterServer::pull(PsConnection& connection, Member& member,
                                           const PsConnection::Head& head) {
  PsConnection::expect(head, 0);
  std::vector<std::byte> state(keeper_.state_bytes());
  {
    Lock lock(mutex_);
    need_state(lock, connection, member);
    keeper_.save(state);
    member.pulls = false;
    changed_.notify_all();
  }
  connection.send(PsMessage::reply, {state});
}

LOCKSTEP_INLINE void ParameterServer::finish(PsConnection& connection, Member& member,
                                             const PsConnection::Head& head) {
  PsConnection::expect(head, 0);
  Lock lock(mutex_);
  if (head.number >= progress_.fit) {  // else it is asked again, and the others are in a later fit
    need_state(lock, connection, member);
    member.is_training = member.has_sent = false;
    member.has_joined = member.has_finished = true;  // this server may have been started since
    // The next fit begins when it has got what this one has made.
    member.pulls = true;
    end_round_if_complete();
    changed_.notify_all();
    wait(lock, connection, member, [&] {
      return all_have_come() &&
             std::ranges::none_of(members_, [](const Member& each) { return each.is_training; });
    });
  }
  lock.unlock();
  connection.send(PsMessage::reply, "");
}

LOCKSTEP_INLINE void ParameterServer::receive_step(PsConnection& connection, Member& member,
                                                   const PsConnection::Head& head) {
  const std::size_t gradients = keeper_.parameters().size();
  member.status.resize(keeper_.status_size());
  const std::span<std::byte> status = std::as_writable_bytes(std::span(member.status));
  std::array<std::byte, 24> numbers{};
  const std::size_t least = numbers.size() + status.size() + gradients;
  if (head.size < least || head.size - least > ps_longest_place) PsConnection::expect(head, least);
  connection.receive(numbers);
  std::uint64_t stop_on_non_finite = 0, place = 0;
  unpack_numbers(numbers, member.learning_rate, stop_on_non_finite, place);
  member.stop_on_non_finite = stop_on_non_finite != 0;
  if (place != head.size - least) throw ConnectionLost("sends a step of a wrong size");
  member.place.resize(place);
  connection.receive(member.place);
  connection.receive(status);
  if (member.gradients.size() < gradients) member.gradients = Buffer(gradients);
  connection.receive({member.gradients.data(), gradients});
  member.sent = head.number;
}

LOCKSTEP_INLINE void ParameterServer::step(PsConnection& connection, Member& member,
                                           const PsConnection::Head& head) {
  receive_step(connection, member, head);
  {
    Lock lock(mutex_);
    need_state(lock, connection, member);
    join(member);  // also when its connection broke after the step, and it asks for the reply alone
    if (member.sent > member.last_step) {
      if (options_.in_rounds()) {
        member.has_sent = true;
        end_round_if_complete();
        wait(lock, connection, member, [&] { return !member.has_sent; });
      } else {
        apply_alone(member);
      }
    }
    if (options_.max_staleness && !options_.in_rounds())
      wait(lock, connection, member,
           [&] { return member.clock - slowest() <= *options_.max_staleness; });
    const auto values = keeper_.parameters();
    member.reply.assign(values.begin(), values.end());
  }
  connection.send(PsMessage::reply,
                  {std::as_bytes(std::span(std::as_const(member.last_status))), member.reply},
                  head.number);
}

LOCKSTEP_INLINE void ParameterServer::keep_step(Member& member, std::span<const double> status) {
  member.last_step = member.sent;
  member.last_status.assign(status.begin(), status.end());
  member.has_sent = false;
  ++member.clock;
  if (!member.place.empty())
    progress_.places[static_cast<std::size_t>(rank_of(member))] = member.place;
}

LOCKSTEP_INLINE void ParameterServer::apply_alone(Member& member) {
  keeper_.apply({.values = {member.gradients.data(), keeper_.parameters().size()},
                 .status = member.status,
                 .learning_rate = rank_of(member) == 0 ? member.learning_rate : std::nan(""),
                 .stop_on_non_finite = member.stop_on_non_finite});
  keep_step(member, member.status);
  ++updates_;
  last_progress_ = Clock::now();
  changed_.notify_all();
}

LOCKSTEP_INLINE void ParameterServer::end_round_if_complete() {
  std::vector<Member*> senders;
  for (Member& member : members_) {
    if (member.is_training && !member.has_sent) return;
    if (member.has_sent) senders.push_back(&member);
  }
  if (senders.empty() || !all_have_come()) return;
  const int count = static_cast<int>(senders.size());
  const auto sender = [&](int i) -> Member& { return *senders[static_cast<std::size_t>(i)]; };
  std::span<std::byte> sum(sender(0).gradients.data(), keeper_.parameters().size());
  sum_of_status_ = sender(0).status;
  if (count > 1) {
    if (sum_.size() < sum.size()) sum_ = Buffer(sum.size());
    sum = {sum_.data(), sum.size()};
    combine_range({keeper_.type(), ReduceOp::sum}, sum.data(), keeper_.begin(),
                  sum.size() / size_of(keeper_.type()), count,
                  [&](int i) -> const std::byte* { return sender(i).gradients.data(); });
    combine_ranks(
        {DataType::float64, ReduceOp::sum}, sum_of_status_.data(), 0, count, sum_of_status_.size(),
        [&](int i) { return reinterpret_cast<const std::byte*>(sender(i).status.data()); });
  }
  keeper_.apply({.values = sum,
                 .status = sum_of_status_,
                 .workers = count,
                 .in_round = true,
                 .learning_rate = rank_of(sender(0)) == 0 ? sender(0).learning_rate : std::nan(""),
                 .stop_on_non_finite = sender(0).stop_on_non_finite});
  for (Member* const each : senders) keep_step(*each, sum_of_status_);
  // One that comes back begins where the others are.
  if (!sender(0).place.empty()) progress_.places.assign(members_.size(), sender(0).place);
  ++updates_;
  last_progress_ = Clock::now();
  changed_.notify_all();
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
