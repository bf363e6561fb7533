// What workers ask a parameter server for: to begin a fit, to make its steps, to end it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/parameter_server/backup.hpp"
#include "lockstep/parameter_server/connection.hpp"
#include "lockstep/parameter_server/detail/members.hpp"
#include "lockstep/parameter_server/options.hpp"
#include "lockstep/parameter_server/shard_keeper.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The fits of the workers, one after the other. Each worker's thread calls `answer` with its
/// messages.
///
/// Rounds (max_staleness 0) end when every worker that lives has sent its gradients; the first one
/// of a fit needs all workers. Without rounds, gradients are applied as they come.
class PsFits {
 public:
  PsFits(ShardKeeper& keeper, PsMembers& members, const PsPlace& place,
         const ParameterServerOptions& options);

  /// Goes on from a backup, if there is one.
  void restore(const PsBackup& backup);
  /// Answers a message of these kinds; false for one of another kind.
  [[nodiscard]] bool answer(PsConnection& connection, PsMember& member,
                            const PsConnection::Head& head);

  // Called under the lock of the members.

  /// Once enough time has passed, a round ends without those that have not come.
  void end_round_if_complete();
  /// Copies the state if a backup is due, and returns whether one is. The last one is due if there
  /// was any update.
  [[nodiscard]] bool copy_for(PsBackup& backup, bool is_last = false);

 private:
  using Clock = PsMembers::Clock;
  using Lock = PsMembers::Lock;

  void begin(PsConnection& connection, PsMember& member, const PsConnection::Head& head);
  void put(PsConnection& connection, PsMember& member, const PsConnection::Head& head);
  void pull(PsConnection& connection, PsMember& member, const PsConnection::Head& head);
  void step(PsConnection& connection, PsMember& member, const PsConnection::Head& head);
  void finish(PsConnection& connection, PsMember& member, const PsConnection::Head& head);

  /// Waits until the chief has given a state; refuses the worker when none is to be expected.
  void need_state(Lock& lock, PsConnection& connection, PsMember& member);
  void receive_step(PsConnection& connection, PsMember& member, const PsConnection::Head& head);
  void apply_alone(PsMember& member);
  void keep_step(PsMember& member, std::span<const double> status);

  ShardKeeper& keeper_;
  PsMembers& members_;
  const PsPlace& place_;
  const ParameterServerOptions& options_;
  PsProgress progress_;
  std::string given_;         // to the fit of its first worker
  bool has_state_ = false;    // whether the keeper has the state of the fit
  std::int64_t updates_ = 0;  // made since the last backup
  bool backup_is_due_ = false;
  Buffer sum_;
  std::vector<double> sum_of_status_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/parameter_server/detail/fits.ipp"
#endif
