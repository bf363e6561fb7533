// Loops of the program's own: Model::on, and what strategies have for them.
#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/step/replica_model.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/training/distributed_batches.hpp"
#include "lockstep/training/own_loop.hpp"

// A program's own loop runs on each replica:
//
//   strategy.run([&](auto& replica) { ... model.on(replica) ... batches.on(replica) ... })
//
// once around each step, as in TensorFlow, or once around the whole loop, so that threads
// are not woken in each step: then it is as fast as fit. Inside, a replica has its part of each
// batch (DistributedBatches), and a model's single steps (ReplicaModel): forward, gradients, apply.
// Fit's own step is made of the same functions. What they need besides (a route for the update,
// logs) is made at the first call of Model::on for a replica, and kept.
//
// Ranks agree in apply and minimize alone, by the reduction that fit has, too: the loss and metrics
// in ReplicaModel::logs are of all ranks, and a decision that is taken from them is the same
// everywhere. Anything else is agreed by OwnLoops::reduce. Files are written between two run(), or
// within one by replica.team_lead(f), where the first replica calls f and the others wait.

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What Model::on does.
template <class Model>
struct OnReplica {
  using T = typename Model::Scalar;
  using Net = typename Model::Network;

  template <class Replica>
  [[nodiscard]] static ReplicaModel<T>& get(Model& model, Replica& replica) {
    if (detail::is_in_fit(*model.trainer_))
      throw Error(
          "on: this model is in fit, which has steps of its own: a callback may use steps of "
          "another model");
    auto& slot = model.on_replicas_[static_cast<std::size_t>(replica.local_rank())];
    auto* held = static_cast<Held<Replica>*>(slot.get());
    if (held == nullptr || held->of != &replica) {  // another one after reconnect()
      slot = std::make_shared<Held<Replica>>(model, replica);
      held = static_cast<Held<Replica>*>(slot.get());
    }
    ReplicaModel<T>& steps = *held->model;
    steps.refresh();
    return steps;
  }

 private:
  template <class Replica>
  struct Held {
    const Replica* of;
    AnyReplicaOf<Replica> replica;
    std::unique_ptr<ReplicaModel<T>> model;

    Held(Model& whose, Replica& on)
        : of(&on),
          replica(on),
          model(replica_model<T>(*whose.trainer_, replica, [](const BackwardPass<T>& pass) {
            Net::template backward<typename Net::InputShape, T>(pass);
          })) {}
  };
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
