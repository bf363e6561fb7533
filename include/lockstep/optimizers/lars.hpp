// Steps as long as the weights allow: LARS and LAMB.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/portable_functions.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/optimizers/whole_variables.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// LARS: You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017, algorithm
/// 1. With g the mean gradient, m a slot, and norms over a variable:
///
///   rate = learning_rate * trust_coefficient * |w| / (|g| + weight_decay * |w| + epsilon)
///   m = momentum * m + rate * (g + weight_decay * w);  w -= m
///
/// Where |w| or |g| is 0, and for variables of exclude_from_layer_adaptation (biases and what
/// normalisations scale with, usually), rate is the learning rate. The weight decay is a part of
/// the gradient here, as in the paper. With MomentumForm::pytorch, m *= learning_rate /
/// previous_learning_rate comes before. (Keras has no LARS; the names are those of TensorFlow's
/// model garden.)
/// Use: `LARS{.learning_rate = 1}`. Keras: none.
struct LARS {
  LearningRate learning_rate = 0.01;
  double momentum = 0.9;                             ///< in [0, 1)
  MomentumForm momentum_form = MomentumForm::keras;  ///< matters where the learning rate changes
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
  std::int64_t gradient_accumulation_steps = 1;  ///< steps whose gradients make one update

  static constexpr std::string_view name = "LARS";
  static constexpr bool updates_whole_variables = true;

  [[nodiscard]] std::string description() const {
    return detail::describe_optimizer(
        *this, {{"learning_rate", learning_rate.description()},
                {"momentum", momentum},
                {"trust_coefficient", trust_coefficient},
                {"epsilon", epsilon},
                {"weight_decay", weight_decay},
                {"exclude_from_layer_adaptation", exclude_from_layer_adaptation.description()}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "learning_rate", learning_rate);
    detail::require_decay_rate(name, "momentum", momentum);
    detail::require_not_negative(name, "trust_coefficient", trust_coefficient);
    detail::require_not_negative(name, "epsilon", epsilon);
    detail::require_not_negative(name, "weight_decay", weight_decay);
  }

  [[nodiscard]] constexpr std::size_t slots() const { return 1; }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

template <class T>
void LARS::update(const UpdateContext& context, std::span<T> parameters,
                  std::span<const T> gradients, std::span<T* const> slots) const {
  const detail::WholeGradient<T> mean(context);
  const auto square = [=](const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    const auto g = mean(gradient);
    return g * g;
  };
  const double decay = context.decays ? weight_decay : 0;
  double ratio = 1;
  if (!exclude_from_layer_adaptation.contains(context.variable_name, context.variable->rank)) {
    const double of_weights = detail::norm(std::span<const T>(parameters));
    const double of_gradient =
        std::sqrt(kernels::sweep_sum(parameters.size(), square, gradients.data()));
    if (of_weights > 0 && of_gradient > 0)
      ratio = trust_coefficient * of_weights / (of_gradient + decay * of_weights + epsilon);
  }
  const T rate = static_cast<T>(context.learning_rate * ratio), penalty = static_cast<T>(decay);
  const T kept = static_cast<T>(context.kept_momentum(momentum, momentum_form));
  const auto step = [=](auto& w, auto& m, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    m = kept * m + rate * (mean(gradient) + penalty * w);
    w -= m;
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], gradients.data());
}

/// LAMB: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes",
/// ICLR 2020; Keras's formulas. With g the mean gradient, t the iteration, m and v slots, and norms
/// over a variable:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   m += (1 - beta_1) * (g - m);  v += (1 - beta_2) * (g * g - v)
///   u = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon)
///   w -= learning_rate * |w| / |u| * u          |w| / |u| is 1 where either is 0
/// Use: `Lamb{}`.
struct Lamb {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;    ///< in [0, 1)
  double beta_2 = 0.999;  ///< in [0, 1)
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

  static constexpr std::string_view name = "Lamb";
  static constexpr bool updates_whole_variables = true;

  [[nodiscard]] std::string description() const { return detail::describe_adam_options(*this); }

  /// Throws ConfigurationError.
  void validate() const { detail::check_adam_options(*this); }

  [[nodiscard]] constexpr std::size_t slots() const { return 2; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const { keras.each_variable({{.slot = 0}, {.slot = 1}}); }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

template <class T>
void Lamb::update(const UpdateContext& context, std::span<T> parameters,
                  std::span<const T> gradients, std::span<T* const> slots) const {
  const T keep = static_cast<T>(context.keep(weight_decay)), eps = static_cast<T>(epsilon);
  const T new_m = static_cast<T>(1 - beta_1), new_v = static_cast<T>(1 - beta_2);
  const T m_scale = static_cast<T>(1 / (1 - detail::power(beta_1, context.iteration)));
  const T v_scale = static_cast<T>(1 / (1 - detail::power(beta_2, context.iteration)));
  const detail::WholeGradient<T> mean(context);
  const auto moments = [=](auto& w, auto& m, auto& v, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    const auto g = mean(gradient);
    m += new_m * (g - m);
    v += new_v * (g * g - v);
    w = keep * w;
  };
  const auto direction = [=](const auto& m, const auto& v) LOCKSTEP_KERNEL_LAMBDA {
    return m_scale * m / (sqrt(v_scale * v) + eps);
  };
  kernels::sweep(parameters.size(), moments, parameters.data(), slots[0], slots[1],
                 gradients.data());
  const auto square = [=](const auto& m, const auto& v) LOCKSTEP_KERNEL_LAMBDA {
    const auto u = direction(m, v);
    return u * u;
  };
  const T *const m = slots[0], *const v = slots[1];
  const double of_update = std::sqrt(kernels::sweep_sum(parameters.size(), square, m, v));
  const double ratio = detail::trust_ratio(detail::norm(std::span<const T>(parameters)), of_update);
  const T rate = static_cast<T>(context.learning_rate * ratio);
  const auto step = [=](auto& to, const auto& first, const auto& second)
                        LOCKSTEP_KERNEL_LAMBDA { to -= rate * direction(first, second); };
  kernels::sweep(parameters.size(), step, parameters.data(), m, v);
}

}}  // namespace lockstep
