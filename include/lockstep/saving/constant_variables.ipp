#pragma once

#include <algorithm>
#include <utility>

#include "lockstep/saving/constant_variables.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
ConstantVariables<T>::ConstantVariables(const Program<T>& program, const std::string& path,
                                        const LoadWeightsOptions* options, LoadedWeights& loaded)
    : parameters(program.layout().variables) {
  OneDeviceStrategy alone;
  Trainer<T> trainer(program, any_strategy(alone), 0);
  if (options == nullptr && !is_keras_file(path)) {
    load_weights(trainer, path);
  } else {
    LoadWeightsOptions wanted = options != nullptr ? *options : LoadWeightsOptions{};
    wanted.weights_only = true;
    loaded = load_weights(trainer, path, wanted);
  }
  trainer.variables().swap_parameters(parameters);
  std::swap(state, trainer.workspace(0).state());
}

template <class T>
ConstantVariables<T>::ConstantVariables(const Program<T>& program, Trainer<T>& trainer)
    : parameters(program.layout().variables), state(program.layout().state_variables) {
  trainer.strategy().run([&](AnyReplica& replica) {  // which refuses other threads
    if (replica.local_rank() != 0) return;
    trainer.catch_up();
    std::ranges::copy(trainer.variables().parameters().values(), parameters.values().begin());
    std::ranges::copy(trainer.workspace(0).state().values(), state.values().begin());
  });
}

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {
LOCKSTEP_INSTANCE(struct ConstantVariables<LOCKSTEP_REAL>);
}}}  // namespace lockstep::detail
