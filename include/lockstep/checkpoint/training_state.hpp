// TrainingState: everything that a run needs to continue to the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The version of the file format that this library writes.
inline constexpr std::uint32_t checkpoint_format_version = 1;

/// A consistent snapshot between two steps. A file has its parts as named sections: "model" (from
/// `scalar` to `world_size`), "fit" (from `epoch` to `class_weight`), "callbacks" and "objects",
/// and then the arrays.
struct TrainingState {
  std::string scalar;  ///< "float32" or "float64": the type of all arrays
  /// Model layout, loss, optimizer, metrics: what a program must have in common with it, except for
  /// the optimizer's learning rate, which is restored. Empty in a file of weights alone.
  std::string signature;
  std::vector<SavedArray> parameters;
  std::vector<SavedArray> state;  ///< variables that are not trained
  /// The optimizer's, slot by slot, as parameters; then moving averages of parameters, if it keeps
  /// them; then, with accumulated_steps, sums of gradients.
  std::vector<SavedArray> slots;
  std::int64_t iterations = 0;         ///< optimizer updates made
  double learning_rate = 0;            ///< the current one
  double previous_learning_rate = 0;   ///< of the last update; 0: not known
  std::int64_t accumulated_steps = 0;  ///< since the last update, whose gradients are in slots
  double accumulated_rows = 0;         ///< of these steps, on all ranks
  double loss_scale = 0;               ///< of the next step; 0: the run had none
  std::int64_t finite_steps = 0;       ///< since the loss scale last changed
  bool shows_averages = false;         ///< parameters and their moving averages have changed places
  std::uint64_t seed = 0;
  std::int64_t world_size = 1;  ///< ranks of the run that saved it

  std::int64_t fit = 0;             ///< which fit of its model trains, from 1; 0: not known
  std::int64_t epoch = 0;           ///< where it goes on: in this epoch,
  std::int64_t step = 0;            ///< after this many of its steps
  std::int64_t data_iteration = 0;  ///< number of the current pass over the data, or the next
  std::int64_t data_position = 0;   ///< global batches of that pass already used
  std::int64_t global_batch = 0;    ///< samples in each of those; 0: not known
  std::vector<double> running;      ///< the epoch's sums so far (status block)
  bool is_epoch_open = false;       ///< the epoch before `epoch` is not completed
  // Describe the training data and the epochs, so that a change is noticed; 0: not known.
  std::int64_t samples = 0;           ///< in the source of the data
  std::int64_t samples_checksum = 0;  ///< CRC-32C of some of them (SourceFingerprint)
  std::int64_t epoch_steps = 0;       ///< steps of an epoch
  std::string pipeline;               ///< PipelineDescription
  std::vector<double> class_weight;   ///< of class 0, 1, ...

  std::vector<State> callbacks;  ///< with the name of each, see CallbackHooks
  std::vector<State> objects;    ///< those of a Checkpoint, in its order

  /// Not in a file: of the slots that workers share out, this has what one worker needs alone (see
  /// detail::read_sharded_state).
  bool has_slot_ranges = false;

  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

/// A checksum shows that a file is unchanged, not that its contents make sense. Throws DataError
/// naming the field, its value and the range: counters are whole numbers up to 2^53, the epoch fits
/// into an int, the learning rate is finite, and a state was saved by at least one rank. (The sums
/// of a running epoch may be infinite or NaN: so is the loss of a training that goes wrong.)
void check_ranges(const TrainingState& state);

namespace detail {

/// The same for a counter that is kept elsewhere. Throws DataError unless least <= value <= most.
void check_range(std::string_view field, std::int64_t value, std::int64_t least, std::int64_t most);

/// Counters are summed over ranks as doubles, which are exact up to here.
inline constexpr std::int64_t largest_count = std::int64_t{1} << 53;

}  // namespace detail
}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/training_state.ipp"
#endif
