// ReplicaModel: the single steps of a model on one replica, for a program's loops.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/step/program.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A replica's part of a global batch, perhaps without a sample. Refers to arrays: what a dataset
/// gives, what another model has computed, or what the program has written to ReplicaModel::room.
template <class T = float>
struct ReplicaBatch {
  TensorView<const T> x = {};  ///< [samples x elements of a sample]
  /// [samples x target values], as many as the loss of the step wants; for a loss that is a
  /// function, any number, even none. (compile's metrics count where the number is theirs.)
  TensorView<const T> targets = {};
  /// The number of each sample, from which layers draw random numbers; different on all replicas.
  /// Empty: rank, rank + R, rank + 2 R, ... with R ranks.
  std::span<const std::int64_t> sample_indices = {};
  std::size_t weight_size =
      0;  ///< the number of target values, the last ones, that are the sample's weights
};

/// What ReplicaModel::gradients returns; valid until the next call of that model on that replica.
template <class T = float>
struct Gradients {
  /// One array for each trained variable, in the order of the layers: the sum over this replica's
  /// rows. The program may change them before it applies them, in the same way on all replicas.
  std::span<const std::span<T>> variables;
  double loss_sum = 0;  ///< of this replica's rows, penalties included
  double rows = 0;      ///< that count: samples or, where the output is a Sequence, tokens
};

/// What ReplicaModel::input_gradient returns: arrays of the model, valid until its next call.
template <class T = float>
struct InputGradient {
  std::span<const double> losses;  ///< of each row
  TensorView<T> gradient;          ///< of the batch's x, in its form
};

namespace detail {

template <class T>
struct Parts;
template <class T>
class Updater;

/// A program's loss: a function like Loss::compute.
template <class L, class T>
concept LossFunction = std::invocable<const L&, TensorView<const T>, TensorView<const T>,
                                      std::span<double>, TensorView<T>>;

/// How many target values a loss wants for a row with this many outputs; nothing where it does not
/// tell, like a function. (All losses want a fixed number, or one that grows with the outputs.)
template <class L>
[[nodiscard]] constexpr std::optional<std::size_t> wanted_targets(std::size_t outputs) {
  if constexpr (requires { L::has_parts; }) {
    return L::template target_size<Shape<std::size_t{1} << 20>>;
  } else if constexpr (requires { L::has_steps; }) {
    return std::nullopt;
  } else if constexpr (requires { L::template target_size<Shape<2>>; }) {
    constexpr std::size_t of_two = L::template target_size<Shape<2>>;
    return of_two + (L::template target_size<Shape<3>> - of_two) * (outputs - 2);
  } else {
    return std::nullopt;
  }
}

}  // namespace detail

/// A model on one replica, in the function that the strategy's run() calls: the parts of which fit
/// makes its steps. Model::on gives it. The counterparts in TensorFlow's tutorial "Custom training
/// with tf.distribute.Strategy":
///
///   model(x, training=False)                      forward(batch)
///   tape.gradient(loss, model.trainable_...)      gradients(batch, loss)
///   optimizer.apply_gradients(...)                apply(gradients)
///   optimizer.minimize(loss, ...)                 minimize(batch, loss), which is gradients and
///                                                 apply in one: as in fit, updates begin during
///                                                 backward
///   tape.gradient(loss, x)                        input_gradient(batch, loss)
///   test_loss.update_state(...), result()         evaluate(batch), evaluation()
///
/// apply and minimize sum the gradients of all replicas and divide by the number of all rows, so
/// that the mean over the global batch is minimised. They are calls of all ranks: each makes the
/// same ones in the same order, a rank without samples too, and ends its loop at the same step. So
/// is gradients, where a layer sums over ranks (`synchronized` BatchNormalization,
/// ActivityRegularization). The bits are those of fit on the same batches. (Not with
/// gradient_accumulation_steps: parameters change with the last of these calls, but gradients are
/// reduced in each, since the model may be saved between them.) Nothing is allocated once the
/// largest batch has been seen.
///
/// `loss` is compile's where it is left out; or an object that satisfies Loss, also for other
/// targets than compile's; or a function with the arguments of Loss::compute,
/// @code
/// [](TensorView<const float> predictions, TensorView<const float> targets,
///    std::span<double> losses, TensorView<float> gradient) { ... }
/// @endcode
/// which writes the loss of each row to `losses`, and its gradient with respect to the predictions
/// to `gradient`, zero in the padding (clear_padding). Several outputs are features side by side:
/// TensorView::part gives one of them, also to the compute of a loss of the library.
///
/// What training changes (variables, optimizer, number of updates) is the model's: fit, evaluate,
/// save and Checkpoint go on with it. Nothing is sent from the chief first, as it is when fit
/// begins: after set_weights and set_learning_rate all workers must have the same. Used by the
/// replica's thread.
/// Use: `model.on(replica)`. Keras: none.
template <class T = float>
class ReplicaModel {
 public:
  using ToInput = void (*)(const BackwardPass<T>&);

  /// Made by Model::on. `to_input` is backward with the gradient of the input.
  ReplicaModel(const detail::Parts<T>& parts, std::unique_ptr<detail::Updater<T>> updater,
               ToInput to_input);
  ReplicaModel(const ReplicaModel&) = delete;
  ReplicaModel& operator=(const ReplicaModel&) = delete;
  ~ReplicaModel();

  /// Where the program may write a batch of `samples` itself: views of the model's memory for a
  /// batch of that size. Their padding is undefined: clear it, unless a loop writes it.
  /// Use: `here.room(32)`. Keras: none.
  [[nodiscard]] BatchViews<T> room(std::size_t samples);

  /// The outputs in inference, a row for each sample or token. They lie in the model's memory until
  /// its next call. Throws DataError when the batch does not fit the model.
  /// Use: `here.forward(batch)`. Keras: `model(x, training=False)`.
  TensorView<const T> forward(const ReplicaBatch<T>& batch) { return forward(batch, false); }

  /// Forward in training, the loss, and backward. The parameters stay as they are.
  /// Use: `here.gradients(batch)`. Keras: `tape.gradient(loss, model.trainable_variables)`.
  [[nodiscard]] Gradients<T> gradients(const ReplicaBatch<T>& batch);
  template <class L>
  [[nodiscard]] Gradients<T> gradients(const ReplicaBatch<T>& batch, const L& loss) {
    return with(loss, [&](const StepLoss& given) { return gradients_of(batch, given); });
  }

  /// One update with the gradients that gradients() returned last. Throws Error when there are
  /// none.
  /// Use: `here.apply(here.gradients(batch))`. Keras: `optimizer.apply_gradients`.
  void apply(const Gradients<T>& gradients);

  /// gradients and apply in one.
  /// Use: `here.minimize(batch)`. Keras: `optimizer.minimize`.
  void minimize(const ReplicaBatch<T>& batch);
  template <class L>
  void minimize(const ReplicaBatch<T>& batch, const L& loss) {
    with(loss, [&](const StepLoss& given) { minimize_loss(batch, given); });
  }

  /// Forward in inference and the loss, without an update: adds to what evaluation() gives.
  /// Use: `here.evaluate(batch)`. Keras: `test_loss.update_state`.
  void evaluate(const ReplicaBatch<T>& batch);
  template <class L>
  void evaluate(const ReplicaBatch<T>& batch, const L& loss) {
    with(loss, [&](const StepLoss& given) { evaluate_loss(batch, given); });
  }
  /// Mean loss and, where the batches had targets of compile's loss, metrics, of all ranks over the
  /// calls of evaluate() since the last evaluation(). A call of all ranks; equal on all.
  /// Use: `here.evaluation()`. Keras: `test_loss.result()`.
  [[nodiscard]] Logs evaluation();

  /// The loss of each row, and its gradient with respect to the batch's x, of x's size: so that
  /// this model can be the loss of another model, as the discriminator is the generator's.
  /// @code
  /// generator.minimize(noise, [&](auto fake, auto, auto losses, auto gradient) {
  ///   discriminator.input_gradient({.x = fake}, looks_real, losses, gradient);
  /// });
  /// @endcode
  /// Layers work as in training; the model itself stays as it is, moving statistics too.
  /// Use: `here.input_gradient(batch, MeanSquaredError{})`. Keras: `tape.gradient(loss, x)`.
  template <class L>
  void input_gradient(const ReplicaBatch<T>& batch, const L& loss, std::span<double> losses,
                      TensorView<T> gradient) {
    with(loss, [&](const StepLoss& given) { input_gradient_of(batch, given, losses, gradient); });
  }
  /// The same in arrays of the model.
  template <class L>
  [[nodiscard]] InputGradient<T> input_gradient(const ReplicaBatch<T>& batch, const L& loss) {
    return with(loss, [&](const StepLoss& given) { return own_input_gradient(batch, given); });
  }

  /// Mean loss and, where the batches had targets, metrics, of all ranks over the updates since
  /// reset_logs. Equal on all ranks.
  /// Use: `here.logs()`. Keras: `train_loss.result()`.
  [[nodiscard]] Logs logs() const;
  /// Begins the sums of logs() anew.
  /// Use: `here.reset_logs()`. Keras: `train_loss.reset_state()`.
  void reset_logs() noexcept;

  /// Called by Model::on.
  void refresh() noexcept;

 private:
  using Compute =
      FunctionRef<void(TensorView<const T>, TensorView<const T>, std::span<double>, TensorView<T>)>;
  struct StepLoss {
    Compute compute;
    std::optional<std::size_t> targets;  ///< of a row; nothing: any number
  };
  struct State;

  template <class L, class F>
  auto with(const L& loss, const F& f) const {
    static_assert(detail::LossFunction<L, T> || DifferentiableLoss<L, T>,
                  "lockstep: a loss of your own is a function of (TensorView<const T> predictions, "
                  "TensorView<const T> "
                  "targets, std::span<double> losses, TensorView<T> gradient), or an object with "
                  "such a compute");
    const auto compute = [&](TensorView<const T> predictions, TensorView<const T> targets,
                             std::span<double> losses, TensorView<T> gradient) {
      if constexpr (detail::LossFunction<L, T>)
        loss(predictions, targets, losses, gradient);
      else if constexpr (DifferentiableLoss<L, T>)
        loss.compute(predictions, targets, losses, gradient);
    };
    return f(StepLoss{Compute(compute), detail::wanted_targets<L>(outputs())});
  }

  [[nodiscard]] std::size_t outputs() const noexcept;
  [[nodiscard]] StepLoss own_loss() const;
  /// Throws ConfigurationError where there is no optimizer.
  void check_optimizer(const char* call) const;
  TensorView<const T> forward(const ReplicaBatch<T>& batch, bool training);
  void begin(const ReplicaBatch<T>& batch, const StepLoss& loss);
  Gradients<T> gradients_of(const ReplicaBatch<T>& batch, const StepLoss& loss);
  void minimize_loss(const ReplicaBatch<T>& batch, const StepLoss& loss);
  void evaluate_loss(const ReplicaBatch<T>& batch, const StepLoss& loss);
  void input_gradient_of(const ReplicaBatch<T>& batch, const StepLoss& loss,
                         std::span<double> losses, TensorView<T> gradient);
  InputGradient<T> own_input_gradient(const ReplicaBatch<T>& batch, const StepLoss& loss);
  void check(const ReplicaBatch<T>& batch) const;
  void check_targets(const ReplicaBatch<T>& batch, const StepLoss& loss) const;
  [[nodiscard]] std::span<const std::int64_t> indices_of(const ReplicaBatch<T>& batch);
  void updated(bool has_updated);

  const std::unique_ptr<State> state_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/step/replica_model.ipp"
#endif
