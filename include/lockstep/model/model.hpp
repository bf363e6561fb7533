// Model: a network with a strategy, a loss, an optimizer and metrics.
//
// (One file of more than 800 lines: Model's members, most of them comments for programs.)
#pragma once

#include <Eigen/Core>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_matrix.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/tensor.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/history.hpp"
#include "lockstep/training/loops.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What a Tensor can be made from.
template <class X>
concept Array = requires(const X& x) { Tensor(x); };
template <class... Xs>
concept Arrays = (Array<Xs> && ...);

/// The rows of x, and of y as their targets where it is given, in order. Throws ConfigurationError
/// when the batch size is below 1, and DataError when the numbers of rows differ.
template <class... Arrays>
[[nodiscard]] AnyDataset array_data(std::string_view where,
                                    const std::optional<std::int64_t>& batch_size,
                                    const Arrays&... x_and_y) {
  const std::int64_t batch = array_batch_size(where, batch_size);
  return from_tensor_slices(x_and_y...).batch(batch);
}

/// The rows of x and y, with weights unless there are none.
template <class X, class Y>
[[nodiscard]] auto weighted_slices(const X& x, const Y& y, const Tensor<float>& weights) {
  return weights.rows() > 0 ? from_tensor_slices(x, y, weights) : from_tensor_slices(x, y);
}

/// All rows as one batch. Throws DataError when there are none, or the numbers of rows differ.
template <class... Arrays>
[[nodiscard]] AnyDataset one_batch(std::string_view where, const Arrays&... x_and_y) {
  const auto samples = from_tensor_slices(x_and_y...);
  if (samples.cardinality() == 0)
    throw DataError(concat({where, ": the batch has no rows; give at least one"}));
  return samples.batch(samples.cardinality());
}

/// What evaluate uses.
template <class X, class Y>
[[nodiscard]] AnyDataset evaluation_data(const X& x, const Y& y, const EvaluateOptions& options) {
  const std::int64_t batch = array_batch_size("evaluate", options.batch_size);
  return weighted_slices(x, y, options.sample_weight).batch(batch);
}

/// What fit trains on. Without validation_data, the last samples (a share of validation_split)
/// become it.
template <class X, class Y>
[[nodiscard]] AnyDataset training_data(const X& x, const Y& y, FitOptions& options) {
  const std::int64_t batch = array_batch_size("fit", options.batch_size);
  const auto samples = weighted_slices(x, y, options.sample_weight);
  const std::int64_t size = samples.cardinality();
  const std::int64_t train =
      options.validation_data ? size : training_samples(size, options.validation_split);
  // One type of pipeline for both, which is quicker to compile; a buffer of one sample shuffles
  // nothing. Keras, too, takes the last samples for validation, before it shuffles.
  const auto part = [&](std::int64_t begin, std::int64_t end, std::int64_t buffer,
                        std::int64_t batch_size) {
    return AnyDataset(samples.skip(begin).take(end - begin).shuffle(buffer).batch(batch_size));
  };
  if (train < size) {
    const auto wanted = std::exchange(options.validation_batch_size, std::nullopt);
    options.validation_data =
        part(train, size, 1, wanted ? array_batch_size("fit: validation", wanted) : batch);
  }
  return part(0, train, options.shuffle && train > 1 ? train : 1, batch);
}

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Options of compile.
struct CompileOptions {
  /// For initial values, shuffling and everything else that is random. Default: drawn by the chief,
  /// whose seed all workers use.
  std::optional<std::uint64_t> seed = std::nullopt;
  /// When the ranks communicate. Default: in every step. Over a slow network, rounds of steps
  /// without communication: LocalSGD{.steps = 16}, or DiLoCo{.steps = 500}. Equal on all workers,
  /// and part of what a saved state must have in common with the program.
  Synchronization synchronization = {};
};

}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class>
inline constexpr bool no_call = false;

// Each sentence lists the fields of its options in their order; a test compares the two.

template <class Data>
struct FitSentence {
  static_assert(
      no_call<Data>,
      "lockstep: no such call of fit: it is fit(dataset, {options}, callbacks...) or fit(x, y, "
      "{options}, callbacks...), and an option is misspelt or of the wrong type. FitOptions has, "
      "in this order: batch_size, epochs, verbose, validation_split, validation_data, shuffle, "
      "class_weight, sample_weight, initial_epoch, steps_per_epoch, validation_steps, "
      "validation_batch_size, validation_freq, stop_on_non_finite, verify_replicas, profile");
  static constexpr bool said = true;
};

template <class Data>
struct EvaluateSentence {
  static_assert(no_call<Data>,
                "lockstep: no such call of evaluate: it is evaluate(dataset, {options}, "
                "callbacks...) or evaluate(x, y, {options}, callbacks...), and an option is "
                "misspelt or of the wrong type. EvaluateOptions has, in this order: batch_size, "
                "verbose, sample_weight, steps");
  static constexpr bool said = true;
};

template <class Data>
struct PredictSentence {
  static_assert(no_call<Data>,
                "lockstep: no such call of predict: it is predict(x, {options}, callbacks...), and "
                "an option is misspelt "
                "or of the wrong type. PredictOptions has, in this order: batch_size, steps");
  static constexpr bool said = true;
};

template <class Data>
struct AdaptSentence {
  static_assert(
      no_call<Data>,
      "lockstep: no such call of adapt: it is adapt(dataset, {options}) or adapt(x, {options}), "
      "and an option "
      "is misspelt or of the wrong type. AdaptOptions has, in this order: batch_size, steps");
  static constexpr bool said = true;
};

/// For a call whose first argument is an array in braces.
template <class Number>
struct BracesSentence {
  static constexpr bool said = true;
  static_assert(no_call<Number>,
                "lockstep: an array in braces has no type: write ls::Tensor<float>({1, 2, 3, 4}, "
                "{2, 2}), two samples of two numbers, or a std::vector<float>, a sample for each "
                "number");
};

/// The first parameter of `f(OtherCall<Sentence>, ...)`, an overload that takes every call, and is
/// chosen where no other one fits: a conversion and an ellipsis are the worst match. The compiler
/// then converts the first argument first, which needs the default argument below, so that the
/// sentence is its first error. (Braces with an unknown designator match an ellipsis, nothing
/// else.)
template <template <class> class Sentence>
struct OtherCall {
  template <class Data>
  OtherCall(const Data&, bool = Sentence<Data>::said);
  template <class Number>
  OtherCall(std::initializer_list<Number>, bool = BracesSentence<Number>::said);
  template <class Number>
  OtherCall(std::initializer_list<std::initializer_list<Number>>,
            bool = BracesSentence<Number>::said);
};

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// How a file lays out its arrays, and what it calls them.
enum class WeightsLayout {
  keras,  ///< as save_weights: "dense/kernel" [inputs x units]
  /// A state_dict of PyTorch: "fc.weight" [units x inputs]. Dots stand for slashes; weight is a
  /// layer's kernel, embeddings, gamma or scale, bias its bias or beta, running_mean and
  /// running_var are its moving_mean and moving_variance. Kernels of Linear (also those of several
  /// heads, as query/kernel), Conv1d, Conv2d (also depthwise) and ConvTranspose2d are transposed;
  /// the gates of GRU are put into Keras's order, and the two biases of LSTM and RNN are added.
  /// Arrays of whole numbers (num_batches_tracked) are passed over.
  pytorch,
};

/// A name in the file, and the one that this model has in its place.
struct WeightsRename {
  std::string from;  ///< of an array ("fc.weight"), or what the names of a module begin with ("fc")
  std::string to;    ///< "dense/kernel", or "dense"
  /// PyTorch's Linear behind a Flatten: what was made flat, as [channels, height, width]. PyTorch
  /// flattens it in that order, and Keras by height, width and channel, so that rows must move.
  std::vector<std::size_t> flattened = {};
};

/// Options of save.
struct SaveOptions {
  bool sharded = false;  ///< a folder with a file of each worker, in place of the chief's one file
};

/// Options of load_weights: Keras's, and more for files of other programs.
struct LoadWeightsOptions {
  /// Load what both have: variables that the file lacks keep their values, and arrays that the
  /// model lacks are skipped. (Otherwise either is an error.)
  bool by_name = false;
  /// Keep the value of a variable whose shape in the file differs, instead of throwing.
  bool skip_mismatch = false;
  /// If several rules fit a name, the one with the longest `from` is used.
  std::vector<WeightsRename> rename = {};
  WeightsLayout layout = WeightsLayout::keras;
  /// Load only the variables of a file of Keras, not the state of its optimizer.
  bool weights_only = false;
};

/// What load_weights did with each variable of the model.
struct LoadedWeights {
  std::vector<std::string> loaded;      ///< has its value from the file
  std::vector<std::string> missing;     ///< is not in the file, and keeps its value
  std::vector<std::string> mismatched;  ///< has another shape there, and keeps its value
  std::vector<std::string>
      unused;  ///< arrays of the file (under its names) that are none of the model's
  bool optimizer_state = false;  ///< that of Keras's file was taken, too
};

/// Options of set_weights.
struct SetWeightsOptions {
  bool by_name = false;  ///< set the variables of these names alone
};

/// One variable, as get_weights gives it.
template <class T>
struct Weight {
  std::string name;  ///< "dense_1/kernel"
  std::vector<std::size_t> shape;
  std::vector<T> values;  ///< row-major, in Keras's order of dimensions
};

namespace detail {

template <class T>
[[nodiscard]] std::vector<Weight<T>> copy_weights(const std::vector<NamedArray<T>>& arrays) {
  std::vector<Weight<T>> weights;
  for (const NamedArray<T>& array : arrays)
    weights.push_back({.name = array.name,
                       .shape = {array.variable->shape().begin(), array.variable->shape().end()},
                       .values = {array.values.begin(), array.values.end()}});
  return weights;
}

/// For each weight, the number of the array of its name. Throws ConfigurationError for a name that
/// no array has, or that comes twice.
template <class T>
[[nodiscard]] std::vector<std::size_t> find_weights(const std::vector<Weight<T>>& weights,
                                                    const std::vector<NamedArray<T>>& arrays) {
  std::vector<std::size_t> found;
  for (const Weight<T>& weight : weights) {
    const auto at = std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray<T>& array) {
      return array.name == weight.name;
    });
    if (at == arrays.end()) {
      std::string names;
      for (const NamedArray<T>& array : arrays) names += (names.empty() ? "" : ", ") + array.name;
      throw ConfigurationError(
          concat({"set_weights: by_name: the model has no variable ", in_quotes(weight.name),
                  "; it has ", printable(names, 600)}));
    }
    const auto index = static_cast<std::size_t>(at - arrays.begin());
    if (std::find(found.begin(), found.end(), index) != found.end())
      throw ConfigurationError(
          concat({"set_weights: by_name: ", in_quotes(weight.name), " is given twice"}));
    found.push_back(index);
  }
  return found;
}

/// Throws ConfigurationError when the number of weights or a shape differs from the arrays'.
template <class T>
void check_weights(const std::vector<Weight<T>>& weights,
                   const std::vector<NamedArray<T>>& arrays) {
  if (weights.size() != arrays.size())
    throw ConfigurationError(
        concat({"set_weights: expected ", arrays.size(), " arrays, got ", weights.size()}));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::span<const std::size_t> shape = arrays[i].variable->shape();
    if (!std::equal(weights[i].shape.begin(), weights[i].shape.end(), shape.begin(), shape.end()) ||
        weights[i].values.size() != arrays[i].values.size())
      throw ConfigurationError(
          concat({"set_weights: expected ", arrays[i].name, " ", shape_text(shape), ", got '",
                  weights[i].name, "' ", shape_text(weights[i].shape), " with ",
                  weights[i].values.size(), " values"}));
  }
}

/// Copies weights that check_weights has passed.
template <class T>
void put_weights(const std::vector<Weight<T>>& weights, const std::vector<NamedArray<T>>& arrays) {
  for (std::size_t i = 0; i < weights.size(); ++i)
    std::copy(weights[i].values.begin(), weights[i].values.end(), arrays[i].values.begin());
}

/// Files of a Model; in saving/model_files.hpp, so that a program without files needs no archives.
template <class Model>
struct ModelFiles;

}  // namespace detail

/// The members of Model for its variables, in memory and in files, and for figures about them. T is
/// its scalar type.
template <class Model, class T>
class ModelVariables {
 public:
  /// A copy of every variable in Keras's order: layer by layer, the trained ones before the others
  /// (moving statistics).
  /// Use: `model.get_weights()`.
  [[nodiscard]] std::vector<Weight<T>> get_weights() const {
    return detail::copy_weights(detail::named_arrays_of(trainer(), 0));
  }

  /// Sets every variable, in the form of get_weights; the chief's go to all workers when the next
  /// fit begins. Throws ConfigurationError, having changed nothing, when a number or a shape
  /// differs, and Error while fit trains with parameter servers.
  /// Use: `model.set_weights(model.get_weights())`.
  void set_weights(const std::vector<Weight<T>>& weights) {
    detail::check_variables_are_here(trainer(), "set_weights");
    detail::check_weights(weights, detail::named_arrays_of(trainer(), 0));
    for (std::size_t i = 0; i < detail::replicas_of(trainer()); ++i)
      detail::put_weights(weights, detail::named_arrays_of(trainer(), i));
  }

  /// The same; with .by_name only the variables that are named, in any order, and the others stay:
  /// Keras's `layer.set_weights`. Throws ConfigurationError, too, for a name that the model does
  /// not have, or that comes twice.
  /// Use: `model.set_weights({{"dense/bias", {2}, {0.5, -0.5}}}, {.by_name = true})`. Keras:
  /// `layer.set_weights([kernel, bias])`.
  void set_weights(const std::vector<Weight<T>>& weights, const SetWeightsOptions& options) {
    if (!options.by_name) return set_weights(weights);
    detail::check_variables_are_here(trainer(), "set_weights");
    const auto found = detail::find_weights(weights, detail::named_arrays_of(trainer(), 0));
    for (std::size_t i = 0; i < detail::replicas_of(trainer()); ++i) {
      const auto all = detail::named_arrays_of(trainer(), i);
      std::vector<detail::NamedArray<T>> named;
      for (const std::size_t index : found) named.push_back(all[index]);
      if (i == 0) detail::check_weights(weights, named);
      detail::put_weights(weights, named);
    }
  }

  /// Saves the whole training state (variables, optimizer, learning rate, updates, seed) in
  /// lockstep's own format, for load and load_model. The chief alone writes. Throws Error naming
  /// the path; the file that was there then stays.
  /// Use: `model.save("net.lockstep")`.
  void save(const std::string& path) const { files().save(model(), path); }
  /// The same; with .sharded, each worker writes its share, in parallel, into the folder `path`,
  /// which all workers must see (a shared file system), and with sharded_updates no slots are
  /// gathered. Any number of workers loads it, each what it needs. Throws the same Error on all
  /// workers, naming worker, host and file; what was saved there before then stays.
  /// Use: `model.save("net.ckpt", {.sharded = true})`.
  void save(const std::string& path, const SaveOptions& options) const {
    files().save(model(), path, options);
  }

  /// Continues from a file that save (or ModelCheckpoint, CheckpointManager) wrote. The chief alone
  /// reads and sends it to the others, so that the folder need not be shared (with parameter
  /// servers, each process reads it). The file's learning
  /// rate is used then, whatever compile was given; variables, loss, metrics and the
  /// optimizer's other options must be the same (where they are not, load_weights takes the
  /// variables alone). Throws, on every worker, DataError when the file cannot be read or is
  /// damaged, and ConfigurationError naming the difference when it belongs to another model;
  /// nothing is changed then.
  /// Use: `model.load("net.lockstep")`. Keras: `load_model`.
  void load(const std::string& path) { files().load(model(), path); }

  /// Saves every variable as get_weights gives it: by the extension as .safetensors, .npz,
  /// .weights.h5, or else in lockstep's own format. The chief alone writes. Throws Error naming the
  /// path.
  ///
  /// A .weights.h5 file is what Keras 3 reads into the same model, a functional one where there are
  /// Residual or Parallel. It needs HDF5's library: link the CMake target lockstep::hdf5, or it is
  /// a ConfigurationError, as are names that end in .h5, .hdf5 and .keras otherwise. As Keras does,
  /// it puts the optimizer's state into the file (but not that of LARS and of other optimizers
  /// without keras_slots). In a fit with parameter servers the variables alone are saved; with
  /// sharded_updates all workers must make this call, and in a fit too the state is in the file
  /// where the chief has it (see Training::state).
  /// Use: `model.save_weights("net.weights.h5")`.
  void save_weights(const std::string& path) const { files().save_weights(model(), path); }

  /// Sets every variable, found by its name, from such a file or one that other programs wrote;
  /// float32 and float64 are converted into each other. The chief alone reads. Throws, on every
  /// worker, DataError when it cannot be read or is damaged, and ConfigurationError naming the
  /// first variable that is missing, unknown or of another shape; nothing is changed then.
  ///
  /// In Keras 3's .weights.h5 and .keras files (with lockstep::hdf5), layers are found by class and
  /// number, as in Keras: "dense_1/0" for dense_1/kernel. The optimizer's state is taken over, too,
  /// if it is of an optimizer like this one: slots, updates made and, unless there is a schedule,
  /// the learning rate; the chief says so, or why not (a state that is damaged is a DataError all
  /// the same). A model that is in fit, or of which a variable was not loaded, keeps its state.
  /// Use: `model.load_weights("net.safetensors")`.
  void load_weights(const std::string& path) { files().load_weights(model(), path); }
  /// The same from a file of another model or program: by the variables' names, without those of
  /// other shapes, renamed, or in PyTorch's layout. With .by_name or .weights_only the state of
  /// Keras's optimizer is not loaded. Says on the chief what was not loaded. Throws
  /// ConfigurationError, too, when nothing at all was found; nothing is changed then.
  LoadedWeights load_weights(const std::string& path, const LoadWeightsOptions& options) {
    return files().load_weights(model(), path, options);
  }

  /// CRC-32C over the bits of all trained parameters: equal runs have equal sums.
  /// Use: `model.parameters_crc32c()`. Keras: none.
  [[nodiscard]] std::uint32_t parameters_crc32c() const {
    return detail::parameters_crc32c(trainer());
  }

  /// The seed in use, which is the chief's.
  /// Use: `model.seed()`. Keras: none.
  [[nodiscard]] std::uint64_t seed() const noexcept { return detail::seed_of(trainer()); }
  /// The rate of the next update, a schedule's too.
  /// Use: `model.learning_rate()`. Keras: `optimizer.learning_rate`.
  [[nodiscard]] double learning_rate() const { return detail::learning_rate_of(trainer()); }
  /// Sets the rate of the fits that follow; the updates made so far still count. The chief's value
  /// goes to all workers when the next fit begins; in a callback, all workers must make the same
  /// call. Throws ConfigurationError unless it is finite and at least 0, and if the optimizer has a
  /// schedule.
  /// Use: `model.set_learning_rate(0.01)`. Keras: `optimizer.learning_rate = 0.01`.
  void set_learning_rate(double learning_rate) {
    detail::set_learning_rate(trainer(), learning_rate);
  }
  /// What MixedFloat16 multiplies the gradient of the loss by in the next step; 1 without it.
  /// Use: `model.dynamic_scale()`. Keras: `optimizer.dynamic_scale`.
  [[nodiscard]] double dynamic_scale() const noexcept { return detail::loss_scale_of(trainer()); }
  /// Optimizer updates made so far.
  /// Use: `model.iterations()`. Keras: `optimizer.iterations`.
  [[nodiscard]] std::int64_t iterations() const noexcept {
    return detail::iterations_of(trainer());
  }

 private:
  friend Model;
  ModelVariables() = default;
  ~ModelVariables() = default;

  [[nodiscard]] Model& model() noexcept { return static_cast<Model&>(*this); }
  [[nodiscard]] const Model& model() const noexcept { return static_cast<const Model&>(*this); }
  [[nodiscard]] detail::Trainer<T>& trainer() const noexcept { return *model().trainer_; }

  static auto files() {
    static_assert(
        requires { sizeof(detail::ModelFiles<Model>); },
        "lockstep: to save or load a model, #include <lockstep/saving/model_files.hpp>");
    return detail::ModelFiles<Model>{};
  }
};

namespace detail {

/// Model::on; in model/own_loop.hpp, so that a program without a loop does not pay for it.
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
  /// As above, and then calls begin(*this): a model cannot be moved, so a function that returns one
  /// cannot change it first.
  template <class Begin>
  Model(detail::StrategyOf<S> strategy, CompileOptions options, LossType loss,
        OptimizerType optimizer, std::tuple<Metrics...> metrics, Begin begin)
      : Model(std::move(strategy), options, std::move(loss), std::move(optimizer),
              std::move(metrics)) {
    begin(*this);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Trains on a dataset of global batches, or on arrays (x, y). Returns one value for each figure
  /// and each epoch that this call has completed: without those from before an interruption, and
  /// with no epoch at all if nothing was left to do. Passes over the data are counted on from fit
  /// to fit, so that k fits of one epoch are one fit of k epochs, bit for bit (but for use_ema,
  /// whose averages become the weights at the end of each fit); where steps_per_epoch is not a
  /// whole pass, each fit begins a new one.
  /// Throws ConfigurationError for wrong options, before any work; DataError for data that do not
  /// fit the model.
  /// Use: `model.fit(dataset, {.epochs = 3}, EarlyStopping{})`.
  template <class D, class... Callbacks>
  History fit(const D& dataset, FitOptions options = {}, Callbacks&&... callbacks) {
    static_assert(Dataset<D>,
                  "lockstep: fit(dataset) needs a dataset of batches: put .batch(n) at its end; "
                  "plain arrays are given as fit(x, y, {.batch_size = 32})");
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

  /// Any other call is an error that says so.
  History fit(detail::OtherCall<detail::FitSentence>, ...);

  /// Loss and metrics over a dataset or arrays, weighted by its samples; equal on every worker.
  /// Use: `model.evaluate(dataset)`.
  template <class D, class... Callbacks>
  Logs evaluate(const D& dataset, EvaluateOptions options = {}, Callbacks&&... callbacks) {
    static_assert(Dataset<D>,
                  "lockstep: evaluate(dataset) needs a dataset of batches: put .batch(n) at its "
                  "end; plain arrays are given as evaluate(x, y)");
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
  /// Any other call is an error that says so.
  Logs evaluate(detail::OtherCall<detail::EvaluateSentence>, ...);

  /// The outputs for all samples, one row each, in the order of the dataset, on every worker. Needs
  /// every worker to reach all of the data (AutoShardPolicy::data, whatever the dataset says).
  /// Use: `model.predict(x)`.
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
  /// Any other call is an error that says so.
  Predictions predict(detail::OtherCall<detail::PredictSentence>, ...);

  /// One update, on one global batch: a sample for each row of x, and its targets in the same row
  /// of y. All workers give the same arrays, and each replica takes its part of them. Returns loss
  /// and metrics of this batch alone, as they were before the update (Keras 3 gives means over all
  /// calls since reset_metrics). k calls are k steps of a fit that does not shuffle, bit for bit,
  /// except for layers that draw random numbers, because the samples of each call are numbered from
  /// 0, and for gradient_accumulation_steps, because each call sums over replicas at once. No
  /// callback is called, and the chief's variables do not go to the workers first, as they do when
  /// fit begins: all must have set the same ones. Throws as fit does, and DataError when there is
  /// no row. A third array has the weights of the samples.
  /// Use: `model.train_on_batch(x, y)`.
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
  /// Use: `model.test_on_batch(x, y)`.
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
  /// Use: `model.predict_on_batch(x)`.
  template <class X>
  Predictions predict_on_batch(const X& x) {
    static_assert(
        detail::Arrays<X>,
        "lockstep: predict_on_batch(x) needs an array: an Eigen matrix, a std::vector or a Tensor");
    if constexpr (detail::Arrays<X>)
      return run_predict(detail::one_batch("predict_on_batch", x), {});
  }

  /// Sets mean and variance of every Normalization layer, and the boundaries of every
  /// Discretization of a number of bins, to those of its input over the data of all workers, layer
  /// by layer, before training. Targets are not read. Throws ConfigurationError if the model has no
  /// such layer, DataError if there are no data.
  /// Use: `model.adapt(x)`. Keras: `Normalization.adapt`, `Discretization.adapt`.
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
                  "array: an Eigen matrix, a std::vector or a Tensor");
    if constexpr (detail::Arrays<X>)
      detail::adapt(*trainer_, detail::array_data("adapt", options.batch_size, x), options);
  }
  /// Any other call is an error that says so.
  void adapt(detail::OtherCall<detail::AdaptSentence>, ...);

  /// The single steps of this model on a replica of its strategy, for the program's loops: a
  /// ReplicaModel<T>, in the function that the strategy's run() calls. Not while this model is in
  /// fit, nor after the program has called the strategy's reconnect(): compile anew then (Error).
  /// Use: `model.on(replica)`. Keras: none.
  auto& on(typename S::Replica& replica) {
    static_assert(
        requires { sizeof(detail::OnReplica<Model>); },
        "lockstep: for a loop of your own, #include <lockstep/model/own_loop.hpp>");
    return detail::OnReplica<Model>::get(*this, replica);
  }

  /// "dense_1", for each layer; those of a nested Sequential begin with its name and a slash.
  /// Use: `model.layer_names()`. Keras: `[layer.name for layer in model.layers]`.
  static std::vector<std::string> layer_names() { return Net::template layer_names<InputShape>(); }

  /// Prints Keras's table to standard output.
  /// Use: `model.summary()`.
  static void summary() { std::fputs(Net::summary().c_str(), stdout); }

 private:
  template <class, class>
  friend class ModelVariables;
  template <class>
  friend struct detail::ModelFiles;
  template <class>
  friend struct detail::OnReplica;

  // Errors that say what is missing.
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

namespace detail {

/// The strategy of a model that is compiled without one.
[[nodiscard]] inline std::unique_ptr<OneDeviceStrategy> own_strategy() {
  return std::make_unique<OneDeviceStrategy>();
}

/// compile, and then begin(model). `strategy`: a program's, or a model's own.
template <class Net, class T, Strategy S, class Begin, class LossType, class OptimizerType,
          class... Metrics>
auto compile_all(StrategyOf<S> strategy, CompileOptions options, Begin begin, LossType loss,
                 OptimizerType optimizer, Metrics... metrics) {
  static_assert(std::same_as<T, float> || std::same_as<T, double>,
                "lockstep: compile<Net, T>: the type of all arrays is float or double, or T is a "
                "policy: MixedBFloat16 or MixedFloat16 of lockstep/network/mixed_precision.hpp");
#if defined(LOCKSTEP_COMPILED) && !defined(LOCKSTEP_DOUBLE)
  static_assert(!std::same_as<T, double>,
                "lockstep: compile<Net, double>: the library holds float alone; in CMake, link "
                "lockstep::double instead of lockstep::lockstep");
#endif
  using In = typename Net::InputShape;
  static_assert(!std::is_void_v<In>,
                "lockstep: the first layer of a model must be its Input: write "
                "Sequential<Input<28, 28>, ...>");
  if constexpr (!std::is_void_v<In> && (std::same_as<T, float> || std::same_as<T, double>)) {
    using Out = typename Net::template Output<In>;
    static_assert(
        Loss<LossType, TokenOf<Out>, T>,
        "lockstep: in compile<Net>(strategy, options, loss, optimizer, metrics...), which "
        "may lack the first two, the argument in the loss's place is no loss of this model (see "
        "losses/concepts.hpp)");
    static_assert(
        Optimizer<OptimizerType, T>,
        "lockstep: in compile<Net>(strategy, options, loss, optimizer, metrics...), which "
        "may lack the first two, the argument in the optimizer's place is no optimizer (see "
        "optimizers/concepts.hpp)");
    static_assert(
        (Metric<Metrics, T> && ...),
        "lockstep: what stands behind the optimizer must be metrics: ls::Accuracy{}, not a string; "
        "a loss as a metric is ls::metrics::MeanAbsoluteError{} (see metrics/concepts.hpp)");
    static_assert(!std::same_as<LossType, NoLoss> || sizeof...(Metrics) == 0,
                  "lockstep: a model without a loss has no targets, and so no metrics");
    return Model<Net, T, S, LossType, OptimizerType, Metrics...>(
        std::move(strategy), options, std::move(loss), std::move(optimizer),
        std::tuple<Metrics...>(std::move(metrics)...), std::move(begin));
  }
}

/// What the model is made of: of a policy, the network under it, and its scalar type.
template <class Net, class T>
struct UnderPolicy {
  static constexpr bool is_policy = false;
  using Network = Net;
  using Scalar = T;
};
template <class Net, class T>
  requires requires { typename T::template Network<Net>; }
struct UnderPolicy<Net, T> {
  static constexpr bool is_policy = true;
  using Network = typename T::template Network<Net>;
  using Scalar = typename T::Scalar;
};

/// The same with a loss, an optimizer and metrics, or without some of them. T may be a policy.
template <class Net, class Type, class S, class Begin, class... Parts>
auto compile_and(StrategyOf<S> strategy, CompileOptions options, Begin begin, Parts... parts) {
  static_assert(!(UnderPolicy<Net, Parts>::is_policy || ...),
                "lockstep: a policy is a type, not an argument: write "
                "compile<Net, MixedBFloat16>(strategy, loss, optimizer)");
  using T = typename UnderPolicy<Net, Type>::Scalar;
  const auto with = [&]<class... All>(All... all) {
    return compile_all<typename UnderPolicy<Net, Type>::Network, T, S>(
        std::move(strategy), options, std::move(begin), std::move(all)...);
  };
  if constexpr (sizeof...(Parts) == 0)
    return with(NoLoss{}, NoOptimizer{});
  else if constexpr (sizeof...(Parts) > 1)
    return with(std::move(parts)...);
  else if constexpr ((Optimizer<Parts, T> && ...))
    return with(NoLoss{}, std::move(parts)...);
  else
    return with(std::move(parts)..., NoOptimizer{});
}

/// The arguments of compile after its options.
template <class... Parts>
concept CompileParts =
    !(Strategy<std::remove_cvref_t<Parts>> || ...) && !(std::same_as<Parts, CompileOptions> || ...);

}  // namespace detail

/// Puts a network, a strategy, a loss, an optimizer and metrics together; T is the scalar type of
/// all arrays, or a policy: MixedBFloat16, MixedFloat16 (network/mixed_precision.hpp). Waits for
/// the other workers, checks that they run the same program (ConfigurationError names the
/// difference), and starts from the chief's seed and variables.
///
/// Without a strategy, the model trains on one device. For prediction alone it needs neither loss
/// nor optimizer, and for a program's loop no loss, if its steps are given one:
/// @code
/// auto model = compile<Net>(loss, optimizer, metrics...);
/// auto model = compile<Net>(strategy);
/// auto generator = compile<Net>(strategy, {.seed = 1}, Adam{});
/// @endcode
/// Use: `compile<Net>(strategy, {.seed = 1}, MeanSquaredError{}, Adam{}, R2Score{})`.
template <class Net, class T = float, Strategy S, detail::CompileParts... Parts>
auto compile(S& strategy, CompileOptions options, Parts... parts) {
  return detail::compile_and<Net, T, S>(
      strategy, options, [](auto&) {}, std::move(parts)...);
}
template <class Net, class T = float, Strategy S, detail::CompileParts... Parts>
auto compile(S& strategy, Parts... parts) {
  return detail::compile_and<Net, T, S>(
      strategy, {}, [](auto&) {}, std::move(parts)...);
}
template <class Net, class T = float, detail::CompileParts... Parts>
auto compile(CompileOptions options, Parts... parts) {
  return detail::compile_and<Net, T, OneDeviceStrategy>(
      detail::own_strategy(), options, [](auto&) {}, std::move(parts)...);
}
template <class Net, class T = float, detail::CompileParts... Parts>
auto compile(Parts... parts) {
  return detail::compile_and<Net, T, OneDeviceStrategy>(
      detail::own_strategy(), {}, [](auto&) {}, std::move(parts)...);
}

/// For a strategy that would be destroyed at once: a compiler's error that says so.
template <class Net, class T = float, Strategy S, class... Rest>
auto compile(const S&&, Rest&&...) {
  static_assert(!Strategy<S>,
                "lockstep: the strategy must outlive the model: give it a name, in a line before "
                "compile");
  return 0;
}

}}  // namespace lockstep
