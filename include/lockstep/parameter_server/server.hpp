// ParameterServer: keeps a shard of the parameters, and serves workers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/parameter_server/backup.hpp"
#include "lockstep/parameter_server/connection.hpp"
#include "lockstep/parameter_server/options.hpp"
#include "lockstep/parameter_server/shard_keeper.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Which server this is, and for how many workers.
struct PsPlace {
  int index = 0;
  int servers = 1;
  int workers = 1;
  std::string address{};
};

/// Serves all fits of the workers of a cluster: a thread for each connection. A worker whose
/// connection ends is forgotten, and nobody waits for it; a process that claims its rank takes its
/// place, and goes on where it was.
///
/// Rounds (max_staleness 0) end when every worker that lives has sent its gradients; the first one
/// of a fit needs all workers. Without rounds, gradients are applied as they come.
class ParameterServer {
 public:
  /// `listener` is the socket on which the server listens already.
  ParameterServer(ShardKeeper& keeper, PsPlace place, const ParameterServerOptions& options,
                  const ClusterSecret& secret, const MeetingSocket& listener);
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;
  ~ParameterServer();

  /// Returns when all workers have said goodbye; or the chief has, and no other one has been
  /// connected for `timeout`. Throws CollectiveError when no worker has been connected for
  /// `startup_timeout`, and what the keeper throws.
  void serve();

 private:
  using Clock = std::chrono::steady_clock;

  /// A rank, and the process that has it at the moment.
  struct Member {
    PsConnection* connection = nullptr;  ///< none: it is not connected
    std::uint64_t process = 0;           ///< of which the next two are
    std::uint64_t last_step = 0;         ///< the number of its last one that is applied
    std::vector<double> last_status{};   ///< and the reply to it
    std::int64_t clock = 0;              ///< steps, counted from that of the slowest when it came
    bool has_joined = false;             ///< the fit, in this or an earlier process
    bool is_training = false;            ///< has begun the fit, and has not finished it
    bool has_finished = false;           ///< the fit
    bool is_waiting = false;             ///< for others
    bool pulls = false;                  ///< has finished the fit, and will ask for its result
    bool has_left = false;               ///< said goodbye
    bool has_sent = false;               ///< its gradients are part of the round
    std::uint64_t sent = 0;              ///< the number of the step that they are of
    std::vector<std::byte> place{};      ///< where it goes on after that
    double learning_rate = 0;
    bool stop_on_non_finite = false;
    Buffer gradients{};
    std::vector<double> status{};
    std::vector<std::byte> reply{};
  };
  struct Conversation {
    std::thread thread{};
    PsConnection* connection = nullptr;
    bool has_ended = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  void accept();
  void converse(MeetingSocket socket, Conversation& conversation);
  void converse(PsConnection& connection);
  [[nodiscard]] Member& take_place(PsConnection& connection, const PsClaim& claim);
  void answer(PsConnection& connection, Member& member);
  void leave(Member& member, std::string_view why);

  void begin(PsConnection& connection, Member& member, const PsConnection::Head& head);
  void put(PsConnection& connection, Member& member, const PsConnection::Head& head);
  void pull(PsConnection& connection, Member& member, const PsConnection::Head& head);
  void step(PsConnection& connection, Member& member, const PsConnection::Head& head);
  void finish(PsConnection& connection, Member& member, const PsConnection::Head& head);

  /// Waits until the chief has given a state; refuses the worker when none is to be expected.
  void need_state(Lock& lock, PsConnection& connection, Member& member);
  void receive_step(PsConnection& connection, Member& member, const PsConnection::Head& head);
  void join(Member& member);
  void apply_alone(Member& member);
  void end_round_if_complete();
  void keep_step(Member& member, std::span<const double> status);
  [[nodiscard]] bool all_have_come() const;
  [[nodiscard]] std::int64_t slowest() const;
  [[nodiscard]] std::string laggards() const;
  /// Waits, under the lock, and tells the worker so. Throws ConnectionLost when it has gone.
  void wait(Lock& lock, PsConnection& connection, Member& member, FunctionRef<bool()> is_over);
  void forget_laggards();

  [[nodiscard]] int rank_of(const Member& member) const noexcept {
    return static_cast<int>(&member - members_.data());
  }
  void say(std::string_view text) const;
  void tend();
  [[nodiscard]] bool is_over();
  void stop() noexcept;

  ShardKeeper& keeper_;
  const PsPlace place_;
  const ParameterServerOptions& options_;
  const ClusterSecret& secret_;
  const MeetingSocket& listener_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Member> members_;  // by rank
  PsProgress progress_;
  PsBackup backup_;
  bool has_state_ = false;  // the keeper has that of the fit
  bool is_stopping_ = false;
  std::exception_ptr failure_;
  std::int64_t updates_ = 0;  // since the last backup
  bool backup_is_due_ = false;
  Clock::time_point last_progress_ = Clock::now();
  Clock::time_point last_connected_ = Clock::now();
  Clock::time_point fit_began_ = Clock::now();
  Buffer sum_;
  std::vector<double> sum_of_status_;
  std::list<Conversation> conversations_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/parameter_server/server.ipp"
#endif
