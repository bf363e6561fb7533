#pragma once

#include <cmath>

#include "lockstep/core/portable_functions.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/adam.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

template <class T>
void update_adam(const AdamOptions& options, const UpdateContext& context, std::span<T> parameters,
                 std::span<const T> gradients, std::span<T* const> slots) {
  const double correction = std::sqrt(1 - power(options.beta_2, context.iteration)) /
                            (1 - power(options.beta_1, context.iteration));
  const T rate = static_cast<T>(context.learning_rate * correction);
  const T keep = static_cast<T>(context.keep(options.weight_decay));
  const T scale = static_cast<T>(context.gradient_scale);
  const T new_m = static_cast<T>(1 - options.beta_1), new_v = static_cast<T>(1 - options.beta_2);
  const T epsilon = static_cast<T>(options.epsilon);
  if (options.amsgrad) {
    const auto step = [=](auto& w, auto& m, auto& v, auto& largest_v, const auto& gradient)
                          LOCKSTEP_KERNEL_LAMBDA {
                            const auto g = scale * gradient;
                            m += new_m * (g - m);
                            v += new_v * (g * g - v);
                            largest_v = max(largest_v, v);
                            w = keep * w - rate * m / (sqrt(largest_v) + epsilon);
                          };
    kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], slots[2],
                   gradients.data());
    return;
  }
  const auto step = [=](auto& w, auto& m, auto& v, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    const auto g = scale * gradient;
    m += new_m * (g - m);
    v += new_v * (g * g - v);
    w = keep * w - rate * m / (sqrt(v) + epsilon);
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], gradients.data());
}

}  // namespace detail

LOCKSTEP_INLINE std::string Adam::description() const {
  return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                            {"beta_1", beta_1},
                                            {"beta_2", beta_2},
                                            {"epsilon", epsilon},
                                            {"weight_decay", weight_decay}});
}

LOCKSTEP_INLINE void Adam::keras_slots(KerasSlots& keras) const {
  keras.each_variable({{.slot = 0}, {.slot = 1}});
  if (amsgrad) keras.each_variable({{.slot = 2}});
}

template <class T>
void Adam::update(const UpdateContext& context, std::span<T> parameters,
                  std::span<const T> gradients, std::span<T* const> slots) const {
  detail::update_adam({beta_1, beta_2, epsilon, weight_decay, amsgrad}, context, parameters,
                      gradients, slots);
}

namespace detail {

LOCKSTEP_INSTANCE(void update_adam(const AdamOptions&, const UpdateContext&,
                                   std::span<LOCKSTEP_REAL>, std::span<const LOCKSTEP_REAL>,
                                   std::span<LOCKSTEP_REAL* const>));
}  // namespace detail

LOCKSTEP_INSTANCE(detail::OptimizerUpdate<LOCKSTEP_REAL> Adam::update);
LOCKSTEP_INSTANCE_ONCE(detail::RulesOf<Adam> detail::update_rules);

LOCKSTEP_INLINE std::string AdamW::description() const {
  return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                            {"weight_decay", weight_decay},
                                            {"beta_1", beta_1},
                                            {"beta_2", beta_2},
                                            {"epsilon", epsilon}});
}

LOCKSTEP_INLINE void AdamW::keras_slots(KerasSlots& keras) const {
  keras.each_variable({{.slot = 0}, {.slot = 1}});
  if (amsgrad) keras.each_variable({{.slot = 2}});
}

template <class T>
void AdamW::update(const UpdateContext& context, std::span<T> parameters,
                   std::span<const T> gradients, std::span<T* const> slots) const {
  detail::update_adam({beta_1, beta_2, epsilon, weight_decay, amsgrad}, context, parameters,
                      gradients, slots);
}

LOCKSTEP_INSTANCE(detail::OptimizerUpdate<LOCKSTEP_REAL> AdamW::update);
LOCKSTEP_INSTANCE_ONCE(detail::RulesOf<AdamW> detail::update_rules);
}}  // namespace lockstep
