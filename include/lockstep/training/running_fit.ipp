#pragma once

#include <span>

#include "lockstep/core/trace_span.hpp"
#include "lockstep/training/hook_errors.hpp"
#include "lockstep/training/replica_checksums.hpp"
#include "lockstep/training/running_fit.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

inline bool any_rank(AnyReplica& replica, bool mine) {
  double count = mine ? 1 : 0;
  replica.collective().all_reduce(std::span<double>(&count, 1), ReduceOp::sum);
  return count > 0;
}

template <class T>
void RunningFit<T>::call_back(AnyReplica& replica, const Activity& place, FunctionRef<void()> f,
                              Trace* trace) {
  replica.team_lead([&] {
    const TraceSpan span(trace, TracePart::callbacks);
    call_hooks(callbacks, place, f);
  });
}

template <class T>
Requests RunningFit<T>::ask_all(AnyReplica& replica) const {
  StatusBlock status(metric_state());
  status.ask(requests_of(replica.local_rank() == 0));
  replica.collective().all_reduce(status.values(), ReduceOp::sum);
  return status.asked();
}

template <class T>
void RunningFit<T>::verify(AnyReplica& replica) {
  replica.team_barrier();  // a callback may have changed the model
  if (options.verify_replicas) verify_replicas(trainer_.parts(replica));
  gather_slots(replica);
  if (replica.local_rank() == 0) is_verified_ = true;
}

template <class T>
void RunningFit<T>::bring_slots_together(AnyReplica& replica) const {
  if (!trainer_.variables().shares_updates()) return;
  replica.team_barrier();  // the first replica has counted the update
  if (!trainer_.has_all_slots()) trainer_.gather_slots(replica);
}

template <class T>
void RunningFit<T>::gather_slots(AnyReplica& replica) const {
  if (any_rank_has.complete_state && !trainer_.has_all_slots()) trainer_.gather_slots(replica);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
