// Trainer: fit, evaluate, predict and adapt.
#pragma once

#include <vector>

#include "lockstep/callbacks/callback_hooks.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/history.hpp"
#include "lockstep/training/replicated_model.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A model on its replicas, and the loops over it. All of training that does not depend on the
/// user's types: compiled once for each scalar type. Used by one thread.
template <class T>
class Trainer : public ReplicatedModel<T> {
 public:
  using ReplicatedModel<T>::ReplicatedModel;

  // What Model has under these names.
  History fit(const AnyDataset& dataset, const FitOptions& options, CallbackHooks& callbacks);
  Logs evaluate(const AnyDataset& dataset, const EvaluateOptions& options,
                CallbackHooks& callbacks);
  /// The rows, one after the other.
  std::vector<T> predict(const AnyDataset& dataset, const PredictOptions& options,
                         CallbackHooks& callbacks);
  void adapt(const AnyDataset& dataset, const AdaptOptions& options);

  [[nodiscard]] bool is_in_fit() const noexcept { return is_in_fit_; }
  /// Within a fit with parameter servers: their variables become this worker's, to be saved.
  void catch_up();

 private:
  bool is_in_fit_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/training/trainer.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(class Trainer<float>);
LOCKSTEP_INSTANCE(class Trainer<double>);
}  // namespace lockstep::inline LOCKSTEP_ABI::detail
