#pragma once

#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/rmsprop.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string RMSprop::description() const {
  return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                            {"rho", rho},
                                            {"momentum", momentum},
                                            {"epsilon", epsilon},
                                            {"centered", centered},
                                            {"weight_decay", weight_decay}});
}

LOCKSTEP_INLINE void RMSprop::validate() const {
  detail::require_not_negative(name, "learning_rate", learning_rate);
  detail::require_decay_rate(name, "rho", rho);
  detail::require_decay_rate(name, "momentum", momentum);
  detail::require_not_negative(name, "epsilon", epsilon);
  detail::require_not_negative(name, "weight_decay", weight_decay);
}

LOCKSTEP_INLINE void RMSprop::keras_slots(KerasSlots& keras) const {
  keras.each_variable({{.slot = 0}});
  if (momentum > 0)
    keras.each_variable({{.slot = std::size_t{centered ? 2U : 1U},
                          .has_rates = momentum_form == MomentumForm::pytorch}});
  if (centered) keras.each_variable({{.slot = 1}});
}

template <class T>
void RMSprop::update(const UpdateContext& context, std::span<T> parameters,
                     std::span<const T> gradients, std::span<T* const> slots) const {
  const T rate = static_cast<T>(context.learning_rate), eps = static_cast<T>(epsilon);
  const T old = static_cast<T>(rho), fresh = static_cast<T>(1 - rho),
          kept = static_cast<T>(context.kept_momentum(momentum, momentum_form));
  const T keep = static_cast<T>(context.keep(weight_decay));
  const T scale = static_cast<T>(context.gradient_scale);
  const auto move = [=](auto& v, const auto& g) LOCKSTEP_KERNEL_LAMBDA {
    v = old * v + fresh * (g * g);
    return rate * g / sqrt(v + eps);
  };
  const auto centered_move = [=](auto& v, auto& a, const auto& g) LOCKSTEP_KERNEL_LAMBDA {
    v = old * v + fresh * (g * g);
    a = old * a + fresh * g;
    using P = std::remove_cvref_t<decltype(v)>;
    return rate * g / sqrt(max(P(T(0)), v - a * a) + eps);
  };
  const auto run = [&](const auto& step, auto*... arrays) {
    kernels::sweep(parameters.size(), step, parameters.data(), arrays..., gradients.data());
  };
  if (centered && momentum > 0)
    run(
        [=](auto& w, auto& v, auto& a, auto& m, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
          m = kept * m + centered_move(v, a, scale * gradient);
          w = keep * w - m;
        },
        slots[0], slots[1], slots[2]);
  else if (centered)
    run([=](auto& w, auto& v, auto& a, const auto& gradient)
            LOCKSTEP_KERNEL_LAMBDA { w = keep * w - centered_move(v, a, scale * gradient); },
        slots[0], slots[1]);
  else if (momentum > 0)
    run(
        [=](auto& w, auto& v, auto& m, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
          m = kept * m + move(v, scale * gradient);
          w = keep * w - m;
        },
        slots[0], slots[1]);
  else
    run([=](auto& w, auto& v, const auto& gradient)
            LOCKSTEP_KERNEL_LAMBDA { w = keep * w - move(v, scale * gradient); },
        slots[0]);
}

LOCKSTEP_INSTANCE(detail::OptimizerUpdate<LOCKSTEP_REAL> RMSprop::update);
LOCKSTEP_INSTANCE_ONCE(detail::RulesOf<RMSprop> detail::update_rules);
}}  // namespace lockstep
