#pragma once

#include <cmath>
#include <limits>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

LOCKSTEP_INLINE void check_range(std::string_view field, std::int64_t value, std::int64_t least,
                                 std::int64_t most) {
  if (value < least || value > most)
    throw DataError(
        concat({"checkpoint: ", field, " is ", value, ", expected ", least, " to ", most,
                ": no training has such a state, the file was not written by one"}));
}

}  // namespace detail

LOCKSTEP_INLINE void check_ranges(const TrainingState& state) {
  using detail::check_range, detail::largest_count;
  constexpr std::int64_t largest_int = std::numeric_limits<int>::max();
  check_range("iterations", state.iterations, 0, largest_count);
  check_range("accumulated_steps", state.accumulated_steps, 0, largest_count);
  check_range("fit", state.fit, 0, largest_count);
  check_range("epoch", state.epoch, 0, largest_int - 1);
  check_range("step", state.step, 0, largest_count);
  check_range("data_iteration", state.data_iteration, 0, largest_count);
  check_range("data_position", state.data_position, 0, largest_count);
  check_range("world_size", state.world_size, 1, largest_int);
  if (!std::isfinite(state.learning_rate))
    throw DataError(concat({"checkpoint: learning_rate is ", state.learning_rate,
                            ", expected a finite number: a training cannot go on with it"}));
  if (!std::isfinite(state.previous_learning_rate) || state.previous_learning_rate < 0)
    throw DataError(concat({"checkpoint: previous_learning_rate is ", state.previous_learning_rate,
                            ", expected a finite number of at least 0"}));
  check_range("finite_steps", state.finite_steps, 0, largest_count);
  if (!std::isfinite(state.loss_scale) || state.loss_scale < 0)
    throw DataError(concat({"checkpoint: loss_scale is ", state.loss_scale,
                            ", expected a finite number of at least 0"}));
  if (!std::isfinite(state.accumulated_rows) || state.accumulated_rows < 0)
    throw DataError(concat({"checkpoint: accumulated_rows is ", state.accumulated_rows,
                            ", expected a finite number of at least 0"}));
}

}}  // namespace lockstep
