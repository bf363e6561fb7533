// Adam and its kin: AdamW, Adamax, Nadam.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/portable_functions.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/update_rules.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// Throws ConfigurationError. For Adam and the optimizers with its options.
template <class O>
void check_adam_options(const O& optimizer) {
  require_not_negative(O::name, "learning_rate", optimizer.learning_rate);
  require_decay_rate(O::name, "beta_1", optimizer.beta_1);
  require_decay_rate(O::name, "beta_2", optimizer.beta_2);
  require_not_negative(O::name, "epsilon", optimizer.epsilon);
  require_not_negative(O::name, "weight_decay", optimizer.weight_decay);
}

template <class O>
[[nodiscard]] std::string describe_adam_options(const O& optimizer) {
  return describe_optimizer(optimizer, {{"learning_rate", optimizer.learning_rate.description()},
                                        {"beta_1", optimizer.beta_1},
                                        {"beta_2", optimizer.beta_2},
                                        {"epsilon", optimizer.epsilon},
                                        {"weight_decay", optimizer.weight_decay}});
}

struct AdamOptions {
  double beta_1, beta_2, epsilon, weight_decay;
  bool amsgrad;
};

template <class T>
void update_adam(const AdamOptions& options, const UpdateContext& context, std::span<T> parameters,
                 std::span<const T> gradients, std::span<T* const> slots);

}  // namespace detail

/// Adam: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, in the form that
/// comes before its section 2.1 and that Keras uses (epsilon is added to the root of the
/// uncorrected second moment). With g the mean gradient, t the iteration, and m and v slots:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first (see AdamW)
///   m += (1 - beta_1) * (g - m);  v += (1 - beta_2) * (g * g - v)
///   w -= learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon)
///
/// amsgrad: with the largest v so far, one more slot, in place of v. Reddi, Kale, Kumar, "On the
/// convergence of Adam and beyond", ICLR 2018.
/// Use: `Adam{.learning_rate = 0.001}`.
struct Adam {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;    ///< in [0, 1)
  double beta_2 = 0.999;  ///< in [0, 1)
  double epsilon = 1e-7;
  bool amsgrad = false;
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

  static constexpr std::string_view name = "Adam";

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const { detail::check_adam_options(*this); }

  [[nodiscard]] constexpr std::size_t slots() const { return amsgrad ? 3 : 2; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const;

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

LOCKSTEP_EXTERN(detail::RulesOf<Adam> detail::update_rules);

/// Adam with decoupled weight decay: Loshchilov, Hutter, "Decoupled weight decay regularization",
/// ICLR 2019. The formulas are Adam's, with Keras's epsilon and Keras's default of weight_decay.
/// (PyTorch adds epsilon after the correction of v, and decays by 0.01.) As in Keras, all variables
/// are decayed, biases included, unless they are excluded; GPT-2 and nanoGPT decay matrices only:
/// @code
/// AdamW{.learning_rate = 6e-4, .weight_decay = 0.1, .beta_2 = 0.95, .global_clipnorm = 1.0,
///       .exclude_from_weight_decay = fewer_dimensions_than(2)}
/// @endcode
/// Use: `AdamW{.learning_rate = 0.001, .weight_decay = 0.01}`.
struct AdamW {
  LearningRate learning_rate = 0.001;
  double weight_decay = 0.004;
  double beta_1 = 0.9;    ///< in [0, 1)
  double beta_2 = 0.999;  ///< in [0, 1)
  double epsilon = 1e-7;
  bool amsgrad = false;
  double clipnorm = 0;         ///< the largest norm of a variable's gradient; 0: any
  double clipvalue = 0;        ///< the largest element of a gradient; 0: any
  double global_clipnorm = 0;  ///< the largest norm of all gradients together; 0: any
  VariableFilter exclude_from_weight_decay = {};
  LearningRateFactors learning_rate_factors = {};
  bool use_ema = false;  ///< keeps moving averages of the weights, which replace them when fit ends
  double ema_momentum = 0.99;                ///< in [0, 1]
  std::int64_t ema_overwrite_frequency = 0;  ///< updates until averages replace weights; 0: never
  std::int64_t gradient_accumulation_steps = 1;  ///< steps whose gradients make one update

  static constexpr std::string_view name = "AdamW";

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const { detail::check_adam_options(*this); }

  [[nodiscard]] constexpr std::size_t slots() const { return amsgrad ? 3 : 2; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const;

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

LOCKSTEP_EXTERN(detail::RulesOf<AdamW> detail::update_rules);

/// Adamax: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, section 7.1. With g
/// the mean gradient, t the iteration, and m and u slots:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   m += (1 - beta_1) * (g - m);  u = max(beta_2 * u, |g|)
///   w -= learning_rate / (1 - beta_1^t) * m / (u + epsilon)
/// Use: `Adamax{}`.
struct Adamax {
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

  static constexpr std::string_view name = "Adamax";

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
void Adamax::update(const UpdateContext& context, std::span<T> parameters,
                    std::span<const T> gradients, std::span<T* const> slots) const {
  const T rate =
      static_cast<T>(context.learning_rate / (1 - detail::power(beta_1, context.iteration)));
  const T new_m = static_cast<T>(1 - beta_1), old_u = static_cast<T>(beta_2),
          eps = static_cast<T>(epsilon);
  const T keep = static_cast<T>(context.keep(weight_decay));
  const T scale = static_cast<T>(context.gradient_scale);
  const auto step = [=](auto& w, auto& m, auto& u, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    const auto g = scale * gradient;
    m += new_m * (g - m);
    u = max(old_u * u, abs(g));
    w = keep * w - rate * m / (u + eps);
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], gradients.data());
}

/// Nadam: Dozat, "Incorporating Nesterov momentum into Adam", ICLR workshop 2016; Keras's formulas.
/// With g the mean gradient, t the iteration, m and v slots, u_t = beta_1 * (1 - 0.5 * 0.96^t), and
/// U_t the product of u_1 to u_t:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   m += (1 - beta_1) * (g - m);  v += (1 - beta_2) * (g * g - v)
///   d = u_{t+1} / (1 - U_{t+1}) * m + (1 - u_t) / (1 - U_t) * g
///   w -= learning_rate * d / (sqrt(v / (1 - beta_2^t)) + epsilon)
/// Use: `Nadam{}`.
struct Nadam {
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

  static constexpr std::string_view name = "Nadam";

  [[nodiscard]] std::string description() const { return detail::describe_adam_options(*this); }

  /// Throws ConfigurationError.
  void validate() const { detail::check_adam_options(*this); }

  [[nodiscard]] constexpr std::size_t slots() const { return 2; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const {
    keras.each_variable({{.slot = 0}, {.slot = 1}});
    keras.number(product(keras.iterations()));
  }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;

 private:
  static constexpr std::int64_t varying = 1000;  // 1 - 0.5 * 0.96^t is 1 from then on

  [[nodiscard]] double factor(std::int64_t t) const {
    return beta_1 * (1 - 0.5 * detail::power(0.96, std::min(t, varying)));
  }
  [[nodiscard]] double product(std::int64_t t) const {
    double result = detail::power(beta_1, t), decay = 1;
    for (std::int64_t i = std::min(t, varying); i > 0; --i) result *= 1 - 0.5 * (decay *= 0.96);
    return result;
  }
};

template <class T>
void Nadam::update(const UpdateContext& context, std::span<T> parameters,
                   std::span<const T> gradients, std::span<T* const> slots) const {
  const std::int64_t t = context.iteration;
  const T by_m = static_cast<T>(factor(t + 1) / (1 - product(t + 1)));
  const T by_g = static_cast<T>((1 - factor(t)) / (1 - product(t)));
  const T by_v = static_cast<T>(1 / (1 - detail::power(beta_2, t)));
  const T rate = static_cast<T>(context.learning_rate), eps = static_cast<T>(epsilon);
  const T new_m = static_cast<T>(1 - beta_1), new_v = static_cast<T>(1 - beta_2);
  const T keep = static_cast<T>(context.keep(weight_decay));
  const T scale = static_cast<T>(context.gradient_scale);
  const auto step = [=](auto& w, auto& m, auto& v, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    const auto g = scale * gradient;
    m += new_m * (g - m);
    v += new_v * (g * g - v);
    w = keep * w - rate * (by_m * m + by_g * g) / (sqrt(by_v * v) + eps);
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], gradients.data());
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/optimizers/adam.ipp"
#endif
