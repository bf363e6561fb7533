#pragma once

#include <optional>
#include <string>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/step/updaters/choose_updater.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/own_loop.hpp"
#include "lockstep/training/trainer.hpp"
#include "lockstep/training/worker_data.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

template <class T>
ReplicaBatches<T>::ReplicaBatches(DistributedDataset<AnyDataset> data, bool may_differ)
    : sizes_{data.sample_size(), data.target_size()},
      loader_(std::move(data), sizes_[1] > 0),
      may_differ_(may_differ) {}

template <class T>
void ReplicaBatches<T>::start(Iteration iteration, std::int64_t done, CrossReplicaSum sum) {
  sum_ = sum;
  has_batch_ = false;
  loader_.begin(iteration);
  if (done > 0) loader_.seek(done);
}

template <class T>
void ReplicaBatches<T>::next() {
  has_batch_ = loader_.next();
  const std::size_t samples = has_batch_ ? loader_.samples() : 0, stride = padded_batch(samples);
  const std::size_t bytes = (sizes_[0] + sizes_[1]) * stride * sizeof(T);
  if (bytes > memory_.size()) memory_ = Buffer(bytes);
  T* const memory = reinterpret_cast<T*>(memory_.data());
  BatchViews<T> views{TensorView<T>(memory, samples, sizes_[0], stride),
                      TensorView<T>(memory + sizes_[0] * stride, samples, sizes_[1], stride)};
  if (has_batch_) views = loader_.load(views);
  batch_ = {
      .x = views.x,
      .targets = views.targets,
      .sample_indices = has_batch_ ? loader_.sample_indices() : std::span<const std::int64_t>(),
      .weight_size = loader_.weight_size()};
  if (!may_differ_) return;
  double any = has_batch_ ? 1 : 0;
  sum_(std::span(&any, 1));
  has_batch_ = any > 0;
}

template <class T>
DistributedBatches<T>::DistributedBatches(std::shared_ptr<AnyStrategy> strategy,
                                          const AnyDataset& dataset)
    : strategy_(std::move(strategy)),
      workers_(strategy_->num_workers()),
      worker_(strategy_->worker_index()) {
  const auto place = [&](int replica) -> DistributionContext {
    return {.num_workers = workers_,
            .worker = worker_,
            .local_replicas = strategy_->local_replicas(),
            .local_replica = replica};
  };
  const detail::WorkerData mine("distribute", dataset,
                                {.num_workers = workers_, .worker = worker_});
  const std::string signature = detail::pass_signature(mine, std::nullopt);
  strategy_->run([&](AnyReplica& replica) {
    const detail::CommonCall call(replica, "distribute", signature);
  });
  cardinality_ = mine.steps();
  for (int i = 0; i < strategy_->local_replicas(); ++i)
    replicas_.push_back(std::make_unique<ReplicaBatches<T>>(
        DistributedDataset<AnyDataset>(dataset, place(i)), mine.may_differ()));
}

template <class T>
void DistributedBatches<T>::check_place() const {
  const int workers = strategy_->num_workers(), worker = strategy_->worker_index();
  if (workers != workers_ || worker != worker_)
    throw Error(concat({"on: these batches were distributed when this was worker ", worker_, " of ",
                        workers_, " (counted from 0); now it is worker ", worker, " of ", workers,
                        ": call distribute() again"}));
}

LOCKSTEP_INSTANCE(class ReplicaBatches<LOCKSTEP_REAL>);
LOCKSTEP_INSTANCE(class DistributedBatches<LOCKSTEP_REAL>);
}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
std::int64_t start_of_steps(const Trainer<T>& trainer, int connection) {
  if (trainer.is_in_fit())
    throw Error(
        "on: this model is in fit, which makes its steps: a callback may use the steps of another "
        "model");
  if (connection != trainer.connection())
    throw Error(
        "on: the strategy has reconnected since this model was compiled: compile it anew, as a "
        "program that was just started does");
  return trainer.starts();
}

template <class T>
std::unique_ptr<ReplicaModel<T>> replica_model(Trainer<T>& trainer, AnyReplica& replica,
                                               typename ReplicaModel<T>::ToInput to_input) {
  refuse_rounds("on", trainer.variables());
  const Parts<T> parts = trainer.parts(replica);
  return std::make_unique<ReplicaModel<T>>(parts, trainer.updater(parts), to_input);
}

LOCKSTEP_INSTANCE(std::int64_t start_of_steps(const Trainer<LOCKSTEP_REAL>&, int));
LOCKSTEP_INSTANCE(std::unique_ptr<ReplicaModel<LOCKSTEP_REAL>> replica_model(
    Trainer<LOCKSTEP_REAL>&, AnyReplica&, ReplicaModel<LOCKSTEP_REAL>::ToInput));
}}}  // namespace lockstep::detail
