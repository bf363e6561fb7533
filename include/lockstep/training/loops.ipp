#pragma once

#include <optional>
#include <string>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/step/updaters/choose_updater.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/evaluate.ipp"
#include "lockstep/training/fit.ipp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/loops.hpp"
#include "lockstep/training/trainer.hpp"
#include "lockstep/training/worker_data.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
std::shared_ptr<Trainer<T>> make_trainer(const Program<T>& program,
                                         std::shared_ptr<AnyStrategy> strategy,
                                         std::optional<std::uint64_t> seed,
                                         const Synchronization& synchronization,
                                         MakeRemoteVariables<T> remote) {
  auto trainer =
      std::make_shared<Trainer<T>>(program, std::move(strategy), seed, synchronization, remote);
  const std::string takers = program.takers_of_logits();
  if (!takers.empty() && trainer->strategy().is_chief())
    log_warning(
        concat({"compile: the model's last layer has no activation, and ", takers,
                " would take what it gives for probabilities: set .from_logits = true, or end "
                "the model with a softmax or a sigmoid"}));
  return trainer;
}

template <class T>
Logs train_on_batch(Trainer<T>& trainer, const AnyDataset& batch) {
  if (trainer.is_in_fit())
    throw Error(
        "train_on_batch: this model is in fit: a callback may use test_on_batch and "
        "predict_on_batch of it");
  constexpr const char* call = "train_on_batch";
  refuse_rounds(call, trainer.variables());
  const WorkerData mine(call, batch, trainer.pass_place(), AutoShardPolicy::data);
  check_pass(call, mine, trainer.program().layout().data, std::nullopt);
  const std::string signature = pass_signature(mine, std::nullopt);
  Variables<T>& variables = trainer.variables();
  if (variables.shows_averages()) variables.swap_averages();
  const bool is_last = variables.accumulated_steps + 1 >= variables.accumulation_steps();
  bool has_updated = false;
  trainer.strategy().run([&](AnyReplica& replica) {
    const bool leader = replica.local_rank() == 0;
    const CommonCall common(replica, call, signature);
    const Parts<T> parts = trainer.parts(replica);
    BatchLoader<T> data(trainer.distribute(batch, replica, AutoShardPolicy::data),
                        trainer.has_targets());
    data.begin({.seed = variables.seed, .number = 0});
    parts.workspace.non_finite = {};
    const ResidualScope residuals(parts);
    const auto updater = trainer.updater(parts);
    const std::int64_t accumulated = variables.accumulated_steps;
    const bool by_this = train_step(parts, *updater, data,
                                    {.iteration = variables.iterations,
                                     .accumulated = accumulated,
                                     .loss_scale = variables.loss_scale.value,
                                     .board = replica.board()});
    if (!is_last) updater->carry(accumulated + 1);
    if (leader) has_updated = by_this;
  });
  const StatusBlock& status = trainer.workspace(0).status();
  const bool has_overflowed = status.has_overflowed();
  if (is_last)
    variables.complete_update(variables.iterations + (has_overflowed ? 0 : 1), has_updated,
                              has_overflowed);
  ++variables.revision;
  Logs logs;
  report(trainer.program(), status, logs);
  return logs;
}

template <class T>
std::uint32_t parameters_crc32c(const Trainer<T>& trainer) {
  return trainer.variables().parameters_crc32c();
}
template <class T>
std::uint64_t seed_of(const Trainer<T>& trainer) noexcept {
  return trainer.variables().seed;
}
template <class T>
double learning_rate_of(const Trainer<T>& trainer) {
  return trainer.variables().learning_rate();
}
template <class T>
void set_learning_rate(Trainer<T>& trainer, double learning_rate) {
  check_learning_rate(learning_rate, trainer.variables().has_schedule());
  trainer.variables().set_learning_rate(learning_rate);
}
template <class T>
double loss_scale_of(const Trainer<T>& trainer) noexcept {
  return trainer.variables().loss_scale.value;
}
template <class T>
std::int64_t iterations_of(const Trainer<T>& trainer) noexcept {
  return trainer.variables().iterations;
}
template <class T>
AnyStrategy& strategy_of(const Trainer<T>& trainer) noexcept {
  return trainer.strategy();
}
template <class T>
void check_variables_are_here(const Trainer<T>& trainer, std::string_view call) {
  trainer.check_variables_are_here(call);
}
template <class T>
std::size_t replicas_of(const Trainer<T>& trainer) noexcept {
  return trainer.replicas();
}
template <class T>
std::vector<NamedArray<T>> named_arrays_of(const Trainer<T>& trainer, std::size_t replica) {
  return trainer.named_arrays(replica);
}

LOCKSTEP_INSTANCE(std::shared_ptr<Trainer<LOCKSTEP_REAL>> make_trainer(
    const Program<LOCKSTEP_REAL>&, std::shared_ptr<AnyStrategy>, std::optional<std::uint64_t>,
    const Synchronization&, MakeRemoteVariables<LOCKSTEP_REAL>));
LOCKSTEP_INSTANCE(Logs train_on_batch(Trainer<LOCKSTEP_REAL>&, const AnyDataset&));
LOCKSTEP_INSTANCE(std::uint32_t parameters_crc32c(const Trainer<LOCKSTEP_REAL>&));
LOCKSTEP_INSTANCE(std::uint64_t seed_of(const Trainer<LOCKSTEP_REAL>&) noexcept);
LOCKSTEP_INSTANCE(double learning_rate_of(const Trainer<LOCKSTEP_REAL>&));
LOCKSTEP_INSTANCE(void set_learning_rate(Trainer<LOCKSTEP_REAL>&, double));
LOCKSTEP_INSTANCE(double loss_scale_of(const Trainer<LOCKSTEP_REAL>&) noexcept);
LOCKSTEP_INSTANCE(std::int64_t iterations_of(const Trainer<LOCKSTEP_REAL>&) noexcept);
LOCKSTEP_INSTANCE(AnyStrategy& strategy_of(const Trainer<LOCKSTEP_REAL>&) noexcept);
LOCKSTEP_INSTANCE(void check_variables_are_here(const Trainer<LOCKSTEP_REAL>&, std::string_view));
LOCKSTEP_INSTANCE(std::size_t replicas_of(const Trainer<LOCKSTEP_REAL>&) noexcept);
LOCKSTEP_INSTANCE(std::vector<NamedArray<LOCKSTEP_REAL>> named_arrays_of(
    const Trainer<LOCKSTEP_REAL>&, std::size_t));
}}}  // namespace lockstep::detail
