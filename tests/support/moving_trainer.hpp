// A model with untrained state under a Trainer, for tests of what it starts from and saves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "lockstep/training/trainer.hpp"
#include "support/model_testing.hpp"

namespace lockstep_test {

/// Passes its input on, and has a moving figure.
struct Moving : UserReLU {
  template <class In>
  static constexpr std::array state_variables{lockstep::Variable{"moving", {2}, uniform_half}};
};
using MovingNet = lockstep::Sequential<lockstep::Input<4>, UserDense<6>, Moving, UserDense<3>>;

inline const lockstep::detail::Compiled<MovingNet, float, lockstep::SparseCategoricalCrossentropy,
                                        lockstep::Adam, lockstep::Accuracy>
    moving_program({.from_logits = true}, {.learning_rate = 0.125}, {});

/// A trainer of it, alone.
struct MovingTrainer {
  lockstep::OneDeviceStrategy strategy;
  lockstep::detail::Trainer<float> trainer;
  explicit MovingTrainer(std::uint64_t seed)
      : trainer(moving_program, lockstep::any_strategy(strategy), seed) {}
};

}  // namespace lockstep_test
