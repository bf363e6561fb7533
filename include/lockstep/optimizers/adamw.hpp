// Adam with decoupled weight decay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/learning_rate.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/optimizers/variable_filter.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Adam with decoupled weight decay: Loshchilov, Hutter, "Decoupled weight decay regularization",
/// ICLR 2019. The formulas are Adam's, with Keras's epsilon and Keras's default of weight_decay.
/// (PyTorch adds epsilon after the correction of v, and decays by 0.01.) As in Keras, all variables
/// are decayed, biases included, unless they are excluded; GPT-2 and nanoGPT decay matrices only:
/// @code
/// AdamW{.learning_rate = 6e-4, .weight_decay = 0.1, .beta_2 = 0.95, .global_clipnorm = 1.0,
///       .exclude_from_weight_decay = fewer_dimensions_than(2)}
/// @endcode
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
  std::int64_t gradient_accumulation_steps = 1;  ///< gradients of so many steps make an update

  static constexpr std::string_view name = "AdamW";

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
#include "lockstep/optimizers/adamw.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_OPTIMIZER_INSTANCES(AdamW);
}  // namespace lockstep::inline LOCKSTEP_ABI
