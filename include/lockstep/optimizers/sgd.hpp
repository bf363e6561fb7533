// Stochastic gradient descent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/update_rules.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Stochastic gradient descent with momentum; Keras's formulas, with g the mean gradient and m a
/// slot:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   w -= learning_rate * g                      momentum == 0: no slot
///   m = momentum * m - learning_rate * g;  w += m
///   ... nesterov:                          w += momentum * m - learning_rate * g
///
/// With MomentumForm::pytorch, m *= learning_rate / previous_learning_rate comes before.
/// Use: `SGD{.learning_rate = 0.1, .momentum = 0.9}`.
struct SGD {
  LearningRate learning_rate = 0.01;
  double momentum = 0;                               ///< in [0, 1)
  bool nesterov = false;                             ///< no effect without momentum
  MomentumForm momentum_form = MomentumForm::keras;  ///< matters where the learning rate changes
  double weight_decay = 0;
  double clipnorm = 0;         ///< the largest norm of a variable's gradient; 0: any
  double clipvalue = 0;        ///< the largest element of a gradient; 0: any
  double global_clipnorm = 0;  ///< the largest norm of all gradients together; 0: any
  VariableFilter exclude_from_weight_decay = {};
  LearningRateFactors learning_rate_factors = {};
  bool use_ema = false;  ///< keeps moving averages of the weights, which replace them when fit ends
  double ema_momentum = 0.99;                ///< in [0, 1]
  std::int64_t ema_overwrite_frequency = 0;  ///< updates until averages replace weights; 0: never
  std::int64_t gradient_accumulation_steps = 1;  ///< steps whose gradients make one update

  static constexpr std::string_view name = "SGD";

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  [[nodiscard]] constexpr std::size_t slots() const { return momentum == 0 ? 0 : 1; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const;

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

LOCKSTEP_EXTERN(detail::RulesOf<SGD> detail::update_rules);

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/optimizers/sgd.ipp"
#endif
