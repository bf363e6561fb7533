// Whether a training can have the numbers of a saved state.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A checksum shows that a file is unchanged, not that its contents make sense. Throws
/// DataError naming the field, its value and the range: counters are whole numbers up to 2^53, the
/// epoch fits into an int, the learning rate is finite, and a state was saved by at least one rank.
/// (The sums of a running epoch may be infinite or NaN: so is the loss of a training that goes
/// wrong.)
void check_ranges(const TrainingState& state);

namespace detail {

/// The same for a counter that is kept elsewhere. Throws DataError unless least <= value <= most.
void check_range(std::string_view field, std::int64_t value, std::int64_t least, std::int64_t most);

/// Counters are summed over ranks as doubles, which are exact up to here.
inline constexpr std::int64_t largest_count = std::int64_t{1} << 53;

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/state_ranges.ipp"
#endif
