// Adam.
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
#include "lockstep/optimizers/learning_rate.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/optimizers/variable_filter.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
  std::int64_t gradient_accumulation_steps = 1;  ///< gradients of so many steps make an update

  static constexpr std::string_view name = "Adam";

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const { detail::check_adam_options(*this); }

  [[nodiscard]] std::size_t slots() const { return amsgrad ? 3 : 2; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const;

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/optimizers/adam.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(void update_adam(const AdamOptions&, const UpdateContext&, std::span<float>,
                                   std::span<const float>, std::span<float* const>));
LOCKSTEP_INSTANCE(void update_adam(const AdamOptions&, const UpdateContext&, std::span<double>,
                                   std::span<const double>, std::span<double* const>));
}  // namespace lockstep::inline LOCKSTEP_ABI::detail

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_OPTIMIZER_INSTANCES(Adam);
}  // namespace lockstep::inline LOCKSTEP_ABI
