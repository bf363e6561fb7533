// CheckpointManager: the newest few checkpoints of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/checkpoint_folder.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/saving/checkpoint.hpp"
#include "lockstep/saving/chief_file.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/training/all_slots.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
template <class CheckpointType>
class CheckpointManager {
 public:
  /// Throws ConfigurationError for wrong options; on the chief also Error when the folder's list
  /// cannot be read.
  CheckpointManager(CheckpointType& checkpoint, CheckpointManagerOptions options)
      : checkpoint_(checkpoint) {
    options.validate();
    if (strategy().is_chief()) folder_.emplace(std::move(options));
  }

  /// Saves under the next number, or `checkpoint_number`, and returns the path. Returns nothing on
  /// other workers than the chief, and when fewer than checkpoint_interval updates have been made
  /// since the last save. Throws Error naming the path; the earlier ones stay.
  std::optional<std::string> save(std::optional<std::int64_t> checkpoint_number = {}) {
    const detail::AllSlots all_slots(*CheckpointType::Files::trainer(checkpoint_.model_));
    const std::int64_t updates = checkpoint_.model_.iterations();
    if (!folder_ || !folder_->due(updates)) return std::nullopt;
    return folder_->save(checkpoint_.state(), checkpoint_number);
  }

  /// Restores, on all workers, the newest checkpoint that can be read, and returns its path; warns
  /// of those that cannot. Without any it returns nothing, and the model stays as it is. Training
  /// counts as begun from here on, even after finish. Throws ConfigurationError when the checkpoint
  /// belongs to another program.
  std::optional<std::string> restore_or_initialize() {
    detail::FileContents path, state;
    if (folder_) {
      try {
        folder_->begin();
        if (auto found =
                folder_->newest(CheckpointType::Files::trainer(checkpoint_.model_).state_bytes())) {
          const auto text = std::as_bytes(std::span(found->path));
          path.bytes.assign(text.begin(), text.end());
          state.bytes = std::move(found->bytes);
        }
      } catch (const Error& error) {
        path = detail::unreadable(error);
      }
    }
    const detail::FileCall call{.name = "restore_or_initialize", .arguments = {}};
    const std::vector<std::byte> name =
        detail::contents_from_chief(strategy(), call, std::move(path));
    if (name.empty()) return std::nullopt;
    std::string restored(reinterpret_cast<const char*>(name.data()), name.size());
    checkpoint_.decode(restored, detail::contents_from_chief(strategy(), call, std::move(state)));
    if (folder_) folder_->restored(checkpoint_.model_.iterations());
    return restored;
  }

  /// Says in the folder, after the last save, that training has ended, so that a SidecarEvaluator
  /// ends as well. Throws Error naming the path.
  void finish() const {
    if (folder_) folder_->finish();
  }

  /// The paths of the checkpoints that are kept, oldest first; on other workers than the chief
  /// none.
  [[nodiscard]] std::vector<std::string> checkpoints() const {
    return folder_ ? folder_->checkpoints() : std::vector<std::string>{};
  }

 private:
  auto& strategy() { return CheckpointType::Files::trainer(checkpoint_.model_).strategy(); }

  CheckpointType& checkpoint_;
  std::optional<detail::CheckpointFolder> folder_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
