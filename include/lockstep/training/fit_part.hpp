// FitPart: what takes part in fit besides its loop.
#pragma once

#include <memory>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
class FitRank;  // fit.hpp
template <class T>
struct Parts;  // step/parts.hpp
template <class T>
class Trainer;  // trainer.hpp
template <class T>
class Updater;  // step/updater.hpp

/// How steps, an epoch or fit end.
struct FitEnd {
  bool finished = false;                    ///< training has ended
  ExitCode preemption = ExitCode::success;  ///< or all have agreed to save and to leave
  bool leaves_world = false;                ///< or to go on with other workers (elastic)

  /// The state stays within the epoch.
  [[nodiscard]] bool leaves() const noexcept {
    return leaves_world || preemption != ExitCode::success;
  }
};

/// A feature of fit; most are there only where something asks for them. The loop calls the hooks of
/// all parts in the order of add_parts (fit.ipp). That order is part of the protocol: hooks call
/// collectives, and all ranks have the same parts that do. Every replica calls each hook on its own
/// thread; all share one object.
template <class T>
class FitPart {
 public:
  FitPart() = default;
  FitPart(const FitPart&) = delete;
  FitPart& operator=(const FitPart&) = delete;
  virtual ~FitPart() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// After on_train_begin, and again after a worker was lost. May move the rank to another place.
  virtual void begin(FitRank<T>&) {}
  virtual void before_step(FitRank<T>&) {}
  /// After the last step of an epoch, before its validation.
  virtual void end_steps(FitRank<T>&) {}
  /// Makes the chief's state whole, as it may be saved next: before and after on_epoch_end, and
  /// where Training::verify_after_step asks for it.
  virtual void complete(FitRank<T>&) {}
  /// After on_epoch_end.
  virtual void end_epoch(FitRank<T>&) {}
  /// Before on_train_end, on_preemption, or the way into another world.
  virtual void leave(FitRank<T>&, const FitEnd&) {}
  /// After these.
  virtual void left(FitRank<T>&, const FitEnd&) {}
  /// An exception ends fit. Called by one thread.
  virtual void abandon() noexcept {}
};

/// Variables that other processes (parameter servers) train, as a Trainer and its fits see them.
template <class T>
class RemoteVariables : public FitPart<T> {
 public:
  /// In a parameter server, serves until training ends, then throws Served. Elsewhere returns
  /// at once.
  virtual void serve() = 0;
  /// Whether a fit is training them.
  [[nodiscard]] virtual bool are_in_fit() const noexcept = 0;
  /// Whether this process has the variables, slots and counters of that fit.
  [[nodiscard]] virtual bool are_here() const noexcept = 0;
  /// Copies them into this process.
  virtual void pull() = 0;
  /// The updater with which a replica trains them.
  [[nodiscard]] virtual std::unique_ptr<Updater<T>> updater(const Parts<T>& parts) = 0;
};

/// Makes the remote variables of a Trainer; nullptr: this process trains its variables itself.
template <class T>
using MakeRemoteVariables = FunctionRef<std::unique_ptr<RemoteVariables<T>>(Trainer<T>&)>;
inline constexpr auto no_remote_variables = [](auto&) { return nullptr; };

}}}  // namespace lockstep::detail
