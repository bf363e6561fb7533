// Model and compile: a network with a strategy, a loss, an optimizer and metrics.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/kernels/instruction_set.hpp"
#include "lockstep/model/array_data.hpp"
#include "lockstep/model/call_sentences.hpp"
#include "lockstep/model/saved_signature.hpp"
#include "lockstep/model/weights.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/evaluate_pass.hpp"
#include "lockstep/training/fit_loop.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/history.hpp"
#include "lockstep/training/hook_errors.hpp"
#include "lockstep/training/model_training.hpp"
#include "lockstep/training/predict_pass.hpp"
#include "lockstep/training/worker_data.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// What compile may be told beyond what is a type.
struct CompileOptions {
  /// For initial values, shuffling and everything else that is random. Default: drawn by the chief. The chief's is used on all
  /// workers.
  std::optional<std::uint64_t> seed = std::nullopt;
};

namespace detail {

/// Files of a Model; in saving/model_files.hpp, so that a program without files needs no archives.
template <class Model>
struct ModelFiles;

}  // namespace detail

/// A compiled model; made by compile(). Every worker makes the same calls in the same order. Not copyable; refers to the
/// strategy, which must outlive it.
///
/// One thread at a time calls it; steps run on the threads of the strategy's replicas.
template <class Net, class T, Strategy S, class LossType, class OptimizerType, class... Metrics>
class Model {
 public:
  using Compiled = detail::Compiled<Net, T, LossType, OptimizerType, Metrics...>;
  using Predictions = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using InputShape = typename Compiled::In;
  using OutputShape = typename Compiled::Out;

  Model(S& strategy, CompileOptions options, LossType loss, OptimizerType optimizer, std::tuple<Metrics...> metrics)
      : strategy_(strategy), compiled_(std::move(loss), std::move(optimizer), std::move(metrics)) {
    replicas_.resize(static_cast<std::size_t>(strategy.local_replicas()));
    compiled_.state.seed = options.seed ? *options.seed : std::random_device{}();
    strategy_.run([&](auto& replica) { start(replica); });
  }
  /// As above, and then calls begin(*this): a model is not moved, so that who returns one must have done with it.
  template <class Begin>
  Model(S& strategy, CompileOptions options, LossType loss, OptimizerType optimizer, std::tuple<Metrics...> metrics,
        Begin begin)
      : Model(strategy, options, std::move(loss), std::move(optimizer), std::move(metrics)) {
    begin(*this);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Trains on a dataset of global batches. Returns one value for each figure and each epoch that
  /// this call has ended: not those from before an interruption, and no epoch at all if nothing was
  /// left to do. Passes over the data are counted on from fit to fit, so that k fits of one epoch
  /// are one fit of k epochs, bit for bit; where steps_per_epoch is not a whole pass, each fit
  /// begins a new one. Throws ConfigurationError for wrong options, before any work; DataError for
  /// data that do not fit the model.
  template <class D, class... Callbacks>
  History fit(const D& dataset, FitOptions options = {}, Callbacks&&... callbacks) {
    static_assert(
        Dataset<D>,
        "lockstep: fit(dataset) needs a dataset of batches: put .batch(n) at its end; plain arrays are given as "
        "fit(x, y, {.batch_size = 32})");
    if constexpr (Dataset<D>) {
      detail::refuse_batch_size("fit", options.batch_size);
      if (options.validation_split != 0)
        throw ConfigurationError("fit: validation_split is for plain arrays; give .validation_data");
      return run_fit(AnyDataset(dataset), options, callbacks...);
    }
  }

  /// Trains on arrays: a sample for each row of x, and its targets in the same row of y (whatever from_tensor_slices takes).
  template <class X, class Y, class... Callbacks>
    requires(!std::same_as<std::remove_cvref_t<Y>, FitOptions>)
  History fit(const X& x, const Y& y, FitOptions options = {}, Callbacks&&... callbacks) {
    static_assert(
        detail::Arrays<X, Y>,
        "lockstep: fit(x, y) needs two arrays, each an Eigen matrix, a std::vector or a Tensor; callbacks come "
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
                  "lockstep: evaluate(dataset) needs a dataset of batches: put .batch(n) at its end; plain arrays are "
                  "given as evaluate(x, y)");
    if constexpr (Dataset<D>) {
      detail::refuse_batch_size("evaluate", options.batch_size);
      return run_evaluate(AnyDataset(dataset), options, callbacks...);
    }
  }
  template <class X, class Y, class... Callbacks>
    requires(!std::same_as<std::remove_cvref_t<Y>, EvaluateOptions>)
  Logs evaluate(const X& x, const Y& y, EvaluateOptions options = {}, Callbacks&&... callbacks) {
    static_assert(
        detail::Arrays<X, Y>,
        "lockstep: evaluate(x, y) needs two arrays, each an Eigen matrix, a std::vector or a Tensor; callbacks "
        "come behind the options, as in evaluate(dataset, {}, callback)");
    if constexpr (detail::Arrays<X, Y>)
      return run_evaluate(detail::array_data("evaluate", options.batch_size, x, y), options, callbacks...);
  }
  /// Every other call, for its sentence.
  Logs evaluate(detail::OtherCall<detail::EvaluateSentence>, ...);

  /// The outputs for all samples, one row each, in the order of the dataset, on every worker. Needs every worker to reach all
  /// of the data (AutoShardPolicy::data, whatever the dataset says).
  template <class D, class... Callbacks>
    requires Dataset<D>
  Predictions predict(const D& dataset, PredictOptions options = {}, Callbacks&&... callbacks) {
    detail::refuse_batch_size("predict", options.batch_size);
    return run_predict(AnyDataset(dataset), options, callbacks...);
  }
  template <class X, class... Callbacks>
    requires(!Dataset<X>)
  Predictions predict(const X& x, PredictOptions options = {}, Callbacks&&... callbacks) {
    static_assert(!detail::UnbatchedPipeline<X>,
                  "lockstep: predict(dataset) needs a dataset of batches: put .batch(n) at its end");
    static_assert(detail::UnbatchedPipeline<X> || detail::Arrays<X>,
                  "lockstep: predict(x) needs a dataset or an array: an Eigen matrix, a std::vector or a Tensor");
    if constexpr (detail::Arrays<X>)
      return run_predict(detail::array_data("predict", options.batch_size, x), options, callbacks...);
  }
  /// Every other call, for its sentence.
  Predictions predict(detail::OtherCall<detail::PredictSentence>, ...);

  /// A copy of every variable in Keras's order: layer by layer, the trained ones before the others (moving statistics).
  [[nodiscard]] std::vector<Weight<T>> get_weights() const {
    return detail::copy_weights(all_variables(*replicas_[0]));
  }

  /// Sets every variable, as get_weights gave them; the chief's go to all workers when the next fit begins. Throws
  /// ConfigurationError, having changed nothing, when a number or a shape differs.
  void set_weights(const std::vector<Weight<T>>& weights) {
    detail::check_weights(weights, all_variables(*replicas_[0]));
    for (const auto& own : replicas_) detail::put_weights(weights, all_variables(*own));
  }

  /// Saves the whole training state (variables, optimizer, learning rate, updates, seed) in lockstep's own format, for load and
  /// load_model. The chief alone writes. Throws Error naming the path; the file that was there then stays.
  void save(const std::string& path) const { files().save(*this, path); }

  /// Continues from a file that save (or ModelCheckpoint, CheckpointManager) wrote. The chief alone reads and sends it to the others, so
  /// that the folder need not be shared. The file's learning rate is in force then, whatever compile was given; variables, loss,
  /// metrics and the optimizer's other options must be the same (where they are not, load_weights takes the variables alone). Throws, on
  /// every worker, DataError when the file cannot be read or is damaged, and ConfigurationError naming the difference when it belongs
  /// to another model; nothing is changed then.
  void load(const std::string& path) { files().load(*this, path); }

  /// Saves every variable as get_weights gives it: by the extension as .safetensors, .npz, or else in lockstep's own format.
  /// The chief alone writes. Throws Error naming the path.
  void save_weights(const std::string& path) const { files().save_weights(*this, path); }

  /// Sets every variable, found by its name, from such a file or one that other programs wrote; float32 and float64 are converted into
  /// each other. The chief alone reads. Throws, on every worker, DataError when it cannot be read or is damaged, and
  /// ConfigurationError naming the first variable that is missing, unknown or of another shape; nothing is changed then.
  void load_weights(const std::string& path) { files().load_weights(*this, path); }

  /// CRC-32C over the bits of all trained parameters: equal runs have equal sums.
  [[nodiscard]] std::uint32_t parameters_crc32c() const { return compiled_.state.parameters_crc32c(); }

  /// "dense_1", for each layer; those of a nested Sequential begin with its name and a slash.
  static std::vector<std::string> layer_names() { return Net::template layer_names<InputShape>(); }

  /// Prints Keras's table to standard output.
  static void summary() { std::fputs(Net::summary().c_str(), stdout); }

  /// The seed in force: the chief's.
  [[nodiscard]] std::uint64_t seed() const noexcept { return compiled_.state.seed; }
  [[nodiscard]] double learning_rate() const noexcept { return compiled_.state.learning_rate; }
  /// Sets it for the fits that follow; the updates made so far still count. The chief's value goes
  /// to all workers when the next fit begins; in a callback, all workers must make the same call.
  /// Throws ConfigurationError unless it is finite and at least 0.
  void set_learning_rate(double learning_rate) {
    detail::check_learning_rate(learning_rate);
    compiled_.state.learning_rate = learning_rate;
  }
  /// Optimizer updates made so far.
  [[nodiscard]] std::int64_t iterations() const noexcept { return compiled_.state.iterations; }

 private:
  template <class, class>
  friend class detail::FitLoop;
  template <class>
  friend class detail::ModelTraining;
  template <class>
  friend struct detail::ModelFiles;
  using Own = typename Compiled::Replica;

  static auto files() {
    static_assert(
        requires { sizeof(detail::ModelFiles<Model>); },
        "lockstep: to save or load a model, #include <lockstep/saving/model_files.hpp>");
    return detail::ModelFiles<Model>{};
  }

  /// Shows the other workers which call this one is in, until the end of the scope.
  template <Replica R>
  [[nodiscard]] static ActivityScope show_call(R& replica, const char* call) {
    return ActivityScope(replica.local_rank() == 0 ? activity_board(replica.collective()) : nullptr, {.call = call});
  }

  /// Compares the workers' programs, then starts from the chief's seed and variables.
  template <Replica R>
  void start(R& replica) {
    auto& collective = replica.collective();
    const auto activity = show_call(replica, "compile");
    detail::agree(collective, "compile", compiled_.signature());
    auto& own = replicas_[static_cast<std::size_t>(replica.local_rank())];
    const auto allocate = [&](std::size_t bytes) {
      if constexpr (requires {
                      { collective.allocate(bytes) } -> std::same_as<Buffer>;
                    })
        return collective.allocate(bytes);
      else
        return Buffer(bytes);
    };
    own = std::make_unique<Own>(allocate);
    if (detail::can_update_for_all(compiled_, replica)) compiled_.state.allocate_parameters(allocate);
    // Results depend on the instruction set (fused multiply-add), so that ranks use the lowest of all of them.
    std::int64_t level = -static_cast<std::int64_t>(kernels::instruction_set());
    collective.all_reduce(std::span(&level, 1), ReduceOp::max);
    const std::uint64_t seed = detail::from_chief(collective, compiled_.state.seed);
    replica.team_barrier();  // all have read level and seed
    if (replica.local_rank() == 0) kernels::set_instruction_set(static_cast<InstructionSet>(-level));
    detail::initialize<T>(Net::template state_variables<InputShape>, own->state().slices(), RandomKey(seed).fold_in(1));
    if (replica.local_rank() == 0) {
      compiled_.state.seed = seed;
      detail::initialize<T>(compiled_.state.variables, compiled_.state.parameters().slices(), RandomKey(seed));
    }
    broadcast_from_chief(replica, *own);
  }

  /// The chief's variables go to all workers. Replicas that share them with another receive into their gradients.
  template <Replica R>
  void broadcast_from_chief(R& replica, Own& own) {
    const bool leader = replica.local_rank() == 0;
    auto& collective = replica.collective();
    const auto send = [&](std::span<T> values) {
      collective.broadcast(std::as_writable_bytes(leader ? values : own.gradients().values()), 0);
    };
    if (collective.size() > 1) {
      send(compiled_.state.parameters().values());
      for (const Arena<T>& slot : compiled_.state.slots()) send(slot.values());
      if (!own.state().values().empty()) collective.broadcast(std::as_writable_bytes(own.state().values()), 0);
      double learning_rate = detail::from_chief(collective, compiled_.state.learning_rate);
      std::int64_t iterations = detail::from_chief(collective, compiled_.state.iterations);
      std::int64_t next_pass = detail::from_chief(collective, compiled_.state.next_pass);
      replica.team_barrier();  // all have read the counters
      if (leader) {
        compiled_.state.learning_rate = learning_rate;
        compiled_.state.iterations = iterations;
        compiled_.state.next_pass = next_pass;
      }
    }
    replica.team_barrier();
  }

  [[nodiscard]] DistributionContext place(int local_replicas = 1, int local_replica = 0) const {
    return {.num_workers = strategy_.num_workers(),
            .worker = strategy_.worker_index(),
            .local_replicas = local_replicas,
            .local_replica = local_replica};
  }

  /// A replica's part of a dataset.
  template <Replica R>
  [[nodiscard]] DistributedDataset<AnyDataset> distribute(const AnyDataset& dataset, const R& replica,
                                                          std::optional<AutoShardPolicy> policy = std::nullopt) const {
    return {dataset, place(replica.local_size(), replica.local_rank()), policy};
  }

  template <class... Callbacks>
  History run_fit(const AnyDataset& dataset, const FitOptions& options, Callbacks&... callbacks) {
    if (is_in_fit_)
      throw Error(
          "fit: this model is in fit already: a callback may use it for evaluate, predict, save, load_weights and "
          "set_weights, and fit another model");
    is_in_fit_ = true;
    struct Leave {
      bool& flag;
      ~Leave() { flag = false; }
    } const leave{is_in_fit_};
    const bool is_nested = is_running();
    CallbackList<Callbacks...> list(callbacks...);
    detail::FitLoop<Model, CallbackList<Callbacks...>> loop(*this, dataset, options, list);
    if (options.verbose == 2 && strategy_.is_chief())
      log_line(concat({"seed: ", seed(), "; replicas: ", strategy_.num_replicas_in_sync(), " (",
                       strategy_.local_replicas(), " in each of ", strategy_.num_workers(), " workers)"}));
    try {
      return run_until_together(loop, is_nested);
    } catch (...) {
      abort_callbacks(list, loop);
      throw;
    }
  }

  /// Repeats the loop for as long as it survives the loss of a worker.
  template <class Loop>
  History run_until_together(Loop& loop, bool is_nested) {
    for (bool together = true;;) {
      try {
        if constexpr (requires { strategy_.reconnect(); })
          if (!together) strategy_.reconnect();
        strategy_.run([&](auto& replica) {
          if (!together) start(replica);  // as the workers do that have been started again
          loop.run(replica);
        });
        return loop.take_history();
      } catch (const CollectiveError& error) {
        if (is_nested) throw;  // it is for the outer fit to survive that
        loop.survive(error);
        together = false;
      }
    }
  }

  /// An exception ends fit, and no other one may replace it.
  template <class List, class Loop>
  static void abort_callbacks(List& list, Loop& loop) noexcept {
    try {
      list.on_train_abort(loop);
    } catch (const std::exception& error) {
      log_line(std::string("warning: fit: on_train_abort: ") + error.what());
    } catch (...) {
      log_line("warning: fit: on_train_abort: an exception that is no std::exception");
    }
  }

  /// Whether this call is made in a callback of another call.
  [[nodiscard]] bool is_running() const {
    if constexpr (requires {
                    { strategy_.is_running() } -> std::same_as<bool>;
                  })
      return strategy_.is_running();
    else
      return false;
  }

  template <class... Callbacks>
  Logs run_evaluate(const AnyDataset& dataset, const EvaluateOptions& options, Callbacks&... callbacks) {
    const detail::WorkerData mine("evaluate", dataset, place());
    detail::check_pass("evaluate", mine, Compiled::data_sizes, options.steps);
    const std::string signature = detail::pass_signature(mine, options.steps);
    CallbackList<Callbacks...> list(callbacks...);
    detail::ModelTraining<Model> training(*this);
    ProgressBar progress(strategy_.is_chief() ? options.verbose : 0);
    const std::int64_t batches = mine.steps();
    progress.begin_epoch(0, options.steps ? options.steps : batches >= 0 ? std::optional(batches) : std::nullopt);
    typename Compiled::Status result;
    strategy_.run([&](auto& replica) {
      const auto activity = show_call(replica, "evaluate");
      detail::agree(replica.collective(), "evaluate", signature);
      Own& own = *replicas_[static_cast<std::size_t>(replica.local_rank())];
      BatchLoader<T> data(distribute(dataset, replica), Compiled::has_targets);
      if (replica.local_rank() == 0) list.report_to(activity_board(replica.collective()));
      if (replica.local_rank() == 0)
        result = detail::test_pass(compiled_, own, replica, data, options.steps,
                                   detail::TestHooks<Compiled, CallbackList<Callbacks...>>(
                                       training, compiled_, list, {.call = "evaluate"}, &progress),
                                   "evaluate");
      else
        detail::test_pass(compiled_, own, replica, data, options.steps, detail::NoTestHooks{});
    });
    if (result[Compiled::Status::samples] == 0) throw DataError("evaluate: the data is empty");
    Logs logs;
    compiled_.report(result, logs);
    return logs;
  }

  template <class... Callbacks>
  Predictions run_predict(const AnyDataset& dataset, const PredictOptions& options, Callbacks&... callbacks) {
    const detail::WorkerData mine("predict", dataset, place(), AutoShardPolicy::data);
    detail::check_pass("predict", mine, {.input = InputShape::extents}, options.steps);
    const std::string signature = detail::pass_signature(mine, options.steps);
    CallbackList<Callbacks...> list(callbacks...);
    detail::ModelTraining<Model> training(*this);
    std::vector<T> rows;
    const Activity where{.call = "predict"};
    detail::call_hooks(list, where, [&] { list.on_predict_begin(training); });
    strategy_.run([&](auto& replica) {
      const auto activity = show_call(replica, "predict");
      detail::agree(replica.collective(), "predict", signature);
      Own& own = *replicas_[static_cast<std::size_t>(replica.local_rank())];
      BatchLoader<T> data(distribute(dataset, replica, AutoShardPolicy::data), false);
      const std::int64_t made = detail::predict_pass(compiled_, own, replica, data, options.steps,
                                                     replica.local_rank() == 0 ? &rows : nullptr);
      if (replica.collective().rank() == 0) detail::warn_of_missing_steps("predict", made, options.steps);
    });
    detail::call_hooks(list, where, [&] { list.on_predict_end(training); });
    constexpr auto columns = static_cast<Eigen::Index>(OutputShape::size);
    return Eigen::Map<const Predictions>(rows.data(), static_cast<Eigen::Index>(rows.size()) / columns, columns);
  }

  [[nodiscard]] TrainingState save_state(TrainingState reused = {}) const {
    TrainingState saved;
    saved.signature = compiled_.signature();
    if (reused.signature == saved.signature) {  // then its arrays are as large as this model's
      saved.parameters = std::move(reused.parameters);
      saved.state = std::move(reused.state);
      saved.slots = std::move(reused.slots);
    }
    saved.world_size = strategy_.num_replicas_in_sync();
    compiled_.state.save(saved);
    detail::save_arrays(saved.state, 0, untrained_arrays(*replicas_[0]));
    return saved;
  }

  /// Bytes of all arrays of save_state().
  [[nodiscard]] std::uint64_t state_bytes() const {
    const std::size_t trained = compiled_.state.parameters().values().size() * (1 + compiled_.state.slots().size());
    return (trained + replicas_[0]->state().values().size()) * sizeof(T);
  }

  void restore_state(const TrainingState& saved) {
    detail::check_signature(saved.signature, compiled_.signature());
    for (const auto& own : replicas_) detail::load_arrays(saved.state, 0, untrained_arrays(*own), true);
    compiled_.state.restore(saved);
    for (const auto& own : replicas_) detail::load_arrays(saved.state, 0, untrained_arrays(*own), false);
    if (strategy_.is_chief() && saved.signature != compiled_.signature())
      log_line(
          concat({"restore: goes on with the learning rate ", saved.learning_rate,
                  " of the saved state; this program has ", static_cast<double>(compiled_.optimizer.learning_rate)}));
  }

  /// Layer by layer, the trained ones before the others.
  [[nodiscard]] std::vector<detail::NamedArray<T>> all_variables(const Own& own) const {
    return detail::named_arrays<Net>(compiled_.state.parameters(), own.state());
  }

  static detail::ArrayList untrained_arrays(const Own& own) {
    return detail::array_list<T>(Net::template state_variables<InputShape>,
                                 Net::template state_variable_names<InputShape>(), own.state().slices());
  }

  S& strategy_;
  bool is_in_fit_ = false;
  Compiled compiled_;
  std::vector<std::unique_ptr<Own>> replicas_;  // made by each replica's own thread
};

namespace detail {

/// compile, and then begin(model).
template <class Net, class T, Strategy S, class Begin, class LossType, class OptimizerType, class... Metrics>
auto compile_and(S& strategy, CompileOptions options, Begin begin, LossType loss, OptimizerType optimizer,
                 Metrics... metrics) {
  using In = typename Net::InputShape;
  static_assert(!std::is_void_v<In>,
                "lockstep: the first layer of a model must be its Input: write Sequential<Input<28, 28>, ...>");
  if constexpr (!std::is_void_v<In>) {
    using Out = typename Net::template Output<In>;
    static_assert(Loss<LossType, Out, T>,
                  "lockstep: the argument after the strategy must be a loss (see losses/concepts.hpp)");
    static_assert(Optimizer<OptimizerType, T>,
                  "lockstep: the argument after the loss must be an optimizer (see optimizers/concepts.hpp)");
    static_assert((Metric<Metrics, T> && ...),
                  "lockstep: the arguments after the optimizer must be metrics (see metrics/concepts.hpp)");
    return Model<Net, T, S, LossType, OptimizerType, Metrics...>(
        strategy, options, std::move(loss), std::move(optimizer), std::tuple<Metrics...>(std::move(metrics)...),
        std::move(begin));
  }
}

}  // namespace detail

/// Puts a network, a strategy, a loss, an optimizer and metrics together; T is the scalar type of all arrays. Waits for the other
/// workers, checks that they run the same program (ConfigurationError names the difference), and starts from the chief's
/// seed and variables.
template <class Net, class T = float, Strategy S, class LossType, class OptimizerType, class... Metrics>
auto compile(S& strategy, CompileOptions options, LossType loss, OptimizerType optimizer, Metrics... metrics) {
  return detail::compile_and<Net, T>(
      strategy, options, [](auto&) {}, std::move(loss), std::move(optimizer), std::move(metrics)...);
}

template <class Net, class T = float, Strategy S, class LossType, class OptimizerType, class... Metrics>
  requires(!std::same_as<LossType, CompileOptions>)
auto compile(S& strategy, LossType loss, OptimizerType optimizer, Metrics... metrics) {
  return compile<Net, T>(strategy, CompileOptions{}, std::move(loss), std::move(optimizer), std::move(metrics)...);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
