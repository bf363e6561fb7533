// Follow the regularised leader.
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

/// FTRL: McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013; Keras's
/// formulas, with its learning_rate_power of -0.5, for linear models with sparse weights. With g
/// the mean gradient, and a (which begins at initial_accumulator_value) and z slots:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   b = a + g * g
///   z += g + 2 * l2_shrinkage * w - (sqrt(b) - sqrt(a)) / learning_rate * w;  a = b
///   w = (clip(z, -l1, l1) - z) / (sqrt(a) / learning_rate + 2 * l2 + beta / learning_rate)
///
/// (The slot of a holds what has been added to its first value.) An update at the learning rate 0
/// changes nothing.
/// Use: `Ftrl{}`.
struct Ftrl {
  LearningRate learning_rate = 0.001;
  double initial_accumulator_value = 0.1;
  double l1_regularization_strength = 0;
  double l2_regularization_strength = 0;
  double l2_shrinkage_regularization_strength = 0;
  double beta = 0;
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

  static constexpr std::string_view name = "Ftrl";

  [[nodiscard]] std::string description() const {
    return detail::describe_optimizer(
        *this, {{"learning_rate", learning_rate.description()},
                {"initial_accumulator_value", initial_accumulator_value},
                {"l1_regularization_strength", l1_regularization_strength},
                {"l2_regularization_strength", l2_regularization_strength},
                {"l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength},
                {"beta", beta},
                {"weight_decay", weight_decay}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "learning_rate", learning_rate);
    detail::require_not_negative(name, "initial_accumulator_value", initial_accumulator_value);
    detail::require_not_negative(name, "l1_regularization_strength", l1_regularization_strength);
    detail::require_not_negative(name, "l2_regularization_strength", l2_regularization_strength);
    detail::require_not_negative(name, "l2_shrinkage_regularization_strength",
                                 l2_shrinkage_regularization_strength);
    detail::require_not_negative(name, "beta", beta);
    detail::require_not_negative(name, "weight_decay", weight_decay);
    detail::require_option(initial_accumulator_value + l2_regularization_strength + beta > 0, name,
                           "initial_accumulator_value", initial_accumulator_value,
                           "a number above 0, unless l2_regularization_strength or beta is");
  }

  [[nodiscard]] constexpr std::size_t slots() const { return 2; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const {
    keras.each_variable({{.slot = 0, .added = initial_accumulator_value}, {.slot = 1}});
  }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

template <class T>
void Ftrl::update(const UpdateContext& context, std::span<T> parameters,
                  std::span<const T> gradients, std::span<T* const> slots) const {
  if (context.learning_rate == 0) return;
  const T per_rate = static_cast<T>(1 / context.learning_rate),
          first = static_cast<T>(initial_accumulator_value);
  const T l1 = static_cast<T>(l1_regularization_strength);
  const T l2 = static_cast<T>(2 * l2_regularization_strength + beta / context.learning_rate);
  const T shrinkage = static_cast<T>(2 * l2_shrinkage_regularization_strength);
  const T keep = static_cast<T>(context.keep(weight_decay)),
          scale = static_cast<T>(context.gradient_scale);
  const auto step = [=](auto& w, auto& added, auto& z, const auto& gradient)
                        LOCKSTEP_KERNEL_LAMBDA {
                          using P = std::remove_cvref_t<decltype(w)>;
                          const auto g = scale * gradient;
                          w = keep * w;
                          const auto before = sqrt(first + added);
                          added += g * g;
                          const auto after = sqrt(first + added);
                          z += g + shrinkage * w - per_rate * (after - before) * w;
                          w = (max(P(-l1), min(P(l1), z)) - z) / (per_rate * after + l2);
                        };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], gradients.data());
}

}}  // namespace lockstep
