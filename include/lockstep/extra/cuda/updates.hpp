// The optimizers that run on a device.
#pragma once

#include <cmath>
#include <concepts>
#include <span>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/portable_functions.hpp"
#include "lockstep/extra/cuda/kernels.cuh"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/sgd.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline cuda::ScaledGradient device_gradient(const UpdateContext& context, const float* gradients) {
  return {gradients, static_cast<float>(context.gradient_scale),
          static_cast<float>(context.gradient_limit)};
}

template <class Device>
void update_on(Device& device, const SGD& sgd, const UpdateContext& context,
               std::span<float> parameters, std::span<const float> gradients,
               std::span<float* const> slots) {
  const float momentum = static_cast<float>(sgd.momentum);
  cuda::launch_each<4>(
      device, parameters.size(),
      cuda::SgdUpdate{device_gradient(context, gradients.data()), parameters.data(),
                      slots.empty() ? nullptr : slots[0], static_cast<float>(context.learning_rate),
                      static_cast<float>(context.keep(sgd.weight_decay)),
                      static_cast<float>(context.kept_momentum(sgd.momentum, sgd.momentum_form)),
                      sgd.nesterov ? momentum : 1.0f, sgd.nesterov ? 1.0f : 0.0f});
}

template <class Device, class O>
  requires std::same_as<O, Adam> || std::same_as<O, AdamW>
void update_on(Device& device, const O& adam, const UpdateContext& context,
               std::span<float> parameters, std::span<const float> gradients,
               std::span<float* const> slots) {
  const double correction = std::sqrt(1 - power(adam.beta_2, context.iteration)) /
                            (1 - power(adam.beta_1, context.iteration));
  cuda::launch_each<4>(
      device, parameters.size(),
      cuda::AdamUpdate{
          device_gradient(context, gradients.data()), parameters.data(), slots[0], slots[1],
          adam.amsgrad ? slots[2] : nullptr, static_cast<float>(context.learning_rate * correction),
          static_cast<float>(context.keep(adam.weight_decay)), static_cast<float>(1 - adam.beta_1),
          static_cast<float>(1 - adam.beta_2), static_cast<float>(adam.epsilon)});
}

template <class Device>
void update_on(Device&, const NoOptimizer&, const UpdateContext&, std::span<float>,
               std::span<const float>, std::span<float* const>) {}

/// Any other optimizer.
template <class Device, class O>
void update_on(Device&, const O&, const UpdateContext&, std::span<float>, std::span<const float>,
               std::span<float* const>) {
  static_assert(std::is_void_v<O>,
                "lockstep: on the device there are the optimizers SGD, Adam and AdamW");
}

}}}  // namespace lockstep::detail
