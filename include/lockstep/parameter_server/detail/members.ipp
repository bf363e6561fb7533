#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "lockstep/core/text.hpp"
#include "lockstep/parameter_server/detail/members.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void PsPlace::say(std::string_view text, LogLevel level) const {
  log_line(concat({"parameter server ", index, " (", address, "): ", text}), level);
}

LOCKSTEP_INLINE void refuse_worker(PsConnection& connection, std::string_view why, ExitCode code) {
  connection.send(PsMessage::refusal, {std::as_bytes(std::span(why))},
                  static_cast<std::uint64_t>(code));
  throw WorkerRefused(std::string(why));
}

LOCKSTEP_INLINE PsMember& PsMembers::take_place(Lock& lock, PsConnection& connection,
                                                const PsClaim& claim) {
  PsMember& member = list[static_cast<std::size_t>(claim.rank)];
  const bool is_other = member.process != claim.process;
  if (member.connection != nullptr && is_other && member.former_process == claim.process) {
    lock.unlock();
    refuse_worker(connection,
                  concat({"another process has taken the place of worker ", claim.rank,
                          ", and this one had it before: start one process only for each task"}),
                  ExitCode::usage);
  }
  if (member.connection != nullptr && is_other)
    place_.say(concat({"another process takes the place of worker ", claim.rank}));
  // The former process of this rank, or its former connection, whose end was not noticed.
  while (member.connection != nullptr) {
    if (is_stopping) throw ConnectionLost("the server ends");
    member.connection->shut_down();
    changed.wait_for(lock, std::chrono::milliseconds(100));
  }
  if (is_stopping) throw ConnectionLost("the server ends");
  member.connection = &connection;
  last_progress = Clock::now();
  if (member.process != claim.process) {
    member.former_process = std::exchange(member.process, claim.process);
    member.last_step = 0;
    member.has_finished = member.has_left = false;
  }
  return member;
}

LOCKSTEP_INLINE void PsMembers::join(PsMember& member) {
  if (member.is_training) return;
  member.clock = slowest();
  member.is_training = member.has_joined = true;
  member.has_finished = false;
  changed.notify_all();
}

LOCKSTEP_INLINE std::int64_t PsMembers::slowest() const {
  std::int64_t clock = std::numeric_limits<std::int64_t>::max();
  for (const PsMember& member : list)
    if (member.is_training) clock = std::min(clock, member.clock);
  return clock == std::numeric_limits<std::int64_t>::max() ? 0 : clock;
}

LOCKSTEP_INLINE bool PsMembers::all_have_come() const {
  return Clock::now() - fit_began > options_.startup_timeout ||
         std::ranges::all_of(list, [](const PsMember& member) { return member.has_joined; });
}

LOCKSTEP_INLINE void PsMembers::wait(Lock& lock, PsConnection& connection, PsMember& member,
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
    if (is_stopping) throw ConnectionLost("the server ends");
    member.is_waiting = true;
    const Waiting waiting{member.is_waiting};
    changed.wait_until(lock, next);
    if (Clock::now() < next || is_over()) continue;
    next = Clock::now() + interval;
    const std::string text = laggards();
    lock.unlock();
    const Relock relock{lock};
    if (connection.has_ended()) throw ConnectionLost("closed the connection");
    connection.send(PsMessage::waiting, text);
  }
}

LOCKSTEP_INLINE std::string PsMembers::laggards() const {
  std::string text;
  for (const PsMember& member : list) {
    if (member.is_waiting || (member.has_finished && !member.pulls)) continue;
    const char* const how = member.connection == nullptr ? " (not connected)"
                            : member.is_training         ? ""
                            : member.pulls               ? " (has not taken the result yet)"
                                                         : " (has not begun)";
    text += concat({text.empty() ? "worker " : ", ", rank_of(member), how});
  }
  return text;
}

LOCKSTEP_INLINE void PsMembers::forget_laggards() {
  const auto is_waiting = [](const PsMember& member) { return member.is_waiting; };
  const auto now = Clock::now();
  if (std::ranges::none_of(list, is_waiting)) last_progress = now;
  if (now - last_progress <= options_.progress_limit()) return;
  last_progress = now;
  for (PsMember& member : list) {
    const bool is_awaited = !member.is_waiting && (member.is_training || member.pulls);
    if (!is_awaited || member.connection == nullptr) continue;
    place_.say(
        concat({"worker ", rank_of(member), " lives, but has made no step for ",
                duration_text(options_.progress_limit()), " while others wait: it is left out"}));
    member.connection->shut_down();
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
