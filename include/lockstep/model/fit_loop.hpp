// The training loop.
#pragma once

#include <chrono>
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
#include "lockstep/core/text.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/model/agreement.hpp"
#include "lockstep/model/fit_options.hpp"
#include "lockstep/model/fit_plan.hpp"
#include "lockstep/model/history.hpp"
#include "lockstep/model/model_training.hpp"
#include "lockstep/model/profile.hpp"
#include "lockstep/model/rank_times.hpp"
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
  using Loader = BatchLoader<typename Compiled::Scalar>;

 public:
  FitLoop(Model& model, const AnyDataset& train, const FitOptions& options, Callbacks& callbacks)
      : Base(model),
        train_(train),
        options_(options),
        callbacks_(callbacks),
        plan_(plan_fit(train, options, Compiled::data_sizes, model.strategy_.num_workers())),
        progress_(model.strategy_.is_chief() ? options.verbose : 0, options.epochs) {
    at_.epoch = options.initial_epoch;
    if (!options.profile.empty()) profile_.emplace(model.layer_names(), model.strategy_.local_replicas());
  }

  [[nodiscard]] History take_history() { return std::move(history_); }

  /// What each replica runs; ranks stay in step because every decision is taken from reduced figures.
  template <Replica R>
  void run(R& replica) {
    const bool leader = replica.local_rank() == 0;
    Own& own = *model_.replicas_[static_cast<std::size_t>(replica.local_rank())];
    Loader data(model_.distribute(train_, replica), Compiled::has_targets);
    std::optional<Loader> validation;
    if (options_.validation_data)
      validation.emplace(model_.distribute(options_.validation_data, replica), Compiled::has_targets);
    agree(replica.collective(), "fit", fit_signature(options_));
    if (leader) {
      if (model_.strategy_.is_chief() && options_.verbose == 2) log_line("data sharding: " + data.policy_text());
      if (profile_) write_profile(*profile_, options_.profile, this->worker_index());  // a bad path ends it here
      callbacks_.on_train_begin(*this);
    }
    resume(replica, own);

    Resume at = at_;
    bool begun = false;
    bool finished = false;
    for (int epoch = static_cast<int>(at.epoch); epoch < options_.epochs && !finished; ++epoch) {
      if (leader) {
        callbacks_.on_epoch_begin(*this, epoch);
        progress_.begin_epoch(epoch, plan_.target);
      }
      replica.team_barrier();
      if (!begun || plan_.new_pass_each_epoch) data.begin({.seed = compiled_.state.seed, .number = at.data_iteration});
      if (!begun && at.data_position > 0) data.seek(at.data_position);
      begun = true;

      Status running;
      std::copy(at.running.begin(), at.running.end(), running.values().begin());
      at.running.clear();
      const std::int64_t first_step = at.step;
      const auto begin = Trace::Clock::now();
      finished = train_epoch(replica, own, data, epoch, at, running);
      const auto duration = Trace::Clock::now() - begin;
      if (leader && !plan_.target) plan_.target = at.step;  // the progress bar learns it in the first epoch

      Status validated;
      const bool validation_due = validation && options_.validation_freq.due(epoch);
      if (validation_due) validated = this->validate(replica, own, *validation, leader);
      if (validation_due && validated[Status::samples] == 0) throw DataError("fit: validation_data is empty");
      const std::int64_t steps = at.step - first_step;
      at.epoch = epoch + 1;
      at.step = 0;
      if (plan_.new_pass_each_epoch) {
        ++at.data_iteration;
        at.data_position = 0;
      }
      if (leader) end_epoch(epoch, running, validation_due ? &validated : nullptr);
      report_rank_times(replica, own, epoch, steps, duration);
      if (profile_) {
        Trace& trace = profile_->trace(replica.local_rank());
        if (leader && this->is_chief()) log_line(profile_table(*profile_, epoch, steps, duration));
        trace.clear_totals();
      }
      finished = any_rank(replica, leader && stop_) || finished;
      if (leader) {
        at_ = at;
        callbacks_.on_epoch_complete(*this, epoch);
      }
      replica.team_barrier();
    }
    if (leader) callbacks_.on_train_end(*this, logs_);
    if (leader && profile_) finish_profile();
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

  /// Takes over the chief's variables, and its saved state where a callback has found one.
  template <Replica R>
  void resume(R& replica, Own& own) {
    const bool leader = replica.local_rank() == 0;
    const std::vector<std::byte> saved =
        bytes_from_chief(replica.collective(), leader ? std::move(pending_) : std::vector<std::byte>{});
    if (!saved.empty() && leader) {
      if (decode_ == nullptr)
        throw ConfigurationError(
            "fit: the chief restores a saved state, this worker has no callback that can: start "
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
  bool train_epoch(R& replica, Own& own, Loader& data, int epoch, Resume& at, Status& running) {
    const bool leader = replica.local_rank() == 0;
    const bool wait_for_callbacks = Callbacks::has_train_batch_hooks && replica.local_size() > 1;
    std::int64_t iteration = compiled_.state.iterations;
    bool more = at.step == 0 || any_rank(replica, data.has_next());  // resumed after the last step of an epoch: none
    bool stop = false;
    Trace* const trace = profile_ ? &profile_->trace(replica.local_rank()) : nullptr;
    while (more && !stop && (!options_.steps_per_epoch || at.step < *options_.steps_per_epoch)) {
      if (leader) {
        const TraceSpan span(trace, TracePart::callbacks);
        callbacks_.on_train_batch_begin(*this, at.step);
      }
      if (wait_for_callbacks) replica.team_barrier();
      const Status status = train_step(compiled_, own, replica, data, iteration, leader && stop_, trace);
      if (status[Status::samples] == 0) {
        if (at.step == 0 && at.data_position == 0) throw DataError("fit: the training data is empty");
        more = false;
        break;
      }
      running.accumulate(status);
      ++iteration;
      const std::int64_t batch = at.step++;
      ++at.data_position;  // not data.position(): a rank whose data have ended stays behind
      more = status[Status::has_next] > 0;
      stop = status[Status::stop] > 0;
      const TraceSpan span(trace, TracePart::callbacks);
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
    const bool more_wanted =
        options_.steps_per_epoch && !stop &&
        (at.step < *options_.steps_per_epoch || (!more && !plan_.new_pass_each_epoch && epoch + 1 < options_.epochs));
    if (more || !more_wanted) return stop;
    if (leader && this->is_chief())
      log_line(concat({"warning: fit: the data ran out, training ends after epoch ", epoch + 1,
                       ": steps_per_epoch * epochs needs ",
                       *options_.steps_per_epoch * (options_.epochs - options_.initial_epoch),
                       " batches; use repeat() for more data"}));
    return true;
  }

  template <Replica R>
  Status validate(R& replica, Own& own, Loader& data, bool leader) {
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

  /// Gathered on every rank whatever its own verbosity, so that all make the same calls.
  template <Replica R>
  void report_rank_times(R& replica, Own& own, int epoch, std::int64_t steps, Trace::Clock::duration duration) {
    auto& collective = replica.collective();
    if (collective.size() == 1) return;
    const auto seconds = [](Trace::Clock::duration time) { return std::chrono::duration<double>(time).count(); };
    const auto in_collective = std::exchange(own.in_collective, {});
    const RankTime mine{.compute = seconds(duration - in_collective), .collective = seconds(in_collective)};
    std::vector<RankTime> all(static_cast<std::size_t>(collective.size()));
    collective.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    if (replica.local_rank() == 0 && this->is_chief() && options_.verbose == 2)
      log_line(rank_times_text(all, epoch, steps));
  }

  /// Training is done: what is wrong with the file now shall not take it away.
  void finish_profile() const {
    try {
      log_line("profile: wrote " + write_profile(*profile_, options_.profile, this->worker_index()));
      const std::size_t left_out = profile_->traces()[0].left_out();
      if (left_out > 0)
        log_line(concat({"profile: it has the first events only, ", left_out, " later ones are left out"}));
    } catch (const Error& error) {
      log_line(std::string("warning: profile: ") + error.what());
    }
  }

  /// True on every rank when `mine` is true on any.
  template <Replica R>
  static bool any_rank(R& replica, bool mine) {
    double count = mine ? 1 : 0;
    replica.collective().all_reduce(std::span<double>(&count, 1), ReduceOp::sum);
    return count > 0;
  }

  const AnyDataset& train_;
  const FitOptions& options_;
  Callbacks& callbacks_;
  FitPlan plan_;
  ProgressBar progress_;
  History history_;
  Logs logs_;
  std::optional<Profile> profile_;
  Resume at_;
  bool stop_ = false;
  std::vector<std::byte> pending_;
  DecodeState decode_ = nullptr;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
