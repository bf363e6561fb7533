// Checkpoint: a model, saved with other objects of the program. CheckpointManager: keeps the newest
// checkpoints of a run.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/checkpoint_folder.hpp"
#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/checkpoint/state_share.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/training/model_state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// Throws ConfigurationError unless a file has the caller's number of objects beside the model.
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
/// Use: `Checkpoint(model)`.
template <class Model, Restorable... Objects>
class Checkpoint {
  using Files = detail::ModelFiles<Model>;

 public:
  explicit Checkpoint(Model& model, Objects&... objects) : model_(model), objects_(objects...) {}

  /// Writes one file, on the chief alone. With `{.sharded = true}` as a second argument, a folder,
  /// in which each worker writes its share (see Model::save). Throws Error naming the path.
  /// Use: `checkpoint.save("run.lockstep")`.
  void save(const std::string& path) const {
    const detail::AllSlots all_slots(Files::trainer(model_));
    if (!detail::strategy_of(Files::trainer(model_)).is_chief()) return;
    save_snapshot(path, state());
  }

  /// The same; with .sharded as Model::save writes it, each worker its share.
  /// Use: `checkpoint.save("run.ckpt", {.sharded = true})`.
  void save(const std::string& path, const SaveOptions& options) const {
    if (!options.sharded) return save(path);
    detail::save_shares(Files::trainer(model_), path, [&] { return share(); });
  }

  /// Restores all, as Model::load does, from a file or folder of save or CheckpointManager. A
  /// checkpoint without objects takes the files of Model::save, ModelCheckpoint and
  /// BackupAndRestore, too.
  /// Use: `checkpoint.restore("run.lockstep")`.
  void restore(const std::string& path) {
    detail::restore_file(Files::trainer(model_), "restore", path,
                         [&](const TrainingState& saved) { take(saved); });
  }

 private:
  template <class>
  friend class CheckpointManager;

  [[nodiscard]] TrainingState state() const {
    TrainingState saved = detail::save_state(Files::trainer(model_));
    append_objects(saved);
    return saved;
  }

  [[nodiscard]] detail::StateShare share() const {
    detail::StateShare share = detail::share_of_state(Files::trainer(model_));
    if (detail::strategy_of(Files::trainer(model_)).is_chief()) append_objects(share.state);
    return share;
  }

  void append_objects(TrainingState& saved) const {
    const auto append = [&]<class O>(const O& object) {
      State& state = saved.objects.emplace_back();
      if constexpr (std::same_as<O, State>)
        state = object;
      else
        object.save(state);
    };
    std::apply([&](const auto&... object) { (append(object), ...); }, objects_);
  }

  void decode(const std::string& path, std::span<const std::byte> bytes) {
    detail::naming_file("restore", path,
                        [&] { take(detail::decode_state(Files::trainer(model_), bytes)); });
  }

  void take(const TrainingState& saved) {
    detail::check_objects(saved.objects.size(), sizeof...(Objects));
    detail::restore(Files::trainer(model_), saved);
    auto state = saved.objects.begin();
    const auto give = [&]<class O>(O& object) {
      if constexpr (std::same_as<O, State>)
        object = *state++;
      else
        object.restore(*state++);
    };
    std::apply([&](auto&... object) { (give(object), ...); }, objects_);
  }

  Model& model_;
  std::tuple<Objects&...> objects_;
};

namespace detail {

/// The folder of a CheckpointManager, which only the chief has.
class ManagedFolder {
 public:
  /// Throws what the constructor of CheckpointManager throws.
  ManagedFolder(CheckpointManagerOptions options, bool is_chief);

  /// Whether there is one, and checkpoint_interval allows a save.
  [[nodiscard]] bool due(std::int64_t updates) const noexcept;
  /// When due.
  std::string save(const TrainingState& state, std::optional<std::int64_t> number);
  [[nodiscard]] bool is_sharded() const noexcept { return is_sharded_; }
  /// Called by all workers, when due(updates) on the chief: `write` writes this worker's share.
  std::optional<std::string> save_sharded(AnyStrategy& strategy, std::int64_t updates,
                                          std::optional<std::int64_t> number,
                                          FunctionRef<void(const std::string& path)> write);
  /// The newest checkpoint that can be read, on every worker; an empty path without any.
  /// `expected`: bytes of the model's arrays.
  struct Newest {
    std::string path = {};
    std::vector<std::byte> bytes = {};
  };
  [[nodiscard]] Newest newest(AnyStrategy& strategy, std::uint64_t expected);
  /// The newest one, which is sharded, cannot be read: newest() passes it over. Warns on the chief.
  void pass_over(const std::string& path, std::string_view why);
  /// A checkpoint was restored: the interval counts from it.
  void restored(std::int64_t updates) noexcept;
  void finish() const;
  [[nodiscard]] std::vector<std::string> checkpoints() const;

 private:
  std::optional<CheckpointFolder> folder_;
  bool is_sharded_ = false;
  std::vector<std::string> unreadable_{};
};

}  // namespace detail

/// Saves checkpoints under growing numbers in a folder, deletes the oldest, and restores the newest
/// that can be read. A file named "checkpoint" in the folder lists them, as TensorFlow's does;
/// files that are not on the list are left alone. Every worker makes the same calls; only the chief
/// has the folder.
/// @code
/// lockstep::Checkpoint checkpoint(model);
/// lockstep::CheckpointManager manager(checkpoint, {.directory = "run", .max_to_keep = 3});
/// if (!manager.restore_or_initialize()) std::puts("a new run");
/// @endcode
///
/// Used by one thread, the same calls in the same order on every worker.
/// Use: `CheckpointManager(checkpoint, {.directory = "run"})`.
template <class CheckpointType>
class CheckpointManager {
 public:
  /// Throws ConfigurationError for wrong options; on the chief also Error when the folder's list
  /// cannot be read.
  CheckpointManager(CheckpointType& checkpoint, CheckpointManagerOptions options)
      : checkpoint_(checkpoint), folder_(std::move(options), strategy().is_chief()) {}

  /// Saves under the next number, or `checkpoint_number`, and returns the path. Returns nothing on
  /// workers other than the chief, and when fewer than checkpoint_interval updates have been made
  /// since the last save. Throws Error naming the path; the earlier ones stay.
  /// Use: `manager.save()`.
  std::optional<std::string> save(std::optional<std::int64_t> checkpoint_number = {}) {
    if (folder_.is_sharded())
      return folder_.save_sharded(
          strategy(), checkpoint_.model_.iterations(), checkpoint_number,
          [&](const std::string& path) { checkpoint_.save(path, {.sharded = true}); });
    const detail::AllSlots all_slots(CheckpointType::Files::trainer(checkpoint_.model_));
    const std::int64_t updates = checkpoint_.model_.iterations();
    if (!folder_.due(updates)) return std::nullopt;
    return folder_.save(checkpoint_.state(), checkpoint_number);
  }

  /// Restores, on all workers, the newest checkpoint that can be read, and returns its path; warns
  /// of those that cannot. Without any it returns nothing, and the model stays as it is. Training
  /// counts as begun from here on, even after finish. Throws ConfigurationError when the checkpoint
  /// belongs to another program.
  /// Use: `manager.restore_or_initialize()`.
  std::optional<std::string> restore_or_initialize() {
    for (;;) {
      const detail::ManagedFolder::Newest found = folder_.newest(
          strategy(), detail::state_bytes(CheckpointType::Files::trainer(checkpoint_.model_)));
      if (found.path.empty()) return std::nullopt;
      try {
        checkpoint_.decode(found.path, found.bytes);
      } catch (const DataError& error) {  // on all workers alike
        if (!detail::path_of_shares(found.bytes)) throw;
        folder_.pass_over(found.path, error.what());
        continue;
      }
      folder_.restored(checkpoint_.model_.iterations());
      return found.path;
    }
  }

  /// Says in the folder, after the last save, that training has ended, so that a SidecarEvaluator
  /// ends as well. Throws Error naming the path.
  /// Use: `manager.finish()`. Keras: none.
  void finish() const { folder_.finish(); }

  /// The paths of the checkpoints that are kept, oldest first; none on workers other than the
  /// chief.
  /// Use: `manager.checkpoints()`.
  [[nodiscard]] std::vector<std::string> checkpoints() const { return folder_.checkpoints(); }

 private:
  auto& strategy() {
    return detail::strategy_of(CheckpointType::Files::trainer(checkpoint_.model_));
  }

  CheckpointType& checkpoint_;
  detail::ManagedFolder folder_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/saving/checkpoint.ipp"
#include "lockstep/training/loops.hpp"
#endif
