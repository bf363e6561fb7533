#pragma once

#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/sgd.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string SGD::description() const {
  return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                            {"momentum", momentum},
                                            {"nesterov", nesterov},
                                            {"weight_decay", weight_decay}});
}

LOCKSTEP_INLINE void SGD::validate() const {
  detail::require_not_negative(name, "learning_rate", learning_rate);
  detail::require_decay_rate(name, "momentum", momentum);
  detail::require_not_negative(name, "weight_decay", weight_decay);
}

LOCKSTEP_INLINE void SGD::keras_slots(KerasSlots& keras) const {
  if (momentum != 0) keras.each_variable({{.has_rates = momentum_form == MomentumForm::pytorch}});
}

template <class T>
void SGD::update(const UpdateContext& context, std::span<T> parameters,
                 std::span<const T> gradients, std::span<T* const> slots) const {
  const T rate = static_cast<T>(context.learning_rate * context.gradient_scale);
  const T keep = static_cast<T>(context.keep(weight_decay));
  if (momentum == 0) {
    const auto step = [=](auto& w, const auto& g)
                          LOCKSTEP_KERNEL_LAMBDA { w = keep * w - rate * g; };
    kernels::sweep(parameters.size(), step, parameters.data(), gradients.data());
    return;
  }
  // No branch on nesterov: it could make a compiler fuse differently in the last vector than in
  // the others.
  const T mu = static_cast<T>(momentum),
          kept = static_cast<T>(context.kept_momentum(momentum, momentum_form));
  const T by_m = nesterov ? mu : T(1), by_move = nesterov ? T(1) : T(0);
  const auto step = [=](auto& w, auto& m, const auto& g) LOCKSTEP_KERNEL_LAMBDA {
    const auto move = rate * g;
    m = kept * m - move;
    w = keep * w + (by_m * m - by_move * move);
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], gradients.data());
}

}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI {
LOCKSTEP_INSTANCE(detail::OptimizerUpdate<LOCKSTEP_REAL> SGD::update);
LOCKSTEP_INSTANCE_ONCE(detail::RulesOf<SGD> detail::update_rules);
}}  // namespace lockstep
