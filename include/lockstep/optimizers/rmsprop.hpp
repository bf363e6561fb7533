// Gradients divided by their root mean square.
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

  [[nodiscard]] std::string description() const {
    return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                              {"rho", rho},
                                              {"momentum", momentum},
                                              {"epsilon", epsilon},
                                              {"centered", centered},
                                              {"weight_decay", weight_decay}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "learning_rate", learning_rate);
    detail::require_decay_rate(name, "rho", rho);
    detail::require_decay_rate(name, "momentum", momentum);
    detail::require_not_negative(name, "epsilon", epsilon);
    detail::require_not_negative(name, "weight_decay", weight_decay);
  }

  [[nodiscard]] std::size_t slots() const {
    return std::size_t{1} + (centered ? 1 : 0) + (momentum > 0 ? 1 : 0);
  }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const {
    keras.each_variable({{.slot = 0}});
    if (momentum > 0)
      keras.each_variable({{.slot = std::size_t{centered ? 2U : 1U}, .has_rates = true}});
    if (centered) keras.each_variable({{.slot = 1}});
  }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const {
    const T rate = static_cast<T>(context.learning_rate), eps = static_cast<T>(epsilon);
    const T old = static_cast<T>(rho), fresh = static_cast<T>(1 - rho),
            kept = static_cast<T>(momentum * context.momentum_correction());
    const T keep = static_cast<T>(context.keep(weight_decay));
    const T scale = static_cast<T>(context.gradient_scale);
    const auto move = [=](auto& v, const auto& g) LOCKSTEP_KERNEL_LAMBDA {
      v = old * v + fresh * (g * g);
      return rate * g / sqrt(v + eps);
    };
    const auto centered_move = [=](auto& v, auto& a, const auto& g) LOCKSTEP_KERNEL_LAMBDA {
      v = old * v + fresh * (g * g);
      a = old * a + fresh * g;
      using P = std::remove_cvref_t<decltype(v)>;
      return rate * g / sqrt(max(P(T(0)), v - a * a) + eps);
    };
    const auto run = [&](const auto& step, auto*... arrays) {
      kernels::sweep(parameters.size(), step, parameters.data(), arrays..., gradients.data());
    };
    if (centered && momentum > 0)
      run(
          [=](auto& w, auto& v, auto& a, auto& m, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
            m = kept * m + centered_move(v, a, scale * gradient);
            w = keep * w - m;
          },
          slots[0], slots[1], slots[2]);
    else if (centered)
      run([=](auto& w, auto& v, auto& a, const auto& gradient)
              LOCKSTEP_KERNEL_LAMBDA { w = keep * w - centered_move(v, a, scale * gradient); },
          slots[0], slots[1]);
    else if (momentum > 0)
      run(
          [=](auto& w, auto& v, auto& m, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
            m = kept * m + move(v, scale * gradient);
            w = keep * w - m;
          },
          slots[0], slots[1]);
    else
      run([=](auto& w, auto& v, const auto& gradient)
              LOCKSTEP_KERNEL_LAMBDA { w = keep * w - move(v, scale * gradient); },
          slots[0]);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
