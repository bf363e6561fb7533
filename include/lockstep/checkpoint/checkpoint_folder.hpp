// Folders of numbered checkpoints: written, watched, and marked when training has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Says, by a file named "training_ended" in the folder, that no more checkpoints will come. To be
/// called after the last one was written. A trainer that is killed before this has not ended.
/// Throws Error naming the path.
void mark_training_ended(const std::string& directory);

/// Removes that file, if there is one: training begins, or goes on. Throws Error naming the path.
void mark_training_begun(const std::string& directory);

[[nodiscard]] bool training_has_ended(const std::string& directory);

/// What a CheckpointManager keeps, and where.
struct CheckpointManagerOptions {
  std::string directory;
  std::optional<std::int64_t> max_to_keep = 5;  ///< nullopt keeps all
  std::optional<double> keep_checkpoint_every_n_hours =
      std::nullopt;  ///< of those that are deleted, keep one every n hours
  /// Least number of updates between two saves.
  std::optional<std::int64_t> checkpoint_interval = std::nullopt;
  /// The beginning of the files' names: ckpt-1, ckpt-2, ...
  std::string checkpoint_name = "ckpt";
  /// Each checkpoint is a folder, in which each worker writes its share: see
  /// BackupAndRestore::sharded. All workers must see `directory`. Not with parameter servers,
  /// nor in an elastic world.
  bool sharded = false;

  /// Throws ConfigurationError.
  void validate() const;
};

/// The path of the newest checkpoint of a folder that can be read; nothing if there is none. Skips
/// missing and damaged files, with a warning that names them.
/// Use: `latest_checkpoint("run")`.
[[nodiscard]] std::optional<std::string> latest_checkpoint(const std::string& directory);

namespace detail {

/// A checkpoint that is kept.
struct KeptCheckpoint {
  std::string name;      ///< of the file, in the folder
  double timestamp = 0;  ///< when it was saved: seconds since 1970
};

/// What the file named "checkpoint" of a folder says, in TensorFlow's form.
struct CheckpointIndex {
  std::vector<KeptCheckpoint> kept;  ///< oldest first
  double last_preserved_timestamp = 0;
};

inline constexpr const char* checkpoint_index_name = "checkpoint";
inline constexpr std::uint64_t largest_index = std::uint64_t{1} << 28;  ///< bytes of that file

/// Nothing when a line is not as CheckpointFolder writes it. Names must stay within the folder.
[[nodiscard]] std::optional<CheckpointIndex> parse_index(std::string_view text);

struct FoundCheckpoint {
  std::string path;
  std::vector<std::byte> bytes;
};

double seconds_since_1970();

/// The bytes of a checkpoint; a sharded one is given as the bytes of a single file. Warns and
/// returns nothing when they are missing or damaged.
[[nodiscard]] std::optional<std::vector<std::byte>> read_checkpoint_or_warn(
    const std::string& path, std::optional<std::uint64_t> expected = {});

/// The files, or sharded states, <name>-<number> that the index lists; other files in the folder
/// are left alone. Every file is written whole or not at all; a checkpoint is on the disk before
/// the index names it, and none is deleted before that.
class CheckpointFolder {
 public:
  using Clock = double (*)();

  /// Continues the list that the folder has. Throws ConfigurationError for wrong options, Error
  /// when the folder cannot be read.
  explicit CheckpointFolder(CheckpointManagerOptions options, Clock clock = &seconds_since_1970);

  /// Paths, oldest first.
  [[nodiscard]] std::vector<std::string> checkpoints() const;

  /// Whether checkpoint_interval allows a save after `step` updates.
  [[nodiscard]] bool due(std::int64_t step) const noexcept;

  /// Writes a snapshot as the next checkpoint, or as the one numbered `number`, and returns its
  /// path. Throws Error naming the path; what was there stays. Throws ConfigurationError for a
  /// number below 0 or without a successor.
  std::string save(const TrainingState& snapshot, std::optional<std::int64_t> number = {});

  // save() in two parts, between which workers write a sharded state: the path, and when it is
  // there, its place on the list.
  [[nodiscard]] std::string begin_save(std::optional<std::int64_t> number) const;
  void end_save(const std::string& saved, std::int64_t step);

  /// The newest checkpoint that a model with arrays of `expected` bytes can read; warns of those
  /// that cannot be read. Of a sharded state it has a reference to the shares, of which it has seen
  /// the sizes; none of those in `unreadable`.
  [[nodiscard]] std::optional<FoundCheckpoint> newest(
      std::optional<std::uint64_t> expected = {},
      std::span<const std::string> unreadable = {}) const;

  /// Say that training begins (or goes on), or has ended: see mark_training_ended. They throw Error
  /// naming the path.
  void begin() const;
  void finish() const;

  /// A checkpoint of `step` updates was restored: the interval counts from there.
  void restored(std::int64_t step) noexcept { last_step_ = step; }

 private:
  [[nodiscard]] std::string path(const std::string& name) const {
    return options_.directory + "/" + name;
  }
  void write_index() const;
  void drop_oldest();

  CheckpointManagerOptions options_;
  Clock clock_;
  CheckpointIndex index_;
  std::optional<std::int64_t> last_step_;
};

}  // namespace detail
}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Finds each checkpoint of a folder once, and again when it is replaced under its name. These are
/// the files in the folder's index (see CheckpointFolder) or, without an index, all files that
/// begin as checkpoints do, and sharded states (ModelCheckpoint's), in the order in which they were
/// written.
class CheckpointWatch {
 public:
  explicit CheckpointWatch(std::string directory);

  /// The oldest that was not found before; nothing when there is none, or no such folder yet.
  /// Passes over those that are damaged, or deleted meanwhile, or too large for a model whose
  /// arrays have `expected` bytes, with a warning. Throws Error naming the path when the index
  /// cannot be read.
  [[nodiscard]] std::optional<FoundCheckpoint> next(std::optional<std::uint64_t> expected = {});

 private:
  /// Differs for every file that is put under a name.
  struct Version {
    std::uint64_t inode = 0;
    std::int64_t size = -1;  // no such file
    std::int64_t nanoseconds = 0;

    friend bool operator==(const Version&, const Version&) = default;
  };

  [[nodiscard]] static Version version_of(const std::string& path);
  [[nodiscard]] std::vector<std::string> paths() const;

  std::string directory_;
  std::map<std::string, Version> found_;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/checkpoint_folder.ipp"
#endif
