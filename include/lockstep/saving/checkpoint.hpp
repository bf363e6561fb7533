// Checkpoint: a model, saved with other objects of the program.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/snapshot_file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/saving/chief_file.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/training/all_slots.hpp"
#include "lockstep/training/model_state.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// Throws ConfigurationError unless a file has as many objects beside the model as the caller.
void check_objects(std::size_t found, std::size_t expected);

}  // namespace detail

/// A State itself, or an object with `save(State&) const` and `restore(const State&)`.
template <class O>
concept Restorable =
    std::same_as<O, State> || requires(O& object, const O& same, State& out, const State& in) {
      same.save(out);
      object.restore(in);
    };

/// The counterpart of tf.train.Checkpoint: saves and restores a model with its optimizer, and
/// objects of the program with it. Refers to all of them.
/// @code
/// lockstep::State progress;
/// lockstep::Checkpoint checkpoint(model, progress);
/// @endcode
///
/// Used by one thread, the same calls in the same order on every worker.
template <class Model, Restorable... Objects>
class Checkpoint {
  using Files = detail::ModelFiles<Model>;

 public:
  explicit Checkpoint(Model& model, Objects&... objects) : model_(model), objects_(objects...) {}

  /// Writes one file; the chief alone does. Throws Error naming the path.
  void save(const std::string& path) const {
    const detail::AllSlots all_slots(Files::trainer(model_));
    if (!detail::strategy_of(Files::trainer(model_)).is_chief()) return;
    save_snapshot(path, state());
  }

  /// Restores all, as Model::load does, from a file that save or CheckpointManager wrote. A
  /// checkpoint without objects takes the files of Model::save, ModelCheckpoint and
  /// BackupAndRestore, too.
  void restore(const std::string& path) {
    detail::check_variables_are_here(Files::trainer(model_), "restore");
    decode(path,
           detail::file_from_chief(detail::strategy_of(Files::trainer(model_)), "restore", path,
                                   checkpoint_check(detail::state_bytes(Files::trainer(model_)))));
  }

 private:
  template <class>
  friend class CheckpointManager;

  [[nodiscard]] TrainingState state() const {
    TrainingState saved = detail::save_state(Files::trainer(model_));
    const auto append = [&]<class O>(const O& object) {
      State& state = saved.objects.emplace_back();
      if constexpr (std::same_as<O, State>)
        state = object;
      else
        object.save(state);
    };
    std::apply([&](const auto&... object) { (append(object), ...); }, objects_);
    return saved;
  }

  void decode(const std::string& path, std::span<const std::byte> bytes) {
    detail::naming_file("restore", path, [&] {
      const TrainingState saved = decode_checkpoint(bytes);
      detail::check_objects(saved.objects.size(), sizeof...(Objects));
      detail::restore(Files::trainer(model_), saved);
      auto state = saved.objects.begin();
      const auto take = [&]<class O>(O& object) {
        if constexpr (std::same_as<O, State>)
          object = *state++;
        else
          object.restore(*state++);
      };
      std::apply([&](auto&... object) { (take(object), ...); }, objects_);
    });
  }

  Model& model_;
  std::tuple<Objects&...> objects_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/saving/checkpoint.ipp"
#include "lockstep/training/loops.hpp"
#endif
