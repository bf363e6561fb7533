// TrainerHandle: a Trainer as a Model holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/callbacks/callback_hooks.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/history.hpp"
#include "lockstep/training/named_arrays.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
class Trainer;

/// A Trainer behind declarations: a program that links lockstep::compiled compiles nothing of the
/// training loops. One thread at a time uses it.
template <class T>
class TrainerHandle {
 public:
  /// See ReplicatedModel; `program` must outlive it.
  TrainerHandle(const Program<T>& program, std::unique_ptr<AnyStrategy> strategy,
                std::optional<std::uint64_t> seed, const Synchronization& synchronization);
  TrainerHandle(const TrainerHandle&) = delete;
  TrainerHandle& operator=(const TrainerHandle&) = delete;
  ~TrainerHandle();

  /// For the library's own functions: to the program, Trainer is an incomplete type.
  [[nodiscard]] Trainer<T>& operator*() const noexcept { return *trainer_; }

  // What Model has under these names.
  History fit(const AnyDataset& dataset, const FitOptions& options, CallbackHooks& callbacks);
  Logs evaluate(const AnyDataset& dataset, const EvaluateOptions& options,
                CallbackHooks& callbacks);
  std::vector<T> predict(const AnyDataset& dataset, const PredictOptions& options,
                         CallbackHooks& callbacks);
  void adapt(const AnyDataset& dataset, const AdaptOptions& options);
  Logs train_on_batch(const AnyDataset& batch);
  [[nodiscard]] std::uint32_t parameters_crc32c() const;
  [[nodiscard]] std::uint64_t seed() const noexcept;
  [[nodiscard]] double learning_rate() const;
  void set_learning_rate(double learning_rate);
  [[nodiscard]] std::int64_t iterations() const noexcept;

  [[nodiscard]] bool is_in_fit() const noexcept;
  [[nodiscard]] AnyStrategy& strategy() const noexcept;
  [[nodiscard]] std::size_t replicas() const noexcept;
  /// See ReplicatedModel.
  [[nodiscard]] std::vector<NamedArray<T>> named_arrays(std::size_t replica) const;
  /// See save_state and state_bytes.
  [[nodiscard]] TrainingState state() const;
  [[nodiscard]] std::uint64_t state_bytes() const;

 private:
  std::unique_ptr<Trainer<T>> trainer_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/training/trainer_handle.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(class TrainerHandle<float>);
LOCKSTEP_INSTANCE(class TrainerHandle<double>);
}  // namespace lockstep::inline LOCKSTEP_ABI::detail
