// Steps divided by the root of past squares: RMSprop, Adagrad, Adadelta.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/update_rules.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// RMSprop: Hinton, "Neural networks for machine learning", lecture 6.5; Keras's formulas. With g
/// the mean gradient and v, a (centered) and m (momentum) slots:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   v = rho * v + (1 - rho) * g * g
///   d = learning_rate * g / sqrt(v + epsilon)
///   ... centered:  a = rho * a + (1 - rho) * g;  d = learning_rate * g / sqrt(v - a * a + epsilon)
///   w -= d;  with momentum:  m = momentum * m + d;  w -= m
///
/// With MomentumForm::pytorch, m *= learning_rate / previous_learning_rate comes before. (v - a * a
/// is no less than 0, but its rounding may be: it counts as 0 then.)
/// Use: `RMSprop{}`.
struct RMSprop {
  LearningRate learning_rate = 0.001;
  double rho = 0.9;     ///< in [0, 1)
  double momentum = 0;  ///< in [0, 1)
  double epsilon = 1e-7;
  bool centered = false;
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

  static constexpr std::string_view name = "RMSprop";

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  [[nodiscard]] constexpr std::size_t slots() const {
    return std::size_t{1} + (centered ? 1 : 0) + (momentum > 0 ? 1 : 0);
  }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const;

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

LOCKSTEP_EXTERN(detail::RulesOf<RMSprop> detail::update_rules);

/// Adagrad: Duchi, Hazan, Singer, "Adaptive subgradient methods for online learning and stochastic
/// optimization", JMLR 12, 2011; Keras's formulas. With g the mean gradient and the slot a, which
/// begins at initial_accumulator_value:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   a += g * g;  w -= learning_rate * g / sqrt(a + epsilon)
/// Use: `Adagrad{}`.
struct Adagrad {
  LearningRate learning_rate = 0.001;
  double initial_accumulator_value = 0.1;
  double epsilon = 1e-7;
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

  static constexpr std::string_view name = "Adagrad";

  [[nodiscard]] std::string description() const {
    return detail::describe_optimizer(*this,
                                      {{"learning_rate", learning_rate.description()},
                                       {"initial_accumulator_value", initial_accumulator_value},
                                       {"epsilon", epsilon},
                                       {"weight_decay", weight_decay}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "learning_rate", learning_rate);
    detail::require_not_negative(name, "initial_accumulator_value", initial_accumulator_value);
    detail::require_not_negative(name, "epsilon", epsilon);
    detail::require_not_negative(name, "weight_decay", weight_decay);
  }

  [[nodiscard]] constexpr std::size_t slots() const { return 1; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const { keras.each_variable({{.slot = 0}}); }

  [[nodiscard]] double initial_slot_value() const { return initial_accumulator_value; }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

template <class T>
void Adagrad::update(const UpdateContext& context, std::span<T> parameters,
                     std::span<const T> gradients, std::span<T* const> slots) const {
  const T rate = static_cast<T>(context.learning_rate), eps = static_cast<T>(epsilon);
  const T keep = static_cast<T>(context.keep(weight_decay));
  const T scale = static_cast<T>(context.gradient_scale);
  const auto step = [=](auto& w, auto& a, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    const auto g = scale * gradient;
    a += g * g;
    w = keep * w - rate * g / sqrt(a + eps);
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], gradients.data());
}

/// Adadelta: Zeiler, "ADADELTA: an adaptive learning rate method", 2012; Keras's formulas. With g
/// the mean gradient and G and D slots:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   G = rho * G + (1 - rho) * g * g;  d = sqrt(D + epsilon) / sqrt(G + epsilon) * g
///   D = rho * D + (1 - rho) * d * d;  w -= learning_rate * d
///
/// (The paper has no learning rate: it is 1 there.)
/// Use: `Adadelta{}`.
struct Adadelta {
  LearningRate learning_rate = 0.001;
  double rho = 0.95;  ///< in [0, 1)
  double epsilon = 1e-7;
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

  static constexpr std::string_view name = "Adadelta";

  [[nodiscard]] std::string description() const {
    return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                              {"rho", rho},
                                              {"epsilon", epsilon},
                                              {"weight_decay", weight_decay}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "learning_rate", learning_rate);
    detail::require_decay_rate(name, "rho", rho);
    detail::require_not_negative(name, "epsilon", epsilon);
    detail::require_not_negative(name, "weight_decay", weight_decay);
  }

  [[nodiscard]] constexpr std::size_t slots() const { return 2; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const { keras.each_variable({{.slot = 0}, {.slot = 1}}); }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

template <class T>
void Adadelta::update(const UpdateContext& context, std::span<T> parameters,
                      std::span<const T> gradients, std::span<T* const> slots) const {
  const T rate = static_cast<T>(context.learning_rate), eps = static_cast<T>(epsilon);
  const T old = static_cast<T>(rho), fresh = static_cast<T>(1 - rho);
  const T keep = static_cast<T>(context.keep(weight_decay));
  const T scale = static_cast<T>(context.gradient_scale);
  const auto step = [=](auto& w, auto& of_gradients, auto& of_moves, const auto& gradient)
                        LOCKSTEP_KERNEL_LAMBDA {
                          const auto g = scale * gradient;
                          of_gradients = old * of_gradients + fresh * (g * g);
                          const auto move = sqrt(of_moves + eps) / sqrt(of_gradients + eps) * g;
                          of_moves = old * of_moves + fresh * (move * move);
                          w = keep * w - rate * move;
                        };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], gradients.data());
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/optimizers/rmsprop.ipp"
#endif
