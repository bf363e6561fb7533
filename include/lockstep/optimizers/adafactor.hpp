// Adam with second moments of rows and columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/learning_rate.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/optimizers/variable_filter.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Adafactor: Shazeer, Stern, "Adafactor: adaptive learning rates with sublinear memory cost", ICML
/// 2018; Keras's formulas. With g the mean gradient, t the iteration, and root mean squares over a
/// variable:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   rate = min(learning_rate, 1 / sqrt(t)) * max(epsilon_2, rms(w))
///   b = 1 - t^beta_2_decay
///   r = b * r + (1 - b) * mean of g * g + epsilon_1 over the last dimension
///   c = b * c + (1 - b) * mean of g * g + epsilon_1 over the one before
///   v = r * c / mean of r over its last dimension;  u = g / sqrt(v)
///   w -= rate * u / max(1, rms(u) / clip_threshold)
///
/// A variable of one dimension has v = b * v + (1 - b) * (g * g + epsilon_1). So has one with a
/// last dimension or one before it of 1, where v is the same. r and c lie one after the other in a
/// slot that is as long as the parameters, as is the v of others: half of Adam's memory. With
/// `.relative_step = false`, rate has the learning rate itself. (In Keras that option changes
/// nothing.)
struct Adafactor {
  LearningRate learning_rate = 0.001;
  double beta_2_decay = -0.8;  ///< below 0
  double epsilon_1 = 1e-30;
  double epsilon_2 = 1e-3;
  double clip_threshold = 1;  ///< above 0
  bool relative_step = true;
  double weight_decay = 0;
  double clipnorm = 0;         ///< the largest norm of a variable's gradient; 0: any
  double clipvalue = 0;        ///< the largest element of a gradient; 0: any
  double global_clipnorm = 0;  ///< the largest norm of all gradients together; 0: any
  VariableFilter exclude_from_weight_decay = {};
  LearningRateFactors learning_rate_factors = {};
  bool use_ema = false;  ///< keeps moving averages of the weights, which replace them when fit ends
  double ema_momentum = 0.99;                ///< in [0, 1]
  std::int64_t ema_overwrite_frequency = 0;  ///< updates until averages replace weights; 0: never
  std::int64_t gradient_accumulation_steps = 1;  ///< gradients of so many steps make an update

  static constexpr std::string_view name = "Adafactor";
  static constexpr bool updates_whole_variables = true;

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  [[nodiscard]] std::size_t slots() const { return 1; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const;

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;

 private:
  /// The last two dimensions, and how many such matrices there are; columns: 0 where v is not
  /// factored.
  struct Extents {
    std::size_t outer = 1, rows = 0, columns = 0;
  };
  [[nodiscard]] static Extents extents_of(const Variable& variable) noexcept;

  template <class T>
  struct Moments;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/optimizers/adafactor.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_OPTIMIZER_INSTANCES(Adafactor);
}  // namespace lockstep::inline LOCKSTEP_ABI
