// Recovery: the state that a fit starts or resumes from, also after the loss of a worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/training/fit_part.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
struct FitState;

/// All ranks begin from the chief's variables; or from the saved state that a callback of the chief
/// has found; or, when a worker was lost or is new, from the state that the others have kept.
///
/// A loss may come when one worker has made a step and another has not: all go on from the state
/// that has come furthest.
template <class T>
class Recovery final : public FitPart<T> {
 public:
  explicit Recovery(FitState<T>& fit);

  [[nodiscard]] std::string_view name() const noexcept override { return "recovery"; }
  void begin(FitRank<T>& rank) override;
  /// In another world, all go on from the chief's state.
  void leave(FitRank<T>& rank, const FitEnd& end) override;

  // What callbacks ask: see Training.
  void restore(std::vector<std::byte> saved, DecodeState decode, bool allow_changes) {
    pending_ = std::move(saved);
    decode_ = decode;
    allow_changes_ = allow_changes;
  }
  void read_shares_with(ReadShares read) { read_shares_ = read; }
  void cannot_restore(const std::exception_ptr& reason) { unreadable_ = reason; }
  void survive_losses(EncodeState encode, DecodeState decode);
  void read_backup_with(const ReadBackup& read) { read_backup_ = read; }

  /// Whether the leader shall call on_train_begin: not after a loss, but on a new chief.
  [[nodiscard]] bool begins_training() {
    return !is_begun_ || std::exchange(begins_as_chief_, false);
  }

  /// Whether the model's state comes from this training.
  [[nodiscard]] bool has_begun() const noexcept { return is_begun_; }

  // Between two worlds, on one thread.

  /// A worker was lost: returns when it makes sense to connect anew and to run again; else throws
  /// the failure, with the step.
  void survive(const CollectiveError& error);
  /// Whether the loop has ended because a worker has come, and all go on in another world; the
  /// state is kept for it.
  [[nodiscard]] bool goes_on_elsewhere();
  /// The strategy is connected anew, perhaps to other workers, and this one may have another place.
  void take_place();
  /// The others have ended this fit without this worker: puts what it kept back into its model.
  void restore_kept();

 private:
  struct Kept {
    std::vector<std::byte> bytes{};  ///< empty: no rank keeps a state
    bool is_begun = false;           ///< it is of this fit, and not of the model before it
  };

  static void do_without_file(const std::exception_ptr& reason,
                              const std::vector<std::byte>& saved);
  [[nodiscard]] Kept furthest(AnyCollective& collective, bool leader);
  void take_over(const std::vector<std::byte>& saved, bool is_from_file);
  void check_data(const TrainingState& saved) const;
  void check_slots(AnyReplica& replica) const;
  void say_where_it_goes_on(bool is_restored) const;
  void keep(bool is_whole);

  FitState<T>& fit_;
  std::vector<std::byte> pending_{};  // a saved state that is to be restored
  std::exception_ptr unreadable_{};   // why there is none
  EncodeState encode_ = nullptr;      // of a fit that survives losses
  DecodeState decode_ = nullptr;
  ReadShares read_shares_ = nullptr;
  bool allow_changes_ = false;  // of the data, and of options of the optimizer
  ReadBackup read_backup_{};
  std::vector<std::byte> kept_{};  // this worker's state, until all are together again
  std::int64_t progress_ = 0;      // how far it has come
  bool is_begun_ = false;          // the model's state comes from this training
  bool leaves_world_ = false;
  bool was_chief_ = false;  // in the last world
  bool begins_as_chief_ = false;
};

}}}  // namespace lockstep::detail
