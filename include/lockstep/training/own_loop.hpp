// What a Trainer gives to a program's loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/step/replica_model.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/concepts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A replica's parts of the batches of one pass, as a range: `for (const auto& batch :
/// batches.on(replica))`. All ranks end it at the same step; one whose data ended
/// earlier gets batches without samples. Used by the replica's thread; a batch is valid until the
/// next one is asked for.
template <class T>
class ReplicaBatches {
 public:
  /// `may_differ`: a rank may have fewer batches than another, so that they ask each other.
  ReplicaBatches(DistributedDataset<AnyDataset> data, bool may_differ);

  struct End {};
  class Iterator {
   public:
    explicit Iterator(ReplicaBatches& batches) noexcept : batches_(&batches) {}
    [[nodiscard]] const ReplicaBatch<T>& operator*() const noexcept { return batches_->batch_; }
    Iterator& operator++() {
      batches_->next();
      return *this;
    }
    [[nodiscard]] bool operator==(End) const noexcept { return !batches_->has_batch_; }

   private:
    ReplicaBatches* batches_;
  };

  /// Reads the first batch of what DistributedBatches::on began.
  [[nodiscard]] Iterator begin() {
    next();
    return Iterator(*this);
  }
  [[nodiscard]] End end() const noexcept { return {}; }

 private:
  template <class>
  friend class DistributedBatches;

  void start(Iteration iteration, std::int64_t done, CrossReplicaSum sum);
  void next();

  std::size_t sizes_[2];  // of a sample, of its targets
  BatchLoader<T> loader_;
  const bool may_differ_;
  CrossReplicaSum sum_;
  Buffer memory_;
  ReplicaBatch<T> batch_;
  bool has_batch_ = false;
};

/// A dataset of global batches, of each of which every replica has a part, as in fit: what
/// `strategy.distribute(dataset)` gives. Refers to the strategy.
/// @code
/// auto batches = strategy.distribute(dataset);
/// strategy.run([&](auto& replica) {
///   auto& here = model.on(replica);
///   for (int epoch = 0; epoch < 3; ++epoch)
///     for (const auto& batch : batches.on(replica, {.seed = model.seed(), .number = epoch}))
///       here.minimize(batch);
/// });
/// @endcode
template <class T = float>
class DistributedBatches {
 public:
  /// Every worker calls it with the same dataset (see AutoShardPolicy). Throws ConfigurationError
  /// on all of them when they differ, naming the difference.
  DistributedBatches(std::shared_ptr<AnyStrategy> strategy, const AnyDataset& dataset);

  /// The pass `iteration` over the data, without its first `done` batches, in the function that
  /// the strategy's run() calls. Equal iterations are equal passes; fit's have the model's seed and
  /// count from 0. The same arguments on all ranks. Throws Error if the number of
  /// workers or this worker's index has changed since (ElasticOptions).
  /// Use: `batches.on(replica, {.seed = model.seed(), .number = 0})`. Keras: `iter(dataset)`.
  template <class Replica>
  [[nodiscard]] ReplicaBatches<T>& on(Replica& replica, Iteration iteration = {},
                                      std::int64_t done = 0) {
    check_place();
    ReplicaBatches<T>& own = *replicas_[static_cast<std::size_t>(replica.local_rank())];
    own.start(iteration, done, {&replica, [](void* self, std::span<double> values) {
                                  static_cast<Replica*>(self)->collective().all_reduce(
                                      values, ReduceOp::sum);
                                }});
    return own;
  }

  /// Batches in a pass over this worker's data, or infinite_cardinality, or unknown_cardinality.
  /// Use: `batches.cardinality()`.
  [[nodiscard]] std::int64_t cardinality() const noexcept { return cardinality_; }

 private:
  void check_place() const;

  std::shared_ptr<AnyStrategy> strategy_;
  int workers_, worker_;  // when it was distributed
  std::int64_t cardinality_ = unknown_cardinality;
  std::vector<std::unique_ptr<ReplicaBatches<T>>> replicas_;
};

namespace detail {

/// What OwnLoops::distribute does.
template <class T>
struct Distribute {
  template <Strategy S>
  [[nodiscard]] static DistributedBatches<T> of(S& strategy, const AnyDataset& dataset) {
    return {any_strategy(strategy), dataset};
  }
};

}  // namespace detail
}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
class Trainer;

/// Returns the number of the trainer's last start; steps made before it refer to memory that is
/// gone. Throws Error while the trainer is in fit, and if the strategy has reconnected since that
/// start. `connection`: the replica's.
template <class T>
[[nodiscard]] std::int64_t start_of_steps(const Trainer<T>& trainer, int connection);

/// The single steps of the trainer's program on a replica, which must outlive it.
template <class T>
[[nodiscard]] std::unique_ptr<ReplicaModel<T>> replica_model(
    Trainer<T>& trainer, AnyReplica& replica, typename ReplicaModel<T>::ToInput to_input);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/own_loop.ipp"
#endif
