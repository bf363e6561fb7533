// Momentum whose steps are orthogonal matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/learning_rate.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/optimizers/variable_filter.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Muon: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024, with the
/// step lengths of Liu et al., "Muon is scalable for LLM training", 2025; Keras's formulas. For a
/// variable of two dimensions, R x C, with g the mean gradient and m a slot:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   m = momentum * m + g;  x = g + momentum * m, or without nesterov x = m
///   x /= |x| + 1e-7;  ns_steps times:  a = x x';  x = muon_a * x + (muon_b * a + muon_c * a a) x
///   w -= learning_rate * rms_rate * sqrt(max(R, C)) * x         with rms_rate 0: * x alone
///
/// (x' is x transposed; with R > C the steps are made with x' in place of x.) Variables of another
/// number of dimensions, embeddings, and those of exclude_layers (an output layer, usually) are
/// updated by Adam with the learning rate times adam_lr_ratio, and with adam_weight_decay.
struct Muon {
  LearningRate learning_rate = 0.001;
  double adam_beta_1 = 0.9;    ///< in [0, 1)
  double adam_beta_2 = 0.999;  ///< in [0, 1)
  double adam_weight_decay = 0.004;
  double epsilon = 1e-7;  ///< Adam's
  double weight_decay = 0.004;
  VariableFilter exclude_layers = {};
  bool exclude_embeddings = true;
  double muon_a = 3.4445, muon_b = -4.775, muon_c = 2.0315;
  double adam_lr_ratio = 1;
  double momentum = 0.95;  ///< in [0, 1)
  std::int64_t ns_steps = 5;
  bool nesterov = true;
  double rms_rate = 0.2;       ///< 0: none
  double clipnorm = 0;         ///< the largest norm of a variable's gradient; 0: any
  double clipvalue = 0;        ///< the largest element of a gradient; 0: any
  double global_clipnorm = 0;  ///< the largest norm of all gradients together; 0: any
  VariableFilter exclude_from_weight_decay = {};
  LearningRateFactors learning_rate_factors = {};
  bool use_ema = false;  ///< keeps moving averages of the weights, which replace them when fit ends
  double ema_momentum = 0.99;                ///< in [0, 1]
  std::int64_t ema_overwrite_frequency = 0;  ///< updates until averages replace weights; 0: never
  std::int64_t gradient_accumulation_steps = 1;  ///< gradients of so many steps make an update

  static constexpr std::string_view name = "Muon";
  static constexpr bool updates_whole_variables = true;

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
  [[nodiscard]] bool is_for_adam(const Variable& variable, std::string_view variable_name) const;

  template <class T>
  void update_by_adam(const UpdateContext& context, std::span<T> parameters,
                      std::span<const T> gradients, std::span<T* const> slots) const;

  template <class T>
  void update_matrix(const UpdateContext& context, std::size_t rows, std::size_t columns,
                     std::span<T> parameters, std::span<const T> gradients, T* momenta) const;

  /// Memory of a thread for matrices of n rows, not more than columns, and products of them. The
  /// order of summation depends on the sizes alone.
  template <class T>
  struct Matrices;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/optimizers/muon.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_OPTIMIZER_INSTANCES(Muon);
}  // namespace lockstep::inline LOCKSTEP_ABI
