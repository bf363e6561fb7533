// What a worker tells the local launcher that started it.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/collectives/error.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

// A note is one line on the pipe whose descriptor the environment variable LOCKSTEP_NOTE_FD names:
//
//   at ADDRESS           this worker listens there (where the launcher did not choose the address)
//   met TIME             all workers are connected, since TIME (std::chrono::steady_clock)
//   world EPOCH RANKS    the workers of these numbers are at work together (elastic training); of
//                        none: the job is elastic
//   lost ADDRESS WHY     this worker has lost the one at ADDRESS: it ends, or waits for a successor
//   missed ADDRESS WHY   the same in a start-up, to which that one did not come
//   follows              this worker ends because another has failed
//   waits ADDRESS        the one at ADDRESS keeps this worker waiting for seconds
//   stops                all workers have agreed to stop; this one saves and leaves
//
// Each is written at once or not at all, and never waits. Without a launcher nothing happens. The
// functions may be called from any thread and do not throw.

void note_address(std::string_view address) noexcept;
void note_met() noexcept;
/// `members`: "0 2 3".
void note_world(std::int64_t epoch, std::string_view members) noexcept;
/// Writes lost, missed or follows, according to the failure.
void note_failure(const CollectiveFailure& failure) noexcept;
void note_waiting(std::string_view address) noexcept;
void note_stopping() noexcept;

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/host/launcher_notes.ipp"
#endif
