// An optimizer of any kind behind one type, so that a model is compiled once for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/update_rules.hpp"

namespace lockstep_test {

/// Of models of doubles. The options that a model reads may be changed.
class AnyOptimizer {
  struct Interface {
    Interface() = default;
    Interface(const Interface&) = delete;
    Interface& operator=(const Interface&) = delete;
    virtual ~Interface() = default;
    [[nodiscard]] virtual std::string description() const = 0;
    [[nodiscard]] virtual std::size_t slots() const = 0;
    [[nodiscard]] virtual double initial_slot_value() const = 0;
    virtual void update(const lockstep::UpdateContext& context, std::span<double> parameters,
                        std::span<const double> gradients,
                        std::span<double* const> slots) const = 0;
    virtual void keras_slots(lockstep::KerasSlots& list) const = 0;
  };
  template <class O>
  struct Held final : Interface {
    O optimizer;
    explicit Held(O held) : optimizer(std::move(held)) {}
    [[nodiscard]] std::string description() const override { return optimizer.description(); }
    [[nodiscard]] std::size_t slots() const override { return optimizer.slots(); }
    [[nodiscard]] double initial_slot_value() const override {
      if constexpr (requires { optimizer.initial_slot_value(); })
        return optimizer.initial_slot_value();
      else
        return 0;
    }
    void update(const lockstep::UpdateContext& context, std::span<double> parameters,
                std::span<const double> gradients, std::span<double* const> slots) const override {
      optimizer.update(context, parameters, gradients, slots);
    }
    void keras_slots(lockstep::KerasSlots& list) const override {
      list.optimizer = {};
      if constexpr (requires { optimizer.keras_slots(list); }) {
        list.optimizer = O::name;
        optimizer.keras_slots(list);
      }
    }
  };

 public:
  template <class O>
  AnyOptimizer(const O& optimizer)
      : learning_rate(optimizer.learning_rate),
        clipnorm(optimizer.clipnorm),
        clipvalue(optimizer.clipvalue),
        global_clipnorm(optimizer.global_clipnorm),
        exclude_from_weight_decay(optimizer.exclude_from_weight_decay),
        learning_rate_factors(optimizer.learning_rate_factors),
        use_ema(optimizer.use_ema),
        ema_momentum(optimizer.ema_momentum),
        ema_overwrite_frequency(optimizer.ema_overwrite_frequency),
        gradient_accumulation_steps(optimizer.gradient_accumulation_steps),
        held_(std::make_shared<const Held<O>>(optimizer)) {
    if constexpr (requires { O::updates_whole_variables; })
      updates_whole_variables = O::updates_whole_variables;
  }

  static constexpr std::string_view name = "AnyOptimizer";
  lockstep::LearningRate learning_rate;
  double clipnorm, clipvalue, global_clipnorm;
  lockstep::VariableFilter exclude_from_weight_decay;
  lockstep::LearningRateFactors learning_rate_factors;
  bool use_ema;
  double ema_momentum;
  std::int64_t ema_overwrite_frequency, gradient_accumulation_steps;
  bool updates_whole_variables = false;

  [[nodiscard]] std::string description() const { return held_->description(); }
  [[nodiscard]] std::size_t slots() const { return held_->slots(); }
  [[nodiscard]] double initial_slot_value() const { return held_->initial_slot_value(); }
  void update(const lockstep::UpdateContext& context, std::span<double> parameters,
              std::span<const double> gradients, std::span<double* const> slots) const {
    held_->update(context, parameters, gradients, slots);
  }
  void keras_slots(lockstep::KerasSlots& list) const { held_->keras_slots(list); }

 private:
  std::shared_ptr<const Interface> held_;
};
static_assert(lockstep::Optimizer<AnyOptimizer, double>);

}  // namespace lockstep_test
