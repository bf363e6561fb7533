#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/evaluate.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/fit_state.hpp"
#include "lockstep/training/loops.hpp"
#include "lockstep/training/model_training.hpp"
#include "lockstep/training/quantiles.hpp"
#include "lockstep/training/trainer.hpp"
#include "lockstep/training/worker_data.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
Logs evaluate(Trainer<T>& trainer, const AnyDataset& dataset, const EvaluateOptions& options,
              CallbackHooks& callbacks) {
  const WorkerData mine("evaluate", dataset, trainer.pass_place());
  check_pass("evaluate", mine, trainer.program().layout().data, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  ModelTraining<T> training(trainer);
  ProgressBar progress(trainer.strategy().is_chief() ? options.verbose : 0);
  const std::int64_t batches = mine.steps();
  progress.begin_epoch(0, options.steps  ? options.steps
                          : batches >= 0 ? std::optional(batches)
                                         : std::nullopt);
  StatusBlock result(trainer.program().layout().metric_state);
  trainer.strategy().run([&](AnyReplica& replica) {
    const CommonCall call(replica, "evaluate", signature);
    BatchLoader<T> data(trainer.distribute(dataset, replica), trainer.has_targets());
    if (replica.local_rank() != 0) {
      evaluate_pass<T>(trainer.parts(replica), data, options.steps, nullptr);
      return;
    }
    callbacks.report_to(replica.board());
    TestHooks<T> hooks(training, trainer.program(), callbacks, {.call = "evaluate"}, &progress);
    result = evaluate_pass(trainer.parts(replica), data, options.steps, &hooks, "evaluate");
  });
  if (result[StatusBlock::samples] == 0)
    throw DataError("evaluate: the data is empty" + mine.why_empty());
  Logs logs;
  report(trainer.program(), result, logs);
  return logs;
}

/// Calls the on_predict_batch_* hooks.
class PredictHooks {
 public:
  /// `place`: what messages call the pass.
  PredictHooks(Training& training, CallbackHooks& callbacks, const Activity& place)
      : training_(training), callbacks_(callbacks), place_(place) {}

  void batch_begin(std::int64_t batch) {
    place_.step = batch;
    call_hooks(callbacks_, place_, [&] { callbacks_.on_predict_batch_begin(training_, batch); });
  }
  void batch_end(std::int64_t batch) {
    call_hooks(callbacks_, place_, [&] { callbacks_.on_predict_batch_end(training_, batch); });
  }

 private:
  Training& training_;
  CallbackHooks& callbacks_;
  Activity place_;
};

/// Predicts `data` (sharded by AutoShardPolicy::data) from its beginning, for at most `steps`
/// batches, and appends the rows of all ranks to `rows`, in the order of the dataset. The first
/// replica of a process has `rows` and `hooks`, the others pass null pointers and only take part.
/// Returns the number of batches.
template <class T>
std::int64_t predict_pass(const Parts<T>& parts, BatchLoader<T>& data,
                          const std::optional<std::int64_t>& steps, std::vector<T>* rows,
                          PredictHooks* hooks) {
  const std::size_t outputs = parts.program.layout().outputs;
  const std::size_t positions = parts.program.layout().positions;
  const std::size_t columns = positions * outputs;
  AnyCollective& collective = parts.replica.collective();
  const auto ranks = static_cast<std::size_t>(collective.size());
  std::vector<T> mine, all;
  data.begin({.seed = parts.variables.seed, .number = 0});
  std::int64_t step = 0;
  for (; (!steps || step < *steps) && data.next(); ++step) {
    if (hooks != nullptr) hooks->batch_begin(step);
    forward_batch(parts, data, true);
    // Rank 0 has the largest part, to whose size the gathered parts are padded.
    const std::size_t batch = data.batch_size();
    const std::size_t largest = (batch + ranks - 1) / ranks;
    mine.assign(largest * columns, T(0));
    const auto y = parts.workspace.predictions();
    for (std::size_t row = 0; row < y.samples(); ++row)  // the rows of a sample follow one another
      for (std::size_t f = 0; f < outputs; ++f) mine[row * outputs + f] = y(row, f);
    all.resize(ranks * mine.size());
    collective.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
    if (rows == nullptr) continue;
    for (std::size_t position = 0; position < batch; ++position) {
      const T* const row = all.data() + ((position % ranks) * largest + position / ranks) * columns;
      rows->insert(rows->end(), row, row + columns);
    }
    hooks->batch_end(step);
  }
  return step;
}

template <class T>
std::vector<T> predict(Trainer<T>& trainer, const AnyDataset& dataset,
                       const PredictOptions& options, CallbackHooks& callbacks) {
  const WorkerData mine("predict", dataset, trainer.pass_place(), AutoShardPolicy::data);
  check_pass("predict", mine, {.input = trainer.program().layout().data.input}, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  ModelTraining<T> training(trainer);
  std::vector<T> rows;
  const Activity where{.call = "predict"};
  call_hooks(callbacks, where, [&] { callbacks.on_predict_begin(training); });
  trainer.strategy().run([&](AnyReplica& replica) {
    const CommonCall call(replica, "predict", signature);
    BatchLoader<T> data(trainer.distribute(dataset, replica, AutoShardPolicy::data), false);
    const bool leader = replica.local_rank() == 0;
    PredictHooks hooks(training, callbacks, where);
    const std::int64_t made = predict_pass(trainer.parts(replica), data, options.steps,
                                           leader ? &rows : nullptr, leader ? &hooks : nullptr);
    if (replica.collective().rank() == 0) warn_of_missing_steps("predict", made, options.steps);
    if (replica.collective().rank() == 0 && made == 0)
      log_warning("predict: the data is empty" + mine.why_empty());
  });
  call_hooks(callbacks, where, [&] { callbacks.on_predict_end(training); });
  return rows;
}

/// What one layer that is adapted learns of its input, over all batches: the moments of a
/// Normalization, the boundaries of a Discretization.
class LayerMoments {
 public:
  /// `number`: the layer's index among those that are adapted, in the order in which they run.
  explicit LayerMoments(std::size_t number) : number_(number) {}

  /// For one forward pass.
  [[nodiscard]] MomentSink sink() {
    seen_.clear();
    return {this,
            [](void* self, const InputMoments& moments) {
              static_cast<LayerMoments*>(self)->take(moments);
            },
            [](void* self, const InputValues& values) {
              static_cast<LayerMoments*>(self)->take(values);
            }};
  }

  /// Whether the last forward pass has reached that layer.
  [[nodiscard]] bool exists() const noexcept { return seen_.size() > number_; }
  [[nodiscard]] double count() const noexcept { return quantiles_ ? quantiles_->count() : count_; }
  /// How often the layer sees the data.
  [[nodiscard]] int passes() const noexcept { return quantiles_ ? QuantileSearch::passes : 1; }

  /// At the end of a pass. Combines the moments of all ranks: first the mean, and then the
  /// deviations from it, so that no large number is subtracted from another.
  void combine(AnyReplica& replica) {
    if (quantiles_) {
      replica.collective().all_reduce(quantiles_->counts(), ReduceOp::sum);
      return quantiles_->finish_pass();
    }
    std::vector<double> sums(mean_);
    for (double& sum : sums) sum *= count_;
    sums.push_back(count_);
    replica.collective().all_reduce(std::span(sums), ReduceOp::sum);
    const double count = sums.back();
    for (std::size_t c = 0; c < mean_.size(); ++c) {
      const double mean = count > 0 ? sums[c] / count : 0;
      squares_[c] += count_ * (mean_[c] - mean) * (mean_[c] - mean);
      mean_[c] = mean;
    }
    count_ = count;
    replica.collective().all_reduce(std::span(squares_), ReduceOp::sum);
  }

  /// Sets the layer's variables.
  template <class T>
  void write() const {
    if (quantiles_) {
      const std::vector<float> boundaries = quantiles_->boundaries();
      std::ranges::copy(boundaries, static_cast<T*>(boundaries_variable_));
      return;
    }
    for (std::size_t c = 0; c < mean_.size(); ++c) {
      static_cast<T*>(mean_variable_)[c] = static_cast<T>(mean_[c]);
      static_cast<T*>(variance_variable_)[c] = static_cast<T>(squares_[c] / count_);
    }
  }

 private:
  /// Whether this is the layer to adapt; one of its variables identifies it. (A layer that Shared
  /// uses several times sees all its inputs.)
  bool is_this(const void* variable) {
    const auto layer = std::find(seen_.begin(), seen_.end(), variable);
    const auto number = static_cast<std::size_t>(layer - seen_.begin());
    if (layer == seen_.end()) seen_.push_back(variable);
    return number == number_;
  }
  void take(const InputValues& batch) {
    if (!is_this(batch.boundaries_variable)) return;
    if (!quantiles_) quantiles_.emplace(batch.epsilon, batch.boundaries);
    boundaries_variable_ = batch.boundaries_variable;
    quantiles_->take(batch.values);
  }
  void take(const InputMoments& batch) {
    if (!is_this(batch.mean_variable)) return;
    mean_.resize(batch.mean.size());
    squares_.resize(batch.mean.size());
    mean_variable_ = batch.mean_variable;
    variance_variable_ = batch.variance_variable;
    if (batch.count == 0) return;
    const double share = batch.count / (count_ + batch.count);
    for (std::size_t c = 0; c < mean_.size(); ++c) {
      const double distance = batch.mean[c] - mean_[c];
      mean_[c] += distance * share;
      squares_[c] += batch.squares[c] + distance * distance * count_ * share;
    }
    count_ += batch.count;
  }

  std::size_t number_;
  std::vector<const void*> seen_;  ///< the layers of this forward, by a variable of theirs
  double count_ = 0;
  std::vector<double> mean_, squares_;
  void* mean_variable_ = nullptr;
  void* variance_variable_ = nullptr;
  std::optional<QuantileSearch> quantiles_;  ///< of a Discretization
  void* boundaries_variable_ = nullptr;
};

/// What adapt_pass did.
struct Adapted {
  std::size_t layers = 0;
  bool had_data = true;
  std::int64_t batches = 0;  ///< of this rank, in the last pass
};

/// Sets mean and variance of the Normalization layers, and the boundaries of the Discretization
/// layers, to those of their input over `data`, for at most `steps` batches: a pass for each such
/// layer, or three, because the input of a later one depends on those before it. Ranks may have
/// different numbers of batches. Without data nothing is changed.
template <class T>
Adapted adapt_pass(const Parts<T>& parts, BatchLoader<T>& data,
                   const std::optional<std::int64_t>& steps) {
  Adapted done;
  for (;; ++done.layers) {
    LayerMoments moments(done.layers);
    forward_batch(parts, data, false, nullptr, moments.sink());  // (a rank may have no data)
    if (!moments.exists()) return done;
    for (int pass = 0; pass < moments.passes(); ++pass) {
      data.begin({.seed = parts.variables.seed, .number = 0});
      for (done.batches = 0; (!steps || done.batches < *steps) && data.next(); ++done.batches)
        forward_batch(parts, data, true, nullptr, moments.sink());
      moments.combine(parts.replica);
      done.had_data = moments.count() > 0;
      if (!done.had_data) return done;
    }
    moments.template write<T>();
  }
}

template <class T>
void adapt(Trainer<T>& trainer, const AnyDataset& dataset, const AdaptOptions& options) {
  const WorkerData mine("adapt", dataset, trainer.pass_place());
  check_pass("adapt", mine, {.input = trainer.program().layout().data.input}, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  Adapted done;
  trainer.strategy().run([&](AnyReplica& replica) {
    const CommonCall call(replica, "adapt", signature);
    BatchLoader<T> data(trainer.distribute(dataset, replica), false);
    const Adapted by_this = adapt_pass(trainer.parts(replica), data, options.steps);
    if (replica.collective().rank() == 0)
      warn_of_missing_steps("adapt", by_this.batches, options.steps);
    if (replica.local_rank() == 0) done = by_this;
  });
  if (!done.had_data) throw DataError("adapt: the data is empty" + mine.why_empty());
  if (done.layers == 0)
    throw ConfigurationError(
        "adapt: the model has no layer that is adapted to data, such as Normalization");
}

LOCKSTEP_INSTANCE(Logs evaluate(Trainer<LOCKSTEP_REAL>&, const AnyDataset&, const EvaluateOptions&,
                                CallbackHooks&));
LOCKSTEP_INSTANCE(std::vector<LOCKSTEP_REAL> predict(Trainer<LOCKSTEP_REAL>&, const AnyDataset&,
                                                     const PredictOptions&, CallbackHooks&));
LOCKSTEP_INSTANCE(void adapt(Trainer<LOCKSTEP_REAL>&, const AnyDataset&, const AdaptOptions&));
}}}  // namespace lockstep::detail
