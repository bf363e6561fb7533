#pragma once

#include <cmath>

#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/whole_variables.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string LARS::description() const {
  return detail::describe_optimizer(
      *this, {{"learning_rate", learning_rate.description()},
              {"momentum", momentum},
              {"trust_coefficient", trust_coefficient},
              {"epsilon", epsilon},
              {"weight_decay", weight_decay},
              {"exclude_from_layer_adaptation", exclude_from_layer_adaptation.description()}});
}

LOCKSTEP_INLINE void LARS::validate() const {
  detail::require_not_negative(name, "learning_rate", learning_rate);
  detail::require_decay_rate(name, "momentum", momentum);
  detail::require_not_negative(name, "trust_coefficient", trust_coefficient);
  detail::require_not_negative(name, "epsilon", epsilon);
  detail::require_not_negative(name, "weight_decay", weight_decay);
}

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
  const T kept = static_cast<T>(momentum * context.momentum_correction());
  const auto step = [=](auto& w, auto& m, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    m = kept * m + rate * (mean(gradient) + penalty * w);
    w -= m;
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], gradients.data());
}

}  // namespace lockstep::inline LOCKSTEP_ABI
