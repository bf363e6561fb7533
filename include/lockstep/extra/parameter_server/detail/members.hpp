// The workers of a parameter server: which are there, in the fit, or waiting, and for which ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/parameter_server/connection.hpp"
#include "lockstep/extra/parameter_server/options.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Which server this is, and for how many workers.
struct PsPlace {
  int index = 0;
  int servers = 1;
  int workers = 1;
  std::string address{};
  std::vector<std::string> addresses{};  ///< of the workers

  /// On stderr, with the server's name.
  void say(std::string_view text, LogLevel level = LogLevel::info) const {
    log_line(name() + std::string(text), level);
  }
  /// "parameter server 1 (b:2223): ", with which its lines begin.
  [[nodiscard]] std::string name() const {
    return concat({"parameter server ", index, " (", address, "): "});
  }
};

/// A rank, and the process that has it at the moment.
struct PsMember {
  PsConnection* connection = nullptr;  ///< none: it is not connected
  std::uint64_t former_process = 0;    ///< the one that had the rank before
  std::uint64_t process = 0;           ///< the one that made last_step
  std::uint64_t last_step = 0;         ///< number of the last step that is applied
  std::vector<double> last_status{};   ///< the reply to last_step
  std::int64_t clock = 0;              ///< steps, counted from that of the slowest when it came
  bool has_joined = false;             ///< has joined the fit, in this or an earlier process
  bool is_training = false;            ///< has begun the fit, and has not finished it
  bool has_finished = false;           ///< has finished the fit
  bool is_waiting = false;             ///< waits for others
  bool pulls = false;                  ///< has finished the fit, and will ask for its result
  bool has_left = false;               ///< has said goodbye
  bool leaves_nothing = false;         ///< and no server is to have a backup after it
  bool has_sent = false;               ///< its gradients are part of the round
  std::uint64_t sent = 0;              ///< number of the step of these gradients
  std::vector<std::byte> place{};      ///< where it goes on after that step
  double learning_rate = 0;
  bool stop_on_non_finite = false;
  Buffer gradients{};
  std::vector<double> status{};
  std::vector<std::byte> reply{};
};
/// A worker of this cluster has been told why it cannot be served.
class WorkerRefused : public ConnectionLost {
 public:
  using ConnectionLost::ConnectionLost;
};

/// Answers a worker that is turned away, and throws WorkerRefused.
[[noreturn]] inline void refuse_worker(PsConnection& connection, std::string_view why,
                                       ExitCode code) {
  connection.send(PsMessage::refusal, {std::as_bytes(std::span(why))},
                  static_cast<std::uint64_t>(code));
  throw WorkerRefused(std::string(why));
}

/// The workers by rank, and what all threads of a server wait for. Everything in it is read and
/// changed under its mutex.
class PsMembers {
 public:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  PsMembers(const PsPlace& place, const ParameterServerOptions& options)
      : list(static_cast<std::size_t>(place.workers)), place_(place), options_(options) {}

  [[nodiscard]] int rank_of(const PsMember& member) const noexcept {
    return static_cast<int>(&member - list.data());
  }
  /// Gives the rank to the process of the claim, and ends the connection that had it before. Two
  /// processes with one rank would take it from each other without end: the one that has lost it is
  /// refused while the other is there.
  [[nodiscard]] PsMember& take_place(Lock& lock, PsConnection& connection, const PsClaim& claim) {
    PsMember& member = list[static_cast<std::size_t>(claim.rank)];
    const bool is_other = member.process != claim.process;
    if (member.connection != nullptr && is_other && member.former_process == claim.process) {
      lock.unlock();
      refuse_worker(connection, place_was_taken(claim.rank), ExitCode::usage);
    }
    if (member.connection != nullptr && is_other) place_.say(takes_place(claim.rank));
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
  /// The member is in the fit from now on.
  void join(PsMember& member) {
    if (member.is_training) return;
    member.clock = slowest();
    member.is_training = member.has_joined = true;
    member.has_finished = false;
    changed.notify_all();
  }
  /// The steps of the slowest worker in the fit.
  [[nodiscard]] std::int64_t slowest() const {
    std::int64_t clock = std::numeric_limits<std::int64_t>::max();
    for (const PsMember& member : list)
      if (member.is_training) clock = std::min(clock, member.clock);
    return clock == std::numeric_limits<std::int64_t>::max() ? 0 : clock;
  }
  /// Whether all ranks have begun the fit, or have had the time to.
  [[nodiscard]] bool all_have_come() const {
    return Clock::now() - fit_began > options_.startup_timeout ||
           std::ranges::all_of(list, [](const PsMember& member) { return member.has_joined; });
  }
  /// Waits, under the lock, and tells the worker so. Throws ConnectionLost when it has gone.
  void wait(Lock& lock, PsConnection& connection, PsMember& member, FunctionRef<bool()> is_over) {
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
      if (connection.has_ended()) throw ConnectionLost(closed_the_connection);
      connection.send(PsMessage::waiting, text);
    }
  }
  /// Tells this server's launcher, if it has one, that the worker hangs.
  void accuse(const PsMember& member, std::string_view why) const {
    const auto rank = static_cast<std::size_t>(rank_of(member));
    if (rank < place_.addresses.size())
      note_failure({.address = place_.addresses[rank], .reason = std::string(why)});
  }
  /// Leaves out a worker that lives, but makes no step while others wait.
  void forget_laggards() {
    const auto is_waiting = [](const PsMember& member) { return member.is_waiting; };
    const auto now = Clock::now();
    if (std::ranges::none_of(list, is_waiting)) last_progress = now;
    if (now - last_progress <= options_.progress_limit()) return;
    last_progress = now;
    for (PsMember& member : list) {
      const bool is_awaited = !member.is_waiting && (member.is_training || member.pulls);
      if (!is_awaited || member.connection == nullptr) continue;
      const std::string why = made_no_step(options_.progress_limit());
      place_.say(concat({"worker ", rank_of(member), " ", why, is_left_out}));
      accuse(member, why);
      member.connection->shut_down();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<PsMember> list;  ///< by rank
  bool is_stopping = false;
  Clock::time_point last_progress = Clock::now();
  Clock::time_point fit_began = Clock::now();

 private:
  [[nodiscard]] std::string laggards() const {
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

  const PsPlace& place_;
  const ParameterServerOptions& options_;
};

}}}  // namespace lockstep::detail
