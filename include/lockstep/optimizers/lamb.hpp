// Adam with a learning rate for each variable.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/learning_rate.hpp"
#include "lockstep/optimizers/power.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/optimizers/variable_filter.hpp"
#include "lockstep/optimizers/whole_variables.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// LAMB: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes",
/// ICLR 2020; Keras's formulas. With g the mean gradient, t the iteration, m and v slots, and norms
/// over a variable:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   m += (1 - beta_1) * (g - m);  v += (1 - beta_2) * (g * g - v)
///   u = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon)
///   w -= learning_rate * |w| / |u| * u          |w| / |u| is 1 where either is 0
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
  std::int64_t gradient_accumulation_steps = 1;  ///< gradients of so many steps make an update

  static constexpr std::string_view name = "Lamb";
  static constexpr bool updates_whole_variables = true;

  [[nodiscard]] std::string description() const {
    return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                              {"beta_1", beta_1},
                                              {"beta_2", beta_2},
                                              {"epsilon", epsilon},
                                              {"weight_decay", weight_decay}});
  }

  /// Throws ConfigurationError.
  void validate() const { detail::check_adam_options(*this); }

  [[nodiscard]] std::size_t slots() const { return 2; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const { keras.each_variable({{.slot = 0}, {.slot = 1}}); }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const {
    const T keep = static_cast<T>(context.keep(weight_decay)), eps = static_cast<T>(epsilon);
    const T new_m = static_cast<T>(1 - beta_1), new_v = static_cast<T>(1 - beta_2);
    const T m_scale = static_cast<T>(1 / (1 - detail::power(beta_1, context.iteration)));
    const T v_scale = static_cast<T>(1 / (1 - detail::power(beta_2, context.iteration)));
    const detail::WholeGradient<T> mean(context);
    const auto moments = [=](auto& w, auto& m, auto& v, const auto& gradient)
                             LOCKSTEP_KERNEL_LAMBDA {
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
    const double ratio =
        detail::trust_ratio(detail::norm(std::span<const T>(parameters)), of_update);
    const T rate = static_cast<T>(context.learning_rate * ratio);
    const auto step = [=](auto& to, const auto& first, const auto& second)
                          LOCKSTEP_KERNEL_LAMBDA { to -= rate * direction(first, second); };
    kernels::sweep(parameters.size(), step, parameters.data(), m, v);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
