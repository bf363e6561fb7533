// TrainingState: everything that a run needs to continue to the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// One array of a checkpoint: what it is and its elements, in canonical layout (row-major), as raw bytes.
struct SavedArray {
  std::string name;  ///< "dense_1/kernel"
  std::vector<std::uint64_t> extents;
  std::vector<std::byte> bytes;

  friend bool operator==(const SavedArray&, const SavedArray&) = default;
};

/// A consistent snapshot between two steps.
struct TrainingState {
  std::string scalar;     ///< "float32" or "float64": the type of all arrays
  std::string signature;  ///< model layout, loss, optimizer: what a program must have in common with it
  std::vector<SavedArray> parameters;
  std::vector<SavedArray> state;  ///< variables that are not trained
  std::vector<SavedArray> slots;  ///< the optimizer's, slot by slot, as parameters
  std::int64_t iterations = 0;    ///< optimizer updates made
  double learning_rate = 0;       ///< in force
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;           ///< where to go on: this epoch,
  std::int64_t step = 0;            ///< after this many of its steps
  std::int64_t data_iteration = 0;  ///< number of the pass over the data
  std::int64_t data_position = 0;   ///< global batches of that pass already used
  std::int64_t world_size = 1;      ///< ranks of the run that saved it
  std::vector<double> running;      ///< the epoch's sums so far (status block)
  std::vector<State> callbacks;     ///< in the order in which fit was given them

  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
