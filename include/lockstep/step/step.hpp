// One step of a replica.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/losses/bad_target.hpp"
#include "lockstep/step/early_update.hpp"
#include "lockstep/step/gradient_reduction.hpp"
#include "lockstep/step/non_finite.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/strategies/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A CrossReplicaSum over the replica's collective.
template <Replica R>
CrossReplicaSum cross_replica_sum(R& replica) {
  return {&replica, [](void* self, std::span<double> values) {
            static_cast<R*>(self)->collective().all_reduce(values, ReduceOp::sum);
          }};
}

/// What the board shows, with "reading data" as the part.
[[nodiscard]] inline Activity reading_data(ActivityBoard* board) {
  Activity activity;
  if (board != nullptr) activity = board->get();
  activity.part = "reading data";
  return activity;
}

/// Reads this rank's part of the current batch (nothing when `has_batch` is false) and runs the model forward.
template <class Compiled, Replica R>
StepContext forward_batch(const Compiled& compiled, typename Compiled::Replica& own, R& replica,
                          BatchLoader<typename Compiled::Scalar>& data, bool has_batch, bool training,
                          std::int64_t step, Trace* trace = nullptr, ActivityBoard* board = nullptr) {
  own.resize(has_batch ? data.samples() : 0);
  if (has_batch) {
    const TraceSpan span(trace, TracePart::input);
    const ActivityScope activity(board, reading_data(board));
    own.use(data.load({own.x(), own.targets()}));
  }
  StepContext context{.training = training,
                      .step = step,
                      .seed = compiled.state.seed,
                      .sample_indices = has_batch ? data.sample_indices() : std::span<const std::int64_t>{},
                      .cross_replica_sum = training ? cross_replica_sum(replica) : CrossReplicaSum{},
                      .trace = trace};
  own.forward(context, compiled.state.parameters().slices());
  return context;
}

/// Calls f, which computes a loss over the current batch. If that cannot use a target, the error
/// names the sample.
template <class T, class F>
double naming_samples(const BatchLoader<T>& data, F&& f) {
  try {
    return f();
  } catch (const BadTarget& bad) {
    throw bad.of_sample(data.sample_name(bad.row()));
  }
}

/// What a step reduces besides gradients, one after the other: the status block, the untrained state (moving statistics) weighted
/// with samples, and the vote for overlap. (In double, so that the mean of equal floats is that number.)
template <class Compiled>
class ReducedBlock {
 public:
  using Status = typename Compiled::Status;
  using Own = typename Compiled::Replica;

  ReducedBlock(const Status& status, Own& own) : sums_(own.reduced(status_size + Own::state_size + 1)) {
    const double samples = status[Status::samples];
    double* next = std::copy(status.values().begin(), status.values().end(), sums_.data());
    for (const auto slice : own.state().slices())
      for (const auto value : slice) *next++ = samples > 0 ? samples * static_cast<double>(value) : 0;
    *next = own.overlap.vote();
  }

  [[nodiscard]] std::span<double> values() const noexcept { return sums_; }

  /// After the reduction: the untrained state becomes the mean of the ranks'. So what is saved, evaluated or resumed does not
  /// depend on the rank, and one without samples does not count.
  void take(Status& status, Own& own, int ranks) const {
    std::copy_n(sums_.data(), status_size, status.values().begin());
    own.overlap.decide(sums_.back(), ranks);
    if (ranks == 1 || status[Status::samples] == 0) return;
    const double* next = sums_.data() + status_size;
    for (const auto slice : own.state().slices())
      for (auto& value : slice) value = static_cast<typename Compiled::Scalar>(*next++ / status[Status::samples]);
  }

 private:
  static constexpr std::size_t status_size = sizeof(Status) / sizeof(double);
  std::span<double> sums_;
};

/// Whether each rank can update a share of the parameters for all ranks: they share memory, each has parameters to itself, and the
/// optimizer has no slots, which would have to be given to all as well. The same on all ranks.
template <class Compiled, Replica R>
bool can_update_for_all(const Compiled& compiled, R& replica) {
  if constexpr (requires { replica.collective().shares_memory(); })
    return replica.collective().shares_memory() && replica.local_size() == 1 && compiled.state.slots().empty();
  else
    return false;
}

/// Reduction and update then: Xu et al., "Automatic cross-replica sharding of weight update in data-parallel training", 2020. The
/// new parameters take the place of the gradients, and become the parameters when all ranks have done their shares. Until then the
/// former ones are only read: who fails has them as they were. `status` is reduced; is_made(status) says whether there is an update
/// at all, and on_begin() is called before the first one.
template <class Compiled, Replica R, class IsMade, class OnBegin>
void update_for_all(Compiled& compiled, typename Compiled::Replica& own, R& replica, std::span<double> status,
                    std::int64_t iteration, IsMade is_made, OnBegin on_begin) {
  using T = typename Compiled::Scalar;
  bool begun = false;
  replica.collective().reduce_scatter_all_gather(
      status, own.gradients().values(),
      [&](std::span<const double> sums, std::size_t offset, std::span<const T> gradients, std::span<T> parameters) {
        if (!std::exchange(begun, true)) on_begin();
        const std::span<const T> former = compiled.state.parameters().values().subspan(offset, gradients.size());
        std::copy(former.begin(), former.end(), parameters.begin());
        if (is_made(sums)) compiled.update(parameters, gradients, offset, sums[Compiled::Status::samples], iteration);
      });
  compiled.state.swap_parameters(own.gradients());
}

/// Reduces status block, untrained state and gradients, as far as `reduction` has not begun with them, and updates this replica's share
/// of the parameters that it has in common with the other replicas of the process. On return, all of them are updated.
template <class Compiled, Replica R, class Reduction>
void reduce_and_update(Compiled& compiled, typename Compiled::Replica& own, R& replica, Reduction& reduction,
                       typename Compiled::Status& status, std::int64_t iteration, bool stop_on_non_finite = false,
                       Trace* trace = nullptr) {
  using Status = typename Compiled::Status;
  using T = typename Compiled::Scalar;
  auto& collective = replica.collective();
  ReducedBlock<Compiled> block(status, own);
  const std::span<T> gradients = own.gradients().values();
  const auto is_made = [&](const auto& sums) { return Status::makes_update(sums, stop_on_non_finite); };
  const auto begin = Trace::Clock::now();
  std::optional<TraceSpan> span(std::in_place, trace, TracePart::collective);
  const auto reduced = [&] {
    own.in_collective += Trace::Clock::now() - begin;
    span.reset();
    span.emplace(trace, TracePart::optimizer);
  };
  if constexpr (requires { collective.reduce_scatter(block.values(), gradients, [](auto...) {}); }) {
    // One pass: sums go from registers into the parameters. (The summation, and the wait until all have done theirs, are counted
    // as the optimizer's.)
    bool begun = false;
    collective.reduce_scatter(block.values(), gradients,
                              [&](std::span<const double> sums, std::size_t offset, std::span<const T> gradient) {
                                if (!std::exchange(begun, true)) reduced();
                                if (is_made(sums)) compiled.update(gradient, offset, sums[Status::samples], iteration);
                              });
    block.take(status, own, collective.size());
  } else {
    if constexpr (requires { collective.shares_memory(); })
      if (can_update_for_all(compiled, replica) && !own.overlap.overlaps()) {
        update_for_all(compiled, own, replica, block.values(), iteration, is_made, reduced);
        return block.take(status, own, collective.size());
      }
    reduction.finish(block.values());
    block.take(status, own, collective.size());
    reduced();
    if (is_made(status)) {
      const auto [first, size] = own.gradients().part(static_cast<std::size_t>(replica.local_rank()),
                                                      static_cast<std::size_t>(replica.local_size()));
      compiled.update(gradients.subspan(first, size), first, status[Status::samples], iteration);
    }
    span.reset();
    span.emplace(trace, TracePart::collective);
    replica.team_barrier();  // no replica reads parameters that another has yet to update
  }
}

/// One training step: this rank's part of the next global batch forward and backward, one reduction
/// of status block and gradients, this replica's share of the update. `iteration` is the number of
/// updates made before. Returns the reduced status block, equal on all ranks; nothing is changed
/// when it counts no samples, nor, with stop_on_non_finite, when a loss is not finite. Every rank
/// must call it, even one that has no data left. The time is recorded if there is a trace, and the
/// board, if any, shows that data are being read.
template <class Compiled, Replica R>
typename Compiled::Status train_step(Compiled& compiled, typename Compiled::Replica& own, R& replica,
                                     BatchLoader<typename Compiled::Scalar>& data, std::int64_t iteration,
                                     const Requests& requests, bool stop_on_non_finite = false, Trace* trace = nullptr,
                                     ActivityBoard* board = nullptr) {
  using Status = typename Compiled::Status;
  const bool has_batch = [&] {
    const TraceSpan span(trace, TracePart::input);
    const ActivityScope activity(board, reading_data(board));
    return data.next();
  }();
  own.begin_step();
  if (own.overlap.is_measuring()) own.overlap.begin_step();
  StepContext context = forward_batch(compiled, own, replica, data, has_batch, true, iteration, trace, board);
  Status status;
  {
    const TraceSpan span(trace, TracePart::loss);
    const auto targets = own.targets();
    const double loss_sum = naming_samples(data, [&] {
      return compiled.loss.value_and_gradient(own.predictions(), TensorView<const typename Compiled::Scalar>(targets),
                                              own.prediction_gradient());
    });
    compiled.record(own, loss_sum, status);
    if (status[Status::non_finite] > 0 && own.non_finite.source.empty())
      own.non_finite.source = find_non_finite(compiled, own, context);
  }
  status[Status::has_next] = data.has_next() ? 1 : 0;  // (what it throws is thrown before a parameter changes)
  status.ask(requests);
  GradientReduction reduction(replica.collective(), own.gradients().values(), own.overlap);
  context.gradients_ready = reduction.hook();
  EarlyUpdate update(compiled, replica.collective(), own.gradients().values(), status, iteration + 1,
                     stop_on_non_finite);
  if (trace == nullptr) context.variables_done = update.begin();  // (a trace tells layers and update apart)
  own.backward(context, compiled.state.parameters().slices());
  if (update.is_alone()) {
    const TraceSpan span(trace, TracePart::optimizer);
    update.finish();
  } else {
    reduce_and_update(compiled, own, replica, reduction, status, iteration + 1, stop_on_non_finite, trace);
  }
  if (stop_on_non_finite && status[Status::non_finite] > 0)
    own.undo_step();
  else
    own.end_step();
  return status;
}

/// Adds this rank's part of the current batch to `status`, in inference.
template <class Compiled, Replica R>
void test_step(const Compiled& compiled, typename Compiled::Replica& own, R& replica,
               BatchLoader<typename Compiled::Scalar>& data, typename Compiled::Status& status) {
  forward_batch(compiled, own, replica, data, true, false, 0);
  const auto targets = own.targets();
  const double loss_sum = naming_samples(data, [&] {
    return compiled.loss.value(own.predictions(), TensorView<const typename Compiled::Scalar>(targets));
  });
  compiled.record(own, loss_sum, status);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
