// One step of a replica.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/strategies/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A CrossReplicaSum over the replica's collective.
template <Replica R>
CrossReplicaSum cross_replica_sum(R& replica) {
  return {&replica, [](void* self, std::span<double> values) {
            static_cast<R*>(self)->collective().all_reduce(values, ReduceOp::sum);
          }};
}

/// Reads this rank's part of the current batch (nothing when `has_batch` is false) and runs the model forward.
template <class Compiled, Replica R>
StepContext forward_batch(const Compiled& compiled, typename Compiled::Replica& own, R& replica,
                          DistributedDataset<AnyDataset>& data, bool has_batch, bool training, std::int64_t step,
                          bool with_targets = true) {
  own.resize(has_batch ? data.samples() : 0);
  if (has_batch && data.samples() > 0) data.read(own.x(), with_targets ? own.targets() : decltype(own.targets()){});
  own.x().clear_padding();  // a dataset need not write it, and what an earlier batch left there may be anything
  own.targets().clear_padding();
  StepContext context{.training = training,
                      .step = step,
                      .seed = compiled.state.seed,
                      .sample_indices = has_batch ? data.sample_indices() : std::span<const std::int64_t>{},
                      .cross_replica_sum = training ? cross_replica_sum(replica) : CrossReplicaSum{}};
  own.forward(context, compiled.state.parameters().slices());
  return context;
}

/// The reduction of a step: status block and gradients, and with them the untrained state (moving statistics), which becomes the
/// mean of the ranks', weighted with their samples. So it is equal on all ranks after each step: what is saved, evaluated
/// or resumed does not depend on the rank, and one without samples does not count. Alone it leaves the bits as they are.
template <class Compiled, Replica R>
void reduce_step(typename Compiled::Replica& own, R& replica, typename Compiled::Status& status) {
  using Status = typename Compiled::Status;
  constexpr std::size_t state_size = Compiled::Replica::state_size;
  if (state_size == 0 || replica.collective().size() == 1) {
    replica.collective().all_reduce(status.values(), own.gradients().values());
    return;
  }
  // One after the other, so that one reduction carries them. (In double, so that a mean of equal numbers is that number.)
  constexpr std::size_t status_size = sizeof(Status) / sizeof(double);
  std::array<double, status_size + state_size> sums;
  const double samples = status[Status::samples];
  double* next = std::copy(status.values().begin(), status.values().end(), sums.data());
  for (const auto slice : own.state().slices())
    for (const auto value : slice) *next++ = samples > 0 ? samples * static_cast<double>(value) : 0;
  replica.collective().all_reduce(std::span<double>(sums), own.gradients().values());
  std::copy_n(sums.data(), status_size, status.values().begin());
  if (status[Status::samples] == 0) return;
  next = sums.data() + status_size;
  for (const auto slice : own.state().slices())
    for (auto& value : slice) value = static_cast<typename Compiled::Scalar>(*next++ / status[Status::samples]);
}

/// One training step: this rank's part of the next global batch forward and backward, one reduction of status block and
/// gradients, this replica's share of the update. `iteration` is the number of updates made before. Returns the reduced
/// status block, equal on all ranks; nothing is changed when it counts no samples. Every rank must call it, also one
/// that has no data left.
template <class Compiled, Replica R>
typename Compiled::Status train_step(const Compiled& compiled, typename Compiled::Replica& own, R& replica,
                                     DistributedDataset<AnyDataset>& data, std::int64_t iteration, bool stop) {
  using Status = typename Compiled::Status;
  const bool has_batch = data.next();
  const StepContext context = forward_batch(compiled, own, replica, data, has_batch, true, iteration);
  Status status;
  const auto targets = own.targets();
  const double loss_sum = compiled.loss.value_and_gradient(
      own.predictions(), TensorView<const typename Compiled::Scalar>(targets), own.prediction_gradient());
  compiled.record(own, loss_sum, status);
  own.backward(context, compiled.state.parameters().slices());
  status[Status::has_next] = data.has_next() ? 1 : 0;
  status[Status::stop] = stop ? 1 : 0;
  reduce_step<Compiled>(own, replica, status);
  if (status[Status::samples] > 0)
    compiled.update(own.gradients().values(), status[Status::samples], iteration + 1,
                    static_cast<std::size_t>(replica.local_rank()), static_cast<std::size_t>(replica.local_size()));
  replica.team_barrier();  // no replica reads parameters that another has yet to update
  return status;
}

/// Adds this rank's part of the current batch to `status`, in inference.
template <class Compiled, Replica R>
void test_step(const Compiled& compiled, typename Compiled::Replica& own, R& replica,
               DistributedDataset<AnyDataset>& data, typename Compiled::Status& status) {
  forward_batch(compiled, own, replica, data, true, false, 0);
  const auto targets = own.targets();
  compiled.record(own, compiled.loss.value(own.predictions(), TensorView<const typename Compiled::Scalar>(targets)),
                  status);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
