// The workers of a parameter server: which are there, in the fit, or waiting, and for which ranks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/parameter_server/connection.hpp"
#include "lockstep/parameter_server/options.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Which server this is, and for how many workers.
struct PsPlace {
  int index = 0;
  int servers = 1;
  int workers = 1;
  std::string address{};

  /// On stderr, with the server's name.
  void say(std::string_view text, LogLevel level = LogLevel::info) const;
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
[[noreturn]] void refuse_worker(PsConnection& connection, std::string_view why, ExitCode code);

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
  [[nodiscard]] PsMember& take_place(Lock& lock, PsConnection& connection, const PsClaim& claim);
  /// The member is in the fit from now on.
  void join(PsMember& member);
  /// The steps of the slowest worker in the fit.
  [[nodiscard]] std::int64_t slowest() const;
  /// Whether all ranks have begun the fit, or have had the time to.
  [[nodiscard]] bool all_have_come() const;
  /// Waits, under the lock, and tells the worker so. Throws ConnectionLost when it has gone.
  void wait(Lock& lock, PsConnection& connection, PsMember& member, FunctionRef<bool()> is_over);
  /// Leaves out a worker that lives, but makes no step while others wait.
  void forget_laggards();

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<PsMember> list;  ///< by rank
  bool is_stopping = false;
  Clock::time_point last_progress = Clock::now();
  Clock::time_point fit_began = Clock::now();

 private:
  [[nodiscard]] std::string laggards() const;

  const PsPlace& place_;
  const ParameterServerOptions& options_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/parameter_server/detail/members.ipp"
#endif
