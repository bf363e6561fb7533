#pragma once

#include <cmath>

#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/lamb.hpp"
#include "lockstep/optimizers/power.hpp"
#include "lockstep/optimizers/whole_variables.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string Lamb::description() const {
  return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                            {"beta_1", beta_1},
                                            {"beta_2", beta_2},
                                            {"epsilon", epsilon},
                                            {"weight_decay", weight_decay}});
}

template <class T>
void Lamb::update(const UpdateContext& context, std::span<T> parameters,
                  std::span<const T> gradients, std::span<T* const> slots) const {
  const T keep = static_cast<T>(context.keep(weight_decay)), eps = static_cast<T>(epsilon);
  const T new_m = static_cast<T>(1 - beta_1), new_v = static_cast<T>(1 - beta_2);
  const T m_scale = static_cast<T>(1 / (1 - detail::power(beta_1, context.iteration)));
  const T v_scale = static_cast<T>(1 / (1 - detail::power(beta_2, context.iteration)));
  const detail::WholeGradient<T> mean(context);
  const auto moments = [=](auto& w, auto& m, auto& v, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
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
  const double ratio = detail::trust_ratio(detail::norm(std::span<const T>(parameters)), of_update);
  const T rate = static_cast<T>(context.learning_rate * ratio);
  const auto step = [=](auto& to, const auto& first, const auto& second)
                        LOCKSTEP_KERNEL_LAMBDA { to -= rate * direction(first, second); };
  kernels::sweep(parameters.size(), step, parameters.data(), m, v);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
