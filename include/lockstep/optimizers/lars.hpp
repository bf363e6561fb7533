// Momentum with a learning rate for each variable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/learning_rate.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/optimizers/variable_filter.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// LARS: You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017, algorithm
/// 1. With g the mean gradient, m a slot, and norms over a variable:
///
///   rate = learning_rate * trust_coefficient * |w| / (|g| + weight_decay * |w| + epsilon)
///   m = momentum * m + rate * (g + weight_decay * w);  w -= m
///
/// Where |w| or |g| is 0, and for variables of exclude_from_layer_adaptation (biases and what
/// normalisations scale with, usually), rate is the learning rate. The weight decay is a part of
/// the gradient here, as in the paper. A new learning rate is in force at once, as in SGD. (Keras
/// has no LARS; the names are those of TensorFlow's model garden.)
struct LARS {
  LearningRate learning_rate = 0.01;
  double momentum = 0.9;  ///< in [0, 1)
  double trust_coefficient = 0.001;
  double epsilon = 0;
  double weight_decay = 0;
  VariableFilter exclude_from_layer_adaptation = {};
  double clipnorm = 0;         ///< the largest norm of a variable's gradient; 0: any
  double clipvalue = 0;        ///< the largest element of a gradient; 0: any
  double global_clipnorm = 0;  ///< the largest norm of all gradients together; 0: any
  VariableFilter exclude_from_weight_decay = {};
  LearningRateFactors learning_rate_factors = {};
  bool use_ema = false;  ///< keeps moving averages of the weights, which replace them when fit ends
  double ema_momentum = 0.99;                ///< in [0, 1]
  std::int64_t ema_overwrite_frequency = 0;  ///< updates until averages replace weights; 0: never
  std::int64_t gradient_accumulation_steps = 1;  ///< gradients of so many steps make an update

  static constexpr std::string_view name = "LARS";
  static constexpr bool updates_whole_variables = true;

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  [[nodiscard]] std::size_t slots() const { return 1; }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/optimizers/lars.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_OPTIMIZER_INSTANCES(LARS);
}  // namespace lockstep::inline LOCKSTEP_ABI
