#pragma once

#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/lion.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string Lion::description() const {
  return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                            {"beta_1", beta_1},
                                            {"beta_2", beta_2},
                                            {"weight_decay", weight_decay}});
}

LOCKSTEP_INLINE void Lion::validate() const {
  detail::require_not_negative(name, "learning_rate", learning_rate);
  detail::require_decay_rate(name, "beta_1", beta_1);
  detail::require_decay_rate(name, "beta_2", beta_2);
  detail::require_not_negative(name, "weight_decay", weight_decay);
}

template <class T>
void Lion::update(const UpdateContext& context, std::span<T> parameters,
                  std::span<const T> gradients, std::span<T* const> slots) const {
  const T rate = static_cast<T>(context.learning_rate);
  const T old_1 = static_cast<T>(beta_1), new_1 = static_cast<T>(1 - beta_1);
  const T old_2 = static_cast<T>(beta_2), new_2 = static_cast<T>(1 - beta_2);
  const T keep = static_cast<T>(context.keep(weight_decay));
  const T scale = static_cast<T>(context.gradient_scale);
  const auto step = [=](auto& w, auto& m, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    using P = std::remove_cvref_t<decltype(w)>;
    const auto g = scale * gradient;
    const auto sum = old_1 * m + new_1 * g;
    const auto sign =
        select(sum < P(T(0)), P(T(-1)), select(sum > P(T(0)), P(T(1)), sum));  // 0 and NaN stay
    w = keep * w - rate * sign;
    m = old_2 * m + new_2 * g;
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], gradients.data());
}

}  // namespace lockstep::inline LOCKSTEP_ABI
