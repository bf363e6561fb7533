// Gradients divided by their root mean square.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/learning_rate.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/optimizers/variable_filter.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// RMSprop: Hinton, "Neural networks for machine learning", lecture 6.5; Keras's formulas. With g
/// the mean gradient and v, a (centered) and m (momentum) slots:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   v = rho * v + (1 - rho) * g * g
///   d = learning_rate * g / sqrt(v + epsilon)
///   ... centered:  a = rho * a + (1 - rho) * g;  d = learning_rate * g / sqrt(v - a * a + epsilon)
///   w -= d;  with momentum:  m = momentum * m + d;  w -= m
///
/// Where the learning rate changes, m is multiplied by the new rate over the old one, as in SGD.
/// (v - a * a is no less than 0, but its rounding may be: it counts as 0 then.)
struct RMSprop {
  LearningRate learning_rate = 0.001;
  double rho = 0.9;     ///< in [0, 1)
  double momentum = 0;  ///< in [0, 1)
  double epsilon = 1e-7;
  bool centered = false;
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

  static constexpr std::string_view name = "RMSprop";

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  [[nodiscard]] std::size_t slots() const;

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const;

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/optimizers/rmsprop.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_OPTIMIZER_INSTANCES(RMSprop);
}  // namespace lockstep::inline LOCKSTEP_ABI
