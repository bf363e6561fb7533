// A program's loops: Model::on, and what strategies have for them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/core/config.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/step/replica_model.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/training/own_loop.hpp"

// A custom loop runs on each replica:
//
//   strategy.run([&](auto& replica) { ... model.on(replica) ... batches.on(replica) ... })
//
// once around each step, as in TensorFlow, or once around the whole loop, so that threads are not
// woken in each step: then it is as fast as fit. Inside, a replica has its part of each batch
// (DistributedBatches), and a model's single steps (ReplicaModel): forward, gradients, apply. Fit's
// step is made of the same functions. What they need besides (a route for the update, logs) is made
// at the first call of Model::on for a replica, and again after fit has lost a worker and
// reconnected. A program that calls the strategy's reconnect() itself compiles its models and
// distributes its datasets anew; steps of earlier models are refused, and so are earlier batches if
// the worker's place has changed.
//
// Ranks agree only in apply and minimize, by the same reduction as in fit: the loss and metrics in
// ReplicaModel::logs are those of all ranks, and a decision based on them is the same everywhere.
// For anything else there is OwnLoops::reduce. Files are written between two run(), or within one
// by replica.team_lead(f), where the first replica calls f and the others wait.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What Model::on does.
template <class Model>
struct OnReplica {
  using T = typename Model::Scalar;
  using Net = typename Model::Network;

  template <class Replica>
  [[nodiscard]] static ReplicaModel<T>& get(Model& model, Replica& replica) {
    const std::int64_t start = detail::start_of_steps(*model.trainer_, connection_of(replica));
    auto& slot = model.on_replicas_[static_cast<std::size_t>(replica.local_rank())];
    auto* held = static_cast<Held<Replica>*>(slot.get());
    if (held == nullptr || held->of != &replica || held->start != start) {
      slot = std::make_shared<Held<Replica>>(model, replica, start);
      held = static_cast<Held<Replica>*>(slot.get());
    }
    ReplicaModel<T>& steps = *held->model;
    steps.refresh();
    return steps;
  }

 private:
  template <class Replica>
  [[nodiscard]] static int connection_of(const Replica& replica) noexcept {
    if constexpr (std::derived_from<Replica, AnyReplica>)
      return replica.connection();
    else
      return 0;
  }

  template <class Replica>
  struct Held {
    const Replica* of;
    std::int64_t start;
    AnyReplicaOf<Replica> replica;
    std::unique_ptr<ReplicaModel<T>> model;

    Held(Model& whose, Replica& on, std::int64_t of_start)
        : of(&on),
          start(of_start),
          replica(on),
          model(replica_model<T>(*whose.trainer_, replica, [](const BackwardPass<T>& pass) {
            Net::template backward<typename Net::InputShape, T>(pass);
          })) {}
  };
};

}}}  // namespace lockstep::detail
