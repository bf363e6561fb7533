// Adam with Nesterov momentum.
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

/// Nadam: Dozat, "Incorporating Nesterov momentum into Adam", ICLR workshop 2016; Keras's formulas.
/// With g the mean gradient, t the iteration, m and v slots, u_t = beta_1 * (1 - 0.5 * 0.96^t), and
/// U_t the product of u_1 to u_t:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   m += (1 - beta_1) * (g - m);  v += (1 - beta_2) * (g * g - v)
///   d = u_{t+1} / (1 - U_{t+1}) * m + (1 - u_t) / (1 - U_t) * g
///   w -= learning_rate * d / (sqrt(v / (1 - beta_2^t)) + epsilon)
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
  std::int64_t gradient_accumulation_steps = 1;  ///< gradients of so many steps make an update

  static constexpr std::string_view name = "Nadam";

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  [[nodiscard]] std::size_t slots() const { return 2; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const;

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;

 private:
  static constexpr std::int64_t varying = 1000;  // 1 - 0.5 * 0.96^t is 1 from then on

  [[nodiscard]] double factor(std::int64_t t) const;
  [[nodiscard]] double product(std::int64_t t) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/optimizers/nadam.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_OPTIMIZER_INSTANCES(Nadam);
}  // namespace lockstep::inline LOCKSTEP_ABI
