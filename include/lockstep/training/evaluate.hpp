// The passes over a dataset beside fit: evaluate, predict, adapt.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/training/hook_errors.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The chief's warning that there were fewer batches than requested.
[[gnu::cold]] inline void warn_of_missing_steps(std::string_view where, std::int64_t made,
                                                const std::optional<std::int64_t>& wanted) {
  if (wanted && made < *wanted)
    log_warning(concat({where, ": the data ran out after ", made, " of ", *wanted,
                        " batches; use repeat() for more data"}));
}

/// Calls the on_test_* hooks, and draws a progress bar when there is one.
template <class T>
class TestHooks {
 public:
  /// `place`: that of the pass.
  TestHooks(Training& training, const Program<T>& program, CallbackHooks& callbacks,
            const Activity& place, ProgressBar* progress = nullptr)
      : training_(training),
        program_(program),
        callbacks_(callbacks),
        place_(place),
        progress_(progress) {}

  void begin() {
    call_hooks(callbacks_, place_, [&] { callbacks_.on_test_begin(training_); });
  }
  void batch_begin(std::int64_t batch) {
    call_hooks(callbacks_, at(batch), [&] { callbacks_.on_test_batch_begin(training_, batch); });
  }
  void batch_end(std::int64_t batch, const StatusBlock& status) {
    report(program_, status, logs_);
    call_hooks(callbacks_, at(batch),
               [&] { callbacks_.on_test_batch_end(training_, batch, logs_); });
    if (progress_ != nullptr) progress_->update(batch + 1, logs_);
  }
  void end(const StatusBlock& status) {
    report(program_, status, logs_);
    call_hooks(callbacks_, place_, [&] { callbacks_.on_test_end(training_, logs_); });
    if (progress_ != nullptr) progress_->end_epoch(logs_);
  }

 private:
  [[nodiscard]] Activity at(std::int64_t batch) const {
    Activity place = place_;
    place.step = batch;
    return place;
  }

  Training& training_;
  const Program<T>& program_;
  CallbackHooks& callbacks_;
  Activity place_;
  ProgressBar* progress_;
  Logs logs_;
};

/// Evaluates `data` from its beginning, for at most `steps` batches. The ranks need not have
/// equally many batches: they meet once, at the end. The first replica of a process has `hooks`,
/// the others null. `where` names the pass for the chief's warning when the data end earlier;
/// empty: no warning. Returns the sums over all ranks.
template <class T>
StatusBlock evaluate_pass(const Parts<T>& parts, BatchLoader<T>& data,
                          const std::optional<std::int64_t>& steps, TestHooks<T>* hooks,
                          std::string_view where = {}) {
  AnyReplica& replica = parts.replica;
  StatusBlock status(parts.program.layout().metric_state);
  replica.team_lead([&] { hooks->begin(); });
  data.begin({.seed = parts.variables.seed, .number = 0});
  std::int64_t step = 0;
  for (; (!steps || step < *steps) && data.next(); ++step) {
    if (hooks != nullptr) hooks->batch_begin(step);
    test_step(parts, data, status);
    if (hooks != nullptr) hooks->batch_end(step, status);
  }
  if (replica.collective().rank() == 0 && !where.empty()) warn_of_missing_steps(where, step, steps);
  replica.collective().all_reduce(status.values(), ReduceOp::sum);
  replica.team_lead([&] { hooks->end(status); });
  return status;
}

/// Calls the on_predict_batch_* hooks.
class PredictHooks {
 public:
  /// `place`: that of the pass.
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
    // The largest part has rank 0; the gathered parts are padded to it.
    const std::size_t batch = data.batch_size();
    const std::size_t largest = (batch + ranks - 1) / ranks;
    mine.assign(largest * columns, T(0));
    const auto y = parts.workspace.predictions();
    for (std::size_t row = 0; row < y.samples(); ++row)  // those of a sample one after the other
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

/// The moments of the input of one Normalization layer, over all batches.
class LayerMoments {
 public:
  /// `number`: the layer's, among the Normalization layers in the order in which they run.
  explicit LayerMoments(std::size_t number) : number_(number) {}

  /// For one forward.
  [[nodiscard]] MomentSink sink() {
    seen_.clear();
    return {this, [](void* self, const InputMoments& moments) {
              static_cast<LayerMoments*>(self)->take(moments);
            }};
  }

  /// Whether the last forward has come to that layer.
  [[nodiscard]] bool exists() const noexcept { return seen_.size() > number_; }
  [[nodiscard]] double count() const noexcept { return count_; }

  /// Combines the moments of all ranks: first the mean, and then the deviations from it, so that
  /// no large number is subtracted from another.
  void combine(AnyReplica& replica) {
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
    for (std::size_t c = 0; c < mean_.size(); ++c) {
      static_cast<T*>(mean_variable_)[c] = static_cast<T>(mean_[c]);
      static_cast<T*>(variance_variable_)[c] = static_cast<T>(squares_[c] / count_);
    }
  }

 private:
  void take(const InputMoments& batch) {
    // (A layer that Shared uses several times has the moments of all its inputs.)
    const auto layer = std::find(seen_.begin(), seen_.end(), batch.mean_variable);
    const auto number = static_cast<std::size_t>(layer - seen_.begin());
    if (layer == seen_.end()) seen_.push_back(batch.mean_variable);
    if (number != number_) return;
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
};

/// What adapt_pass has done.
struct Adapted {
  std::size_t layers = 0;
  bool had_data = true;
  std::int64_t batches = 0;  ///< of this rank, in the last pass
};

/// Sets mean and variance of the Normalization layers to those of their input over `data`,
/// for at most `steps` batches: a pass for each such layer, as the input of a later one
/// depends on those before it. The ranks need not have equally many batches. Without data nothing
/// is changed.
template <class T>
Adapted adapt_pass(const Parts<T>& parts, BatchLoader<T>& data,
                   const std::optional<std::int64_t>& steps) {
  Adapted done;
  for (;; ++done.layers) {
    LayerMoments moments(done.layers);
    forward_batch(parts, data, false, nullptr, moments.sink());  // (a rank may have no data)
    if (!moments.exists()) return done;
    data.begin({.seed = parts.variables.seed, .number = 0});
    for (done.batches = 0; (!steps || done.batches < *steps) && data.next(); ++done.batches)
      forward_batch(parts, data, true, nullptr, moments.sink());
    moments.combine(parts.replica);
    done.had_data = moments.count() > 0;
    if (!done.had_data) return done;
    moments.template write<T>();
  }
}

}}}  // namespace lockstep::detail
