// A training state in a folder that all workers share: a file of each worker, and a manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/checkpoint/state_share.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Behind the folder's path.
inline constexpr const char* manifest_name = "/manifest.json";

/// A state that workers save together, each a file of the folder `path`. The folder's manifest
/// names them, and is replaced when all are on the disk: until then the folder has the former
/// state. The members are called in this order by all workers, `write` on any thread.
class ShardedSave {
 public:
  ShardedSave(std::string path, int worker, Exchange exchange);
  /// Keeps an error for commit.
  void write(const StateShare& share) noexcept;
  /// Returns, on all workers alike, what went wrong, with worker, host and file: one could not
  /// write, or the chief does not see its file. The former state then stays. Empty: it is saved.
  [[nodiscard]] std::string commit(FormerFile former, Exchange exchange);
  /// Tries to remove this worker's file, unless a manifest may name it. No commit follows.
  void abandon() const noexcept;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_, file_;
  int worker_;
  std::string entry_{};   // of the manifest
  std::string arrays_{};  // on the chief, the manifest's beginning
  std::string error_{};
  bool is_offered_ = false;
};

/// All of it: saves this worker's share, and throws what commit returns as an Error.
void save_shares(const std::string& path, int worker, const StateShare& share, Exchange exchange);

/// Throws ConfigurationError, for the callback `who`, unless the training has shares.
void check_has_shares(std::string_view who, bool has_shares);

/// The updates that the newest sharded state was saved after, by its manifest, or if that cannot be
/// read by the one before it; nothing if neither can.
[[nodiscard]] std::optional<std::int64_t> updates_of_sharded_state(const std::string& path);

/// Whether there is the manifest of a sharded state, or of the one before it.
[[nodiscard]] bool is_sharded_state(const std::string& path);

/// Reads what a worker needs; called by all workers. An array of slots of which it needs ranges has
/// the bytes of these, one after the other (TrainingState::has_slot_ranges). Sizes are checked
/// before memory is taken, and checksums before the state is returned. With `with_previous`, where
/// one worker cannot read the state, all take that before it, with a warning. Throws the same
/// DataError on all workers, with worker, host and file, when there is none that all can read.
[[nodiscard]] TrainingState read_sharded_state(const std::string& path, const SlotRanges& needs,
                                               int worker, Exchange exchange, bool with_previous);

/// The same in a process that reads alone.
[[nodiscard]] TrainingState read_sharded_state(const std::string& path, const SlotRanges& needs);

/// Throws DataError unless the newest manifest can be read, its arrays fit a model whose arrays
/// have `expected` bytes, and this process sees all its files with their sizes.
void check_sharded_state(const std::string& path, std::uint64_t expected);

/// Removes a sharded state and its folder, if nothing else is in it. Throws Error naming the path.
void remove_sharded_state(const std::string& path);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/sharded_state.ipp"
#endif
