// Which rank keeps the others waiting.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/trace.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// One line for an epoch: what each rank computed and waited, in milliseconds a step, and which was
/// the slowest. The rank that all wait for waits for none itself, so the least time in a reduction
/// is what the wire takes, and what the others spend beyond that is waiting. With more than eight
/// ranks, only the slowest four and the fastest are listed.
[[nodiscard]] std::string rank_times_text(std::span<const RankTime> ranks, int epoch,
                                          std::int64_t steps, int local_size);

/// Called by all ranks, whatever their own verbosity: those of all, given this rank's.
[[nodiscard]] std::vector<RankTime> gather_rank_times(AnyCollective& collective,
                                                      Trace::Clock::duration whole,
                                                      Trace::Clock::duration in_collective);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/rank_times.ipp"
#endif
