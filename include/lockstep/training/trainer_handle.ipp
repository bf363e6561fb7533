#pragma once

#include <utility>

#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/train_on_batch.hpp"
#include "lockstep/training/trainer.hpp"
#include "lockstep/training/trainer_handle.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
TrainerHandle<T>::TrainerHandle(const Program<T>& program, std::unique_ptr<AnyStrategy> strategy,
                                std::optional<std::uint64_t> seed,
                                const Synchronization& synchronization)
    : trainer_(std::make_unique<Trainer<T>>(program, std::move(strategy), seed, synchronization)) {}

template <class T>
TrainerHandle<T>::~TrainerHandle() = default;

template <class T>
History TrainerHandle<T>::fit(const AnyDataset& dataset, const FitOptions& options,
                              CallbackHooks& callbacks) {
  return trainer_->fit(dataset, options, callbacks);
}

template <class T>
Logs TrainerHandle<T>::evaluate(const AnyDataset& dataset, const EvaluateOptions& options,
                                CallbackHooks& callbacks) {
  return trainer_->evaluate(dataset, options, callbacks);
}

template <class T>
std::vector<T> TrainerHandle<T>::predict(const AnyDataset& dataset, const PredictOptions& options,
                                         CallbackHooks& callbacks) {
  return trainer_->predict(dataset, options, callbacks);
}

template <class T>
void TrainerHandle<T>::adapt(const AnyDataset& dataset, const AdaptOptions& options) {
  trainer_->adapt(dataset, options);
}

template <class T>
Logs TrainerHandle<T>::train_on_batch(const AnyDataset& batch) {
  return detail::train_on_batch(*trainer_, batch);
}

template <class T>
std::uint32_t TrainerHandle<T>::parameters_crc32c() const {
  return trainer_->variables().parameters_crc32c();
}

template <class T>
std::uint64_t TrainerHandle<T>::seed() const noexcept {
  return trainer_->variables().seed;
}

template <class T>
double TrainerHandle<T>::learning_rate() const {
  return trainer_->variables().learning_rate();
}

template <class T>
void TrainerHandle<T>::set_learning_rate(double learning_rate) {
  check_learning_rate(learning_rate, trainer_->variables().has_schedule());
  trainer_->variables().set_learning_rate(learning_rate);
}

template <class T>
std::int64_t TrainerHandle<T>::iterations() const noexcept {
  return trainer_->variables().iterations;
}

template <class T>
bool TrainerHandle<T>::is_in_fit() const noexcept {
  return trainer_->is_in_fit();
}

template <class T>
AnyStrategy& TrainerHandle<T>::strategy() const noexcept {
  return trainer_->strategy();
}

template <class T>
std::size_t TrainerHandle<T>::replicas() const noexcept {
  return trainer_->replicas();
}

template <class T>
std::vector<NamedArray<T>> TrainerHandle<T>::named_arrays(std::size_t replica) const {
  return trainer_->named_arrays(replica);
}

template <class T>
TrainingState TrainerHandle<T>::state() const {
  return save_state(*trainer_);
}

template <class T>
std::uint64_t TrainerHandle<T>::state_bytes() const {
  return detail::state_bytes(*trainer_);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
