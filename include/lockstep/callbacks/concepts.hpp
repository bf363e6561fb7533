// The Callback concept.
#pragma once

#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A callback has at least one of the hooks, callable with the hook's arguments.
template <class C>
concept HookedCallback = detail::has_hook<C>();

/// Each hook that C names is callable with the hook's arguments, and C has no name that looks like
/// a hook's.
template <class C>
concept CorrectHooks = detail::hooks_are_callable<C>() && !detail::has_near_miss<C>();

/// State is saved and restored, or neither name exists.
template <class C>
concept RestorableCallback = (!detail::has_save<C>() && !detail::has_restore<C>()) ||
                             requires(C& c, const C& same, State& out, const State& in) {
                               same.save(out);
                               c.restore(in);
                             };

/// A callback of fit, evaluate or predict: a class with any of these hooks (`epoch` is an int,
/// `batch` a std::int64_t, both from 0; `batch` within its epoch):
///
/// | hook | called |
/// |---|---|
/// | `on_train_begin(Training&)` | once, before anything |
/// | `on_epoch_begin(Training&, epoch)` | |
/// | `on_train_batch_begin(Training&, batch)` | before each step |
/// | `on_train_batch_end(Training&, batch, Logs&)` | after each step, with the epoch's averages |
/// | `on_train_batch_complete(Training&, batch)` | after all callbacks: state can be saved |
/// | `on_test_begin(Training&)` | before a validation or evaluate |
/// | `on_test_end(Training&, Logs&)` | after it |
/// | `on_test_batch_begin(Training&, batch)` | |
/// | `on_test_batch_end(Training&, batch, Logs&)` | with the sums of this worker |
/// | `on_epoch_end(Training&, epoch, Logs&)` | with val_*; later callbacks see changes |
/// | `on_epoch_complete(Training&, epoch)` | after all callbacks: state can be saved |
/// | `on_preemption(Training&)` | the process must stop: state can be saved; fit throws |
/// | `on_train_end(Training&, Logs&)` | once, at a normal end (early stop included) |
/// | `on_train_abort(Training&)` | an exception ends fit (or Preempted); on each worker by itself |
/// | `on_predict_begin(Training&)` | before predict |
/// | `on_predict_end(Training&)` | after it |
/// | `on_predict_batch_begin(Training&, batch)` | |
/// | `on_predict_batch_end(Training&, batch)` | without the outputs, which predict returns |
///
///  1. At least one hook exists.
///  2. A hook whose name exists must be callable as above; names that look like a misspelled hook
///     are refused. A callback never does nothing in silence: fit warns of a function that bears
///     the name of another framework's hook (`after_epoch`).
///  3. Optional, together: `save(State&) const` and `restore(const State&)`; restore is called
///     before the first epoch of a resumed run. No other member may have these names. A resumed run
///     finds the state by the name of the type and, where a program has several of it, by an
///     optional `std::string state_key() const`, such as the figure that the callback monitors. A
///     callback that is new begins as it is, and the state of one that is gone is dropped; the
///     chief says so.
///  4. Optional: `static constexpr bool stops_training = false;` says that on_train_batch_end never
///     asks to stop, which spares the workers an exchange after each step.
///  5. Optional: `CallbackHooks::Presence hooks_in_use() const`, of a callback that knows only at
///     run time which of its hooks it needs, as LambdaCallback.
///
/// A hook may use models of the same strategy, also the one in training: predict, evaluate, save,
/// load_weights, get_weights and set_weights; another model may be compiled and fitted too. All
/// workers must make the same calls, and training goes on to the same bits unless the hook changes
/// something. (With parameter servers, variables may be set in on_train_end alone.) The hooks
/// on_test_batch_... and on_predict_batch_... may not use models of the strategy, whose replicas
/// are at work then; workers may call the former a different number of times.
///
/// An exception of a hook ends fit on all workers. The place is put in front of its message ("fit,
/// epoch 3, on_epoch_end of SaveImages: disk full"); an exception of another type becomes an Error,
/// with the original nested in it.
///
/// Minimal model:
/// @code
/// struct StopAtAccuracy {
///   double wanted;
///   void on_epoch_end(lockstep::Training& training, int, lockstep::Logs& logs) {
///     if (logs.at("accuracy") >= wanted) training.stop_training();
///   }
/// };
/// @endcode
template <class C>
concept Callback = HookedCallback<C> && CorrectHooks<C> && RestorableCallback<C>;

}}  // namespace lockstep
