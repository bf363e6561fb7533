// The training state of a model: taken from its arrays, and put back into them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/checkpoint/state_share.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/step/program.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// How a program takes a saved state that differs from it.
struct RestoreRules {
  bool allow_changes = false;  ///< of the numbers among the optimizer's options, and what it clips
  std::string_view remedy = "resume with the same program, or start afresh";
};

/// What differs in a saved state that is taken all the same.
struct SignatureDifferences {
  bool in_learning_rate = false;  ///< as it was given; the state has the one that was used last
  std::string in_options{};       ///< those of the optimizer that were allowed, as text
};

/// Compares the signature of a saved state (Compiled::signature) with this program's. Throws
/// ConfigurationError naming the first difference that the rules do not allow.
[[nodiscard]] SignatureDifferences check_signature(std::string_view saved, std::string_view mine,
                                                   const RestoreRules& rules = {});

/// A list of variables, their names, and where the bytes of each are.
struct ArrayList {
  const char* scalar;  ///< "float32" or "float64"
  std::span<const Variable> variables;
  std::vector<std::string> names;
  std::vector<std::span<std::byte>> bytes;
};

template <class T>
ArrayList array_list(std::span<const Variable> variables, std::vector<std::string> names,
                     std::span<const std::span<T>> slices) {
  const char* const scalar = scalar_name<T>();
  ArrayList list{.scalar = scalar, .variables = variables, .names = std::move(names), .bytes = {}};
  for (const std::span<T> slice : slices) list.bytes.push_back(std::as_writable_bytes(slice));
  return list;
}

/// Copies every array into `saved`, from index `first` on, into the memory that is there if it is
/// large enough; `suffix` is added to the names.
void save_arrays(std::vector<SavedArray>& saved, std::size_t first, const ArrayList& list,
                 const std::string& suffix = {});

/// Copies saved arrays back, from index `first` on. Throws ConfigurationError naming the first
/// array that differs; `check_only` copies nothing.
void load_arrays(const std::vector<SavedArray>& saved, std::size_t first, const ArrayList& list,
                 bool check_only);

template <class T>
class Trainer;

/// While it lives, the chief has all slots. All workers make one, at the same point of their calls.
template <class T>
class AllSlots {
 public:
  explicit AllSlots(const Trainer<T>& trainer);
  AllSlots(const AllSlots&) = delete;
  AllSlots& operator=(const AllSlots&) = delete;
  ~AllSlots();

 private:
  const Trainer<T>& trainer_;
};

template <class T>
class Trainer;

/// The state between two calls of fit. The arrays are put into the memory of `reused` where they
/// fit. `before_step`: within a window of steps, that before it (see Workspace::begin_step).
template <class T>
[[nodiscard]] TrainingState save_state(const Trainer<T>& model, TrainingState reused = {},
                                       bool before_step = false);
/// What of it is no array.
template <class T>
void save_fields(const Trainer<T>& model, TrainingState& saved);
/// Whether this worker has all of it now. In a fit the optimizer's state may be with the servers,
/// or spread over the workers.
template <class T>
[[nodiscard]] bool has_whole_state(const Trainer<T>& model);
/// Bytes of all its arrays.
template <class T>
[[nodiscard]] std::uint64_t state_bytes(const Trainer<T>& model);
/// Throws ConfigurationError, having changed nothing, when `saved` belongs to another program. The
/// chief logs what differs and is allowed.
template <class T>
void restore_state(Trainer<T>& model, const TrainingState& saved, const RestoreRules& rules = {});

/// This worker's share of the state between two calls of fit: of what is equal on all workers, a
/// part; of the optimizer's slots that workers share out, those that it has; on the chief all else.
/// The arrays are put into the memory of `reused` where they fit. `before_step`: see save_state.
template <class T>
[[nodiscard]] StateShare share_of_state(const Trainer<T>& model, StateShare reused = {},
                                        bool before_step = false);

/// What of a saved state's slots this worker needs.
template <class T>
[[nodiscard]] SlotRanges slots_needed(const Trainer<T>& model);

// What states are made of.
template <class T>
ArrayList trained_arrays(const Program<T>& program, const Arena<T>& arena);
template <class T>
ArrayList untrained_arrays(const Program<T>& program, const Arena<T>& state);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/model_state.ipp"
#endif
