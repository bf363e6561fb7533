// The training loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/model/agreement.hpp"
#include "lockstep/model/fit_options.hpp"
#include "lockstep/model/history.hpp"
#include "lockstep/model/model_training.hpp"
#include "lockstep/model/steps.hpp"
#include "lockstep/model/test_pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// One call of fit. The object is shared by the replicas of a process; `run` is what each of them does. Only the first
/// replica of a process (the leader) calls callbacks and touches what is shared, while the others wait at a barrier or in a
/// reduction that needs the leader.
template <class Model, class Callbacks>
class FitLoop final : public ModelTraining<Model> {
  using Base = ModelTraining<Model>;
  using Base::compiled_;
  using Base::model_;
  using Compiled = typename Model::Compiled;
  using Status = typename Compiled::Status;
  using Own = typename Compiled::Replica;

 public:
  FitLoop(Model& model, const AnyDataset& train, const FitOptions& options, Callbacks& callbacks)
      : Base(model),
        train_(train),
        options_(options),
        callbacks_(callbacks),
        progress_(model.strategy_.is_chief() ? options.verbose : 0, options.epochs) {
    check();
  }

  [[nodiscard]] History take_history() { return std::move(history_); }

  /// What each replica runs; ranks stay in step because every decision is taken from reduced figures.
  template <Replica R>
  void run(R& replica) {
    const bool leader = replica.local_rank() == 0;
    Own& own = *model_.replicas_[static_cast<std::size_t>(replica.local_rank())];
    DistributedDataset<AnyDataset> data(train_, model_.distribution(replica));
    std::optional<DistributedDataset<AnyDataset>> validation;
    if (options_.validation_data) validation.emplace(options_.validation_data, model_.distribution(replica));
    agree(replica.collective(), "fit", signature());
    if (leader) {
      if (model_.strategy_.is_chief() && options_.verbose == 2) log_line("data sharding: " + data.policy_text());
      callbacks_.on_train_begin(*this);
    }
    resume(replica, own);

    Resume at = at_;
    bool begun = false;
    bool finished = false;
    for (int epoch = static_cast<int>(at.epoch); epoch < options_.epochs && !finished; ++epoch) {
      if (leader) {
        callbacks_.on_epoch_begin(*this, epoch);
        progress_.begin_epoch(epoch, target_);
      }
      replica.team_barrier();
      if (!begun || new_pass_each_epoch_) data.begin({.seed = compiled_.state.seed, .number = at.data_iteration});
      if (!begun && at.data_position > 0) data.seek(at.data_position);
      begun = true;

      Status running;
      std::copy(at.running.begin(), at.running.end(), running.values().begin());
      at.running.clear();
      finished = train_epoch(replica, own, data, epoch, at, running);

      average_state<Compiled>(own, replica);
      Status validated;
      const bool validation_due = validation && options_.validation_freq.due(epoch);
      if (validation_due) validated = this->validate(replica, own, *validation, leader);
      at.epoch = epoch + 1;
      at.step = 0;
      if (new_pass_each_epoch_) {
        ++at.data_iteration;
        at.data_position = 0;
      }
      if (leader) end_epoch(epoch, running, validation_due ? &validated : nullptr);
      finished = agree_to_stop(replica, leader) || finished;
      if (leader) {
        at_ = at;
        callbacks_.on_epoch_complete(*this, epoch);
      }
      replica.team_barrier();
    }
    if (leader) callbacks_.on_train_end(*this, logs_);
  }

  void stop_training() override { stop_ = true; }

  [[nodiscard]] TrainingState state() const override {
    TrainingState saved = model_.save_state();
    saved.epoch = at_.epoch;
    saved.step = at_.step;
    saved.data_iteration = at_.data_iteration;
    saved.data_position = at_.data_position;
    saved.running = at_.running;
    saved.callbacks = callbacks_.save();
    return saved;
  }

  void restore(std::vector<std::byte> saved, DecodeState decode) override {
    pending_ = std::move(saved);
    decode_ = decode;
  }

 private:
  /// Where training goes on: position in the data and the sums of the epoch so far.
  struct Resume {
    std::int64_t epoch = 0;
    std::int64_t step = 0;
    std::int64_t data_iteration = 0;
    std::int64_t data_position = 0;
    std::vector<double> running;
  };

  void check() {
    const auto refuse = [](const std::string& what) { throw ConfigurationError("fit: " + what); };
    if (options_.epochs <= 0) refuse("epochs must be at least 1, got " + std::to_string(options_.epochs));
    if (options_.initial_epoch < 0)
      refuse("initial_epoch must be at least 0, got " + std::to_string(options_.initial_epoch));
    if (options_.steps_per_epoch && *options_.steps_per_epoch <= 0)
      refuse("steps_per_epoch must be at least 1, got " + std::to_string(*options_.steps_per_epoch));
    if (options_.validation_steps && *options_.validation_steps <= 0)
      refuse("validation_steps must be at least 1, got " + std::to_string(*options_.validation_steps));
    check_sizes<Compiled>("fit", train_, true);
    const std::int64_t batches = train_.cardinality();
    if (batches == 0) throw DataError("fit: the training data is empty");
    if (batches == infinite_cardinality && !options_.steps_per_epoch)
      refuse("the training data repeats forever: give .steps_per_epoch");
    if (options_.validation_data) {
      check_sizes<Compiled>("fit: validation_data", options_.validation_data, true);
      if (options_.validation_data.cardinality() == infinite_cardinality && !options_.validation_steps)
        refuse("validation_data repeats forever: give .validation_steps");
    }
    // As in Keras: an explicit number of steps goes on with the same iterator, unless it is one whole pass.
    new_pass_each_epoch_ = !options_.steps_per_epoch || *options_.steps_per_epoch == batches;
    target_ = options_.steps_per_epoch ? options_.steps_per_epoch
              : batches > 0            ? std::optional<std::int64_t>(batches)
                                       : std::nullopt;
    at_.epoch = options_.initial_epoch;
  }

  /// What the workers must have in common for this fit.
  [[nodiscard]] std::string signature() const {
    const auto number = [](const std::optional<std::int64_t>& value) {
      return value ? std::to_string(*value) : std::string("until the data ends");
    };
    return "epochs: " + std::to_string(options_.epochs) + "\ninitial_epoch: " + std::to_string(options_.initial_epoch) +
           "\nsteps_per_epoch: " + number(options_.steps_per_epoch) +
           "\nvalidation: " + (options_.validation_data ? "yes" : "no") +
           "\nvalidation_steps: " + number(options_.validation_steps);
  }

  /// Takes over the chief's variables, and its saved state where a callback has found one.
  template <Replica R>
  void resume(R& replica, Own& own) {
    const bool leader = replica.local_rank() == 0;
    const std::vector<std::byte> saved =
        bytes_from_chief(replica.collective(), leader ? std::move(pending_) : std::vector<std::byte>{});
    if (!saved.empty() && leader) {
      if (decode_ == nullptr)
        throw ConfigurationError("fit: the chief restores a saved state, this worker has no callback that can: start "
                                 "the same program on every worker");
      TrainingState state = decode_(saved);
      model_.restore_state(state);
      callbacks_.restore(state.callbacks);
      at_ = {state.epoch, state.step, state.data_iteration, state.data_position, std::move(state.running)};
      if (at_.running.size() > Status{}.values().size())
        throw ConfigurationError("fit: the saved state has other metrics than this program");
    }
    replica.team_barrier();
    if (saved.empty()) model_.broadcast_from_chief(replica, own);
  }

  /// Runs the steps of an epoch. Returns true when training ends with it.
  template <Replica R>
  bool train_epoch(R& replica, Own& own, DistributedDataset<AnyDataset>& data, int epoch, Resume& at, Status& running) {
    const bool leader = replica.local_rank() == 0;
    const bool wait_for_callbacks = Callbacks::has_train_batch_hooks && replica.local_size() > 1;
    std::int64_t iteration = compiled_.state.iterations;
    bool more = true;
    bool stop = false;
    while (more && !stop && (!options_.steps_per_epoch || at.step < *options_.steps_per_epoch)) {
      if (leader) callbacks_.on_train_batch_begin(*this, at.step);
      if (wait_for_callbacks) replica.team_barrier();
      const Status status = train_step(compiled_, own, replica, data, iteration, leader && stop_);
      if (status[Status::samples] == 0) {
        if (at.step == 0 && epoch == options_.initial_epoch) throw DataError("fit: the training data is empty");
        more = false;
        break;
      }
      running.accumulate(status);
      ++iteration;
      const std::int64_t batch = at.step++;
      at.data_position = data.position();
      more = status[Status::has_next] > 0;
      stop = status[Status::stop] > 0;
      if (leader) {
        compiled_.state.iterations = iteration;
        compiled_.report(running, logs_);
        callbacks_.on_train_batch_end(*this, batch, logs_);
        progress_.update(at.step, logs_);
        if constexpr (Callbacks::has_train_batch_hooks) {
          at_ = at;
          at_.running.assign(running.values().begin(), running.values().end());
          callbacks_.on_train_batch_complete(*this, batch);
        }
      }
      if (wait_for_callbacks) replica.team_barrier();
    }
    if (stop && leader) stop_ = true;  // the request of any worker is now everyone's
    const bool more_wanted = options_.steps_per_epoch && !stop &&
                             (at.step < *options_.steps_per_epoch ||
                              (!more && !new_pass_each_epoch_ && epoch + 1 < options_.epochs));
    if (more || !more_wanted) return stop;
    if (leader && this->is_chief())
      log_line("warning: fit: the data ran out, training ends after epoch " + std::to_string(epoch + 1) +
                  ": steps_per_epoch * epochs needs " +
                  std::to_string(*options_.steps_per_epoch * (options_.epochs - options_.initial_epoch)) +
                  " batches; use repeat() for more data");
    return true;
  }

  template <Replica R>
  Status validate(R& replica, Own& own, DistributedDataset<AnyDataset>& data, bool leader) {
    if (!leader) return test_pass(compiled_, own, replica, data, options_.validation_steps, NoTestHooks{});
    return test_pass(compiled_, own, replica, data, options_.validation_steps,
                     TestHooks<Compiled, Callbacks>(*this, compiled_, callbacks_));
  }

  void end_epoch(int epoch, const Status& running, const Status* validated) {
    logs_.clear();
    compiled_.report(running, logs_);
    if (validated != nullptr) compiled_.report(*validated, logs_, "val_");
    callbacks_.on_epoch_end(*this, epoch, logs_);
    progress_.end_epoch(logs_);
    history_.append(epoch, logs_);
  }

  /// True when a callback on any worker has asked to stop.
  template <Replica R>
  bool agree_to_stop(R& replica, bool leader) {
    double requests = leader && stop_ ? 1 : 0;
    replica.collective().all_reduce(std::span<double>(&requests, 1), ReduceOp::sum);
    return requests > 0;
  }

  const AnyDataset& train_;
  const FitOptions& options_;
  Callbacks& callbacks_;
  ProgressBar progress_;
  History history_;
  Logs logs_;
  Resume at_;
  bool new_pass_each_epoch_ = true;
  std::optional<std::int64_t> target_;
  bool stop_ = false;
  std::vector<std::byte> pending_;
  DecodeState decode_ = nullptr;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
