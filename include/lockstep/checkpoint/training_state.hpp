// TrainingState: everything that a run needs to continue to the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A consistent snapshot between two steps.
struct TrainingState {
  std::string scalar;  ///< "float32" or "float64": the type of all arrays
  /// Model layout, loss, optimizer, metrics: what a program must have in common with it, but for the optimizer's learning rate, which
  /// is restored. Empty in a file of weights alone.
  std::string signature;
  std::vector<SavedArray> parameters;
  std::vector<SavedArray> state;  ///< variables that are not trained
  std::vector<SavedArray> slots;  ///< the optimizer's, slot by slot, as parameters
  std::int64_t iterations = 0;    ///< optimizer updates made
  double learning_rate = 0;       ///< in force
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;           ///< where to go on: this epoch,
  std::int64_t step = 0;            ///< after this many of its steps
  std::int64_t data_iteration = 0;  ///< number of the current pass over the data, or the next
  std::int64_t data_position = 0;   ///< global batches of that pass already used
  std::int64_t world_size = 1;      ///< ranks of the run that saved it
  std::vector<double> running;      ///< the epoch's sums so far (status block)
  std::vector<State> callbacks;     ///< in the order in which fit was given them

  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
