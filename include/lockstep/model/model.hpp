// Model: a network with a strategy, a loss, an optimizer and metrics.
#pragma once

#include <Eigen/Core>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/tensor_matrix.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/model/array_data.hpp"
#include "lockstep/model/call_sentences.hpp"
#include "lockstep/model/compile_options.hpp"
#include "lockstep/model/model_variables.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/training/array_options.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/history.hpp"
#include "lockstep/training/loops.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// Model::on; in model/own_loop.hpp, so that a program without a loop of its own does not pay for
/// it.
template <class Model>
struct OnReplica;

/// A program's strategy, or one that its model owns.
template <class S>
struct StrategyOf {
  StrategyOf(S& strategy) : used(strategy) {}
  StrategyOf(std::unique_ptr<S> strategy) : own(std::move(strategy)), used(*own) {}
  std::unique_ptr<S> own{};
  S& used;
};
}  // namespace detail

/// A compiled model; made by compile(). Every worker makes the same calls in the same order. Not
/// copyable; refers to the strategy, which must outlive it (unless compile was given none).
///
/// One thread at a time calls it; steps run on the threads of the strategy's replicas.
template <class Net, class T, Strategy S, class LossType, class OptimizerType, class... Metrics>
class Model : public ModelVariables<Model<Net, T, S, LossType, OptimizerType, Metrics...>, T> {
 public:
  using Compiled = detail::Compiled<Net, T, LossType, OptimizerType, Metrics...>;
  using Network = Net;
  using Scalar = T;
  using Predictions = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using InputShape = typename Compiled::In;
  using OutputShape = typename Compiled::Out;

  Model(detail::StrategyOf<S> strategy, CompileOptions options, LossType loss,
        OptimizerType optimizer, std::tuple<Metrics...> metrics)
      : own_strategy_(std::move(strategy.own)),
        compiled_(std::move(loss), std::move(optimizer), std::move(metrics)),
        trainer_(detail::make_trainer<T>(
            compiled_, any_strategy(strategy.used), options.seed, options.synchronization,
            [&](detail::Trainer<T>& trainer) {
              if constexpr (requires { strategy.used.remote_variables(trainer); })
                return strategy.used.remote_variables(trainer);
              else
                return nullptr;
            })),
        on_replicas_(detail::replicas_of(*trainer_)) {}
  /// As above, and then calls begin(*this): a model cannot be moved, so that a function that
  /// returns one can do nothing after it has made it.
  template <class Begin>
  Model(detail::StrategyOf<S> strategy, CompileOptions options, LossType loss,
        OptimizerType optimizer, std::tuple<Metrics...> metrics, Begin begin)
      : Model(std::move(strategy), options, std::move(loss), std::move(optimizer),
              std::move(metrics)) {
    begin(*this);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Trains on a dataset of global batches. Returns one value for each figure and each epoch that
  /// this call has ended: not those from before an interruption, and no epoch at all if nothing was
  /// left to do. Passes over the data are counted on from fit to fit, so that k fits of one epoch
  /// are one fit of k epochs, bit for bit (but for use_ema, whose averages become the weights at
  /// the end of each fit); where steps_per_epoch is not a whole pass, each fit begins a new one.
  /// Throws ConfigurationError for wrong options, before any work; DataError for data that do not
  /// fit the model.
  template <class D, class... Callbacks>
  History fit(const D& dataset, FitOptions options = {}, Callbacks&&... callbacks) {
    static_assert(Dataset<D>,
                  "lockstep: fit(dataset) needs a dataset of batches: put .batch(n) at its end; "
                  "plain arrays are given as "
                  "fit(x, y, {.batch_size = 32})");
    if constexpr (Dataset<D>) {
      detail::refuse_batch_size("fit", options.batch_size);
      detail::refuse_sample_weight("fit", options.sample_weight);
      if (options.validation_split != 0)
        throw ConfigurationError(
            "fit: validation_split is for plain arrays; give .validation_data");
      return run_fit(AnyDataset(dataset), options, callbacks...);
    }
  }

  /// Trains on arrays: a sample for each row of x, and its targets in the same row of y (whatever
  /// from_tensor_slices takes).
  template <class X, class Y, class... Callbacks>
    requires(!std::same_as<std::remove_cvref_t<Y>, FitOptions>)
  History fit(const X& x, const Y& y, FitOptions options = {}, Callbacks&&... callbacks) {
    static_assert(detail::Arrays<X, Y>,
                  "lockstep: fit(x, y) needs two arrays, each an Eigen matrix, a std::vector or a "
                  "Tensor; callbacks come "
                  "behind the options, as in fit(dataset, {.epochs = 3}, callback)");
    if constexpr (detail::Arrays<X, Y>) {
      const AnyDataset dataset = detail::training_data(x, y, options);
      return run_fit(dataset, options, callbacks...);
    }
  }

  /// Every other call, for its sentence.
  History fit(detail::OtherCall<detail::FitSentence>, ...);

  /// Loss and metrics over a dataset, weighted by its samples; equal on every worker.
  template <class D, class... Callbacks>
  Logs evaluate(const D& dataset, EvaluateOptions options = {}, Callbacks&&... callbacks) {
    static_assert(Dataset<D>,
                  "lockstep: evaluate(dataset) needs a dataset of batches: put .batch(n) at its "
                  "end; plain arrays are "
                  "given as evaluate(x, y)");
    if constexpr (Dataset<D>) {
      detail::refuse_batch_size("evaluate", options.batch_size);
      detail::refuse_sample_weight("evaluate", options.sample_weight);
      return run_evaluate(AnyDataset(dataset), options, callbacks...);
    }
  }
  template <class X, class Y, class... Callbacks>
    requires(!std::same_as<std::remove_cvref_t<Y>, EvaluateOptions>)
  Logs evaluate(const X& x, const Y& y, EvaluateOptions options = {}, Callbacks&&... callbacks) {
    static_assert(detail::Arrays<X, Y>,
                  "lockstep: evaluate(x, y) needs two arrays, each an Eigen matrix, a std::vector "
                  "or a Tensor; callbacks "
                  "come behind the options, as in evaluate(dataset, {}, callback)");
    if constexpr (detail::Arrays<X, Y>)
      return run_evaluate(detail::evaluation_data(x, y, options), options, callbacks...);
  }
  /// Every other call, for its sentence.
  Logs evaluate(detail::OtherCall<detail::EvaluateSentence>, ...);

  /// The outputs for all samples, one row each, in the order of the dataset, on every worker. Needs
  /// every worker to reach all of the data (AutoShardPolicy::data, whatever the dataset says).
  template <class D, class... Callbacks>
    requires Dataset<D>
  Predictions predict(const D& dataset, PredictOptions options = {}, Callbacks&&... callbacks) {
    detail::refuse_batch_size("predict", options.batch_size);
    return run_predict(AnyDataset(dataset), options, callbacks...);
  }
  template <class X, class... Callbacks>
    requires(!Dataset<X>)
  Predictions predict(const X& x, PredictOptions options = {}, Callbacks&&... callbacks) {
    static_assert(
        !detail::UnbatchedPipeline<X>,
        "lockstep: predict(dataset) needs a dataset of batches: put .batch(n) at its end");
    static_assert(detail::UnbatchedPipeline<X> || detail::Arrays<X>,
                  "lockstep: predict(x) needs a dataset or an array: an Eigen matrix, a "
                  "std::vector or a Tensor");
    if constexpr (detail::Arrays<X>)
      return run_predict(detail::array_data("predict", options.batch_size, x), options,
                         callbacks...);
  }
  /// Every other call, for its sentence.
  Predictions predict(detail::OtherCall<detail::PredictSentence>, ...);

  /// One update, on one global batch: a sample for each row of x, and its targets in the same row
  /// of y. All workers give the same arrays, and each replica takes its part of them. Returns loss
  /// and metrics of this batch alone, as they were before the update (Keras 3 gives means over all
  /// calls since reset_metrics). k calls are k steps of a fit that does not shuffle, bit for bit,
  /// but for layers that draw random numbers, as the samples of each call are numbered from 0, and
  /// for gradient_accumulation_steps, as each call sums over replicas at once. No
  /// callback is called, nor do the chief's variables go to the workers first, as they do when fit
  /// begins: all must have set the same ones. Throws as fit does, and DataError when there is no
  /// row. A third array has the weights of the samples.
  template <class X, class Y, class... W>
  Logs train_on_batch(const X& x, const Y& y, const W&... sample_weight) {
    static_assert(detail::Arrays<X, Y, W...> && sizeof...(W) <= 1,
                  "lockstep: train_on_batch(x, y) needs two arrays, each an Eigen matrix, a "
                  "std::vector or a Tensor, "
                  "and may be given a third one with the weights of the samples");
    need_loss();
    need_optimizer();
    if constexpr (detail::Arrays<X, Y, W...> && sizeof...(W) <= 1)
      return detail::train_on_batch(*trainer_,
                                    detail::one_batch("train_on_batch", x, y, sample_weight...));
  }
  /// Loss and metrics of one global batch, as evaluate returns them; prints no progress bar.
  template <class X, class Y, class... W>
  Logs test_on_batch(const X& x, const Y& y, const W&... sample_weight) {
    static_assert(detail::Arrays<X, Y, W...> && sizeof...(W) <= 1,
                  "lockstep: test_on_batch(x, y) needs two arrays, each an Eigen matrix, a "
                  "std::vector or a Tensor, "
                  "and may be given a third one with the weights of the samples");
    if constexpr (detail::Arrays<X, Y, W...> && sizeof...(W) <= 1)
      return run_evaluate(detail::one_batch("test_on_batch", x, y, sample_weight...),
                          {.verbose = 0});
  }
  /// The outputs for one global batch, a row for each of x, on every worker.
  template <class X>
  Predictions predict_on_batch(const X& x) {
    static_assert(
        detail::Arrays<X>,
        "lockstep: predict_on_batch(x) needs an array: an Eigen matrix, a std::vector or a Tensor");
    if constexpr (detail::Arrays<X>)
      return run_predict(detail::one_batch("predict_on_batch", x), {});
  }

  /// Sets mean and variance of every Normalization layer to those of its input over the data of all
  /// workers, layer by layer, before training. Targets are not read. Throws ConfigurationError if
  /// the model has no such layer, DataError if there are no data.
  template <class D>
    requires Dataset<D>
  void adapt(const D& dataset, AdaptOptions options = {}) {
    detail::refuse_batch_size("adapt", options.batch_size);
    detail::adapt(*trainer_, AnyDataset(dataset), options);
  }
  template <class X>
    requires(!Dataset<X>)
  void adapt(const X& x, AdaptOptions options = {}) {
    static_assert(detail::Arrays<X>,
                  "lockstep: adapt(x) needs a dataset of batches (put .batch(n) at its end) or an "
                  "array: an Eigen "
                  "matrix, a std::vector or a Tensor");
    if constexpr (detail::Arrays<X>)
      detail::adapt(*trainer_, detail::array_data("adapt", options.batch_size, x), options);
  }
  /// Every other call, for its sentence.
  void adapt(detail::OtherCall<detail::AdaptSentence>, ...);

  /// The single steps of this model on a replica of its strategy, for the program's own loops: a
  /// ReplicaModel<T>, in the function that the strategy's run() calls. Not while this model is in
  /// fit, nor after the program has called the strategy's reconnect(): compile anew then (Error).
  auto& on(typename S::Replica& replica) {
    static_assert(
        requires { sizeof(detail::OnReplica<Model>); },
        "lockstep: for a loop of your own, #include <lockstep/model/own_loop.hpp>");
    return detail::OnReplica<Model>::get(*this, replica);
  }

  /// "dense_1", for each layer; those of a nested Sequential begin with its name and a slash.
  static std::vector<std::string> layer_names() { return Net::template layer_names<InputShape>(); }

  /// Prints Keras's table to standard output.
  static void summary() { std::fputs(Net::summary().c_str(), stdout); }

 private:
  template <class, class>
  friend class ModelVariables;
  template <class>
  friend struct detail::ModelFiles;
  template <class>
  friend struct detail::OnReplica;

  // For their sentences.
  static void need_loss() {
    static_assert(!std::same_as<LossType, NoLoss>,
                  "lockstep: this model was compiled without a loss: for fit, evaluate and the "
                  "like, write compile<Net>(strategy, loss, optimizer, metrics...)");
  }
  static void need_optimizer() {
    static_assert(!std::same_as<OptimizerType, NoOptimizer>,
                  "lockstep: this model was compiled without an optimizer: to train it, write "
                  "compile<Net>(strategy, loss, optimizer, metrics...)");
  }

  template <class... Callbacks>
  History run_fit(const AnyDataset& dataset, const FitOptions& options, Callbacks&... callbacks) {
    need_loss();
    need_optimizer();
    CallbackList<Callbacks...> list(callbacks...);
    return detail::fit(*trainer_, dataset, options, list);
  }
  template <class... Callbacks>
  Logs run_evaluate(const AnyDataset& dataset, const EvaluateOptions& options,
                    Callbacks&... callbacks) {
    need_loss();
    CallbackList<Callbacks...> list(callbacks...);
    return detail::evaluate(*trainer_, dataset, options, list);
  }
  template <class... Callbacks>
  Predictions run_predict(const AnyDataset& dataset, const PredictOptions& options,
                          Callbacks&... callbacks) {
    CallbackList<Callbacks...> list(callbacks...);
    const std::vector<T> rows = detail::predict(*trainer_, dataset, options, list);
    constexpr auto columns = static_cast<Eigen::Index>(OutputShape::size);
    return Eigen::Map<const Predictions>(rows.data(),
                                         static_cast<Eigen::Index>(rows.size()) / columns, columns);
  }

  const std::unique_ptr<S> own_strategy_;  // null: the program's
  Compiled compiled_;
  const std::shared_ptr<detail::Trainer<T>> trainer_;
  std::vector<std::shared_ptr<void>> on_replicas_;  // each made by its own thread
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#include "lockstep/model/compile.hpp"  // a program that has one needs the other
