#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/saved_arrays.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
ArrayList trained_arrays(const Program<T>& program, const Arena<T>& arena) {
  return array_list<T>(program.layout().variables, program.names().variables, arena.slices());
}
template <class T>
ArrayList untrained_arrays(const Program<T>& program, const Arena<T>& state) {
  return array_list<T>(program.layout().state_variables, program.names().state_variables,
                       state.slices());
}

/// Where the workers share out updates, the optimizer's slots that are spread over them.
template <class T>
std::size_t shared_slots(const Trainer<T>& model) noexcept {
  return model.variables().shares_updates() ? model.program().layout().slots : 0;
}

template <class T>
std::size_t slot_count(const Trainer<T>& model) noexcept {
  return model.variables().slots().size() + shared_slots(model);
}

template <class T>
const Arena<T>& whole_slot(const Trainer<T>& model, std::size_t number) {
  const std::size_t shared = shared_slots(model);
  if (number >= shared) return model.variables().slots()[number - shared];
  if (!model.has_all_slots() || model.whole_slots().empty())
    throw Error(concat(
        {"the state of worker ", model.strategy().worker_index(),
         " has not all slots of the optimizer: with sharded_updates, the chief alone gets them, "
         "where a state is complete: in on_epoch_end, on_epoch_complete, on_preemption and "
         "on_train_end, and in on_train_batch_complete after verify_after_step in "
         "on_train_batch_begin"}));
  return model.whole_slots()[number];
}

template <class T>
void load_slot(Trainer<T>& model, const TrainingState& saved, std::size_t number, bool check_only) {
  const Program<T>& program = model.program();
  Variables<T>& variables = model.variables();
  const std::size_t first = number * program.layout().variables.size();
  const std::size_t shared = shared_slots(model);
  if (number >= shared)
    return load_arrays(saved.slots, first,
                       trained_arrays(program, variables.slots()[number - shared]), check_only);
  const Arena<T> whole(program.layout().variables);
  load_arrays(saved.slots, first, trained_arrays(program, whole), check_only);
  if (check_only) return;
  for (const SharePiece& piece : variables.shares().of(variables.worker()))
    std::ranges::copy(
        whole.values().subspan(piece.begin, piece.size),
        variables.slot_share(number).begin() + static_cast<std::ptrdiff_t>(piece.place));
}

/// In a fit, with the parameter servers.
template <class T>
bool is_elsewhere(const Trainer<T>& model) noexcept {
  return model.remote() != nullptr && model.remote()->are_in_fit() && !model.remote()->are_here();
}

template <class T>
bool has_whole_state(const Trainer<T>& model) {
  return !is_elsewhere(model) &&
         (shared_slots(model) == 0 || (model.has_all_slots() && !model.whole_slots().empty()));
}

template <class T>
TrainingState save_state(const Trainer<T>& model, TrainingState reused, bool before_step) {
  const Program<T>& program = model.program();
  const Variables<T>& variables = model.variables();
  AnyStrategy& strategy = model.strategy();
  if (is_elsewhere(model))
    throw Error(
        "save: within a fit with parameter servers, the optimizer's state is theirs: files are "
        "saved by callbacks such as ModelCheckpoint and BackupAndRestore, or after the fit");
  TrainingState saved;
  saved.signature = model.signature();
  if (reused.signature == saved.signature) {  // then its arrays are as large as this model's
    saved.parameters = std::move(reused.parameters);
    saved.state = std::move(reused.state);
    saved.slots = std::move(reused.slots);
  }
  saved.world_size = strategy.num_replicas_in_sync();
  saved.scalar = scalar_name<T>();
  saved.iterations = variables.iterations;
  saved.learning_rate = variables.learning_rate();
  saved.previous_learning_rate = variables.previous_learning_rate;
  saved.accumulated_steps = variables.accumulated_steps;
  saved.accumulated_rows = variables.accumulated_rows;
  saved.shows_averages = variables.shows_averages();
  saved.seed = variables.seed;
  saved.data_iteration = variables.next_pass;
  save_arrays(saved.parameters, 0, trained_arrays(program, variables.parameters()));
  const std::size_t count = program.layout().variables.size();
  for (std::size_t i = 0; i < slot_count(model); ++i)
    save_arrays(saved.slots, i * count, trained_arrays(program, whole_slot(model, i)),
                concat({"/slot_", i}));
  const std::size_t in_slots = slot_count(model) * count;
  const bool is_in_window = variables.accumulated_steps > 0;
  if (is_in_window)
    save_arrays(saved.slots, in_slots, trained_arrays(program, variables.accumulated()),
                "/accumulated");
  saved.slots.resize(in_slots + (is_in_window ? count : 0));
  model.rank_state().save(saved.slots, static_cast<std::size_t>(strategy.num_replicas_in_sync()));
  const Workspace<T>& first = model.workspace(0);
  save_arrays(saved.state, 0,
              untrained_arrays(program, before_step ? first.state_before_step() : first.state()));
  return saved;
}

template <class T>
std::uint64_t state_bytes(const Trainer<T>& model) {
  const Variables<T>& variables = model.variables();
  const std::size_t trained = variables.parameters().values().size() * (1 + slot_count(model)) +
                              variables.accumulated().values().size();
  // Of a run on many ranks, too, that goes on with few.
  const auto ranks =
      std::max<std::size_t>(64, static_cast<std::size_t>(model.strategy().num_replicas_in_sync()));
  const std::size_t own = variables.parameters().values().size() * ranks *
                          (variables.own_slots() + (model.has_residuals() ? 1 : 0));
  return (trained + own + model.workspace(0).state().values().size()) * sizeof(T);
}

template <class T>
void restore_state(Trainer<T>& model, const TrainingState& saved, const RestoreRules& rules) {
  const Program<T>& program = model.program();
  Variables<T>& variables = model.variables();
  const SignatureDifferences differences =
      check_signature(saved.signature, model.signature(), rules);
  if (saved.scalar != scalar_name<T>())
    throw ConfigurationError(concat(
        {"restore: the saved state is of ", saved.scalar, ", this model of ", scalar_name<T>()}));
  const std::size_t count = program.layout().variables.size();
  const bool is_in_window =
      saved.accumulated_steps > 0 && !variables.accumulated().values().empty();
  const std::size_t behind = (slot_count(model) + (is_in_window ? 1 : 0)) * count;
  if (saved.parameters.size() != count || !model.rank_state().fits(saved, behind))
    throw ConfigurationError(
        concat({"restore: the saved state has ", saved.parameters.size(), " parameter arrays and ",
                saved.slots.size(), " optimizer arrays, this model has ", count, " and ",
                slot_count(model) * count, ": it belongs to another program"}));
  for (const bool check_only : {true, false}) {
    for (std::size_t i = 0; i < model.replicas(); ++i)
      load_arrays(saved.state, 0, untrained_arrays(program, model.workspace(i).state()),
                  check_only);
    load_arrays(saved.parameters, 0, trained_arrays(program, variables.parameters()), check_only);
    for (std::size_t i = 0; i < slot_count(model); ++i) load_slot(model, saved, i, check_only);
    if (is_in_window)
      load_arrays(saved.slots, slot_count(model) * count,
                  trained_arrays(program, variables.accumulated()), check_only);
    model.rank_state().load(saved, behind, model.place(), model.workspace(0).residuals(),
                            check_only);
  }
  variables.iterations = saved.iterations;
  ++variables.revision;
  variables.set_learning_rate(saved.learning_rate);
  variables.previous_learning_rate = saved.previous_learning_rate;
  if (!is_in_window) std::ranges::fill(variables.accumulated().values(), T(0));
  variables.accumulated_steps = saved.accumulated_steps;
  variables.accumulated_rows = saved.accumulated_rows;
  variables.set_shows_averages(saved.shows_averages);
  variables.seed = saved.seed;
  variables.next_pass = saved.data_iteration + (saved.data_position > 0 ? 1 : 0);  // a new one
  if (!model.strategy().is_chief()) return;
  if (!differences.in_options.empty())
    log_line(concat({"restore: goes on with other options than the saved state: it has ",
                     differences.in_options}));
  if (differences.in_learning_rate)
    log_line(
        variables.has_schedule()
            ? concat(
                  {"restore: goes on with the schedule of this program, now at the learning rate ",
                   variables.learning_rate(), "; the saved state has ", saved.learning_rate})
            : concat({"restore: goes on with the learning rate ", saved.learning_rate,
                      " of the saved state; this program has ", program.initial_learning_rate()}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(TrainingState save_state(const Trainer<LOCKSTEP_REAL>&, TrainingState, bool));
LOCKSTEP_INSTANCE(bool has_whole_state(const Trainer<LOCKSTEP_REAL>&));
LOCKSTEP_INSTANCE(std::uint64_t state_bytes(const Trainer<LOCKSTEP_REAL>&));
LOCKSTEP_INSTANCE(void restore_state(Trainer<LOCKSTEP_REAL>&, const TrainingState&,
                                     const RestoreRules&));
}  // namespace lockstep::inline LOCKSTEP_ABI::detail
