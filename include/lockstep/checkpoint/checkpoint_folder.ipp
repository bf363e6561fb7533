#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/checkpoint_folder.hpp"
#include "lockstep/checkpoint/detail/checkpoint_header.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_writer.hpp"
#include "lockstep/checkpoint/sharded_state.hpp"
#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

inline constexpr const char* training_ended_name = "/training_ended";

}  // namespace detail

LOCKSTEP_INLINE void mark_training_ended(const std::string& directory) {
  const std::string_view text = "Training has ended: no checkpoints will follow.\n";
  write_file_atomically(directory + detail::training_ended_name, std::as_bytes(std::span(text)));
}

LOCKSTEP_INLINE void mark_training_begun(const std::string& directory) {
  remove_file(directory + detail::training_ended_name);
}

LOCKSTEP_INLINE bool training_has_ended(const std::string& directory) {
  std::error_code ignored;
  return std::filesystem::exists(directory + detail::training_ended_name, ignored);
}

namespace detail {

/// The number behind the last dash of "ckpt-12"; nothing if there is none, or if it is the largest
/// number, which has no successor.
LOCKSTEP_INLINE std::optional<std::int64_t> checkpoint_number(std::string_view name) {
  const std::string_view digits = name.substr(name.rfind('-') + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.size() == name.size() || error != std::errc() || end != digits.data() + digits.size())
    return std::nullopt;
  return number == std::numeric_limits<std::int64_t>::max() ? std::nullopt : std::optional(number);
}

LOCKSTEP_INLINE std::optional<CheckpointIndex> parse_index(std::string_view text) {
  CheckpointIndex index;
  std::size_t timestamps = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n'), colon = text.find(": ");
    if (end == std::string_view::npos || colon > end) return std::nullopt;
    const std::string_view key = text.substr(0, colon),
                           value = text.substr(colon + 2, end - colon - 2);
    text.remove_prefix(end + 1);
    if (key.ends_with("_path") || key.ends_with("_paths")) {
      if (value.size() < 2 || value.front() != '"' || value.back() != '"') return std::nullopt;
      const std::string_view name = value.substr(1, value.size() - 2);
      if (name.empty() || name.find_first_of("/\"\\") != std::string_view::npos ||
          !checkpoint_number(name))
        return std::nullopt;
      if (key == "all_model_checkpoint_paths") index.kept.push_back({.name = std::string(name)});
    } else {
      double seconds = 0;
      const auto [last, error] =
          std::from_chars(value.data(), value.data() + value.size(), seconds);
      if (error != std::errc() || last != value.data() + value.size() || !std::isfinite(seconds))
        return std::nullopt;
      if (key == "all_model_checkpoint_timestamps") {
        if (timestamps == index.kept.size()) return std::nullopt;
        index.kept[timestamps++].timestamp = seconds;
      } else if (key == "last_preserved_timestamp") {
        index.last_preserved_timestamp = seconds;
      } else {
        return std::nullopt;
      }
    }
  }
  if (index.kept.empty() || timestamps != index.kept.size()) return std::nullopt;
  return index;
}

/// The files <checkpoint_name>-<number> of a folder, by number, in place of a damaged index. An
/// empty name stands for any.
LOCKSTEP_INLINE CheckpointIndex list_folder(const std::string& directory, double now,
                                            std::string_view checkpoint_name) {
  CheckpointIndex index{.kept = {}, .last_preserved_timestamp = now};
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string name = file.path().filename().string();
    const auto number = checkpoint_number(name);
    if (!number || !(file.is_regular_file(ignored) || is_sharded_state(file.path().string())))
      continue;
    if (checkpoint_name.empty() || name == concat({checkpoint_name, "-", *number}))
      index.kept.push_back({.name = name, .timestamp = now});
  }
  std::sort(index.kept.begin(), index.kept.end(),
            [](const KeptCheckpoint& a, const KeptCheckpoint& b) {
              return std::pair(checkpoint_number(a.name), a.name) <
                     std::pair(checkpoint_number(b.name), b.name);
            });
  return index;
}

LOCKSTEP_INLINE CheckpointIndex read_index(const std::string& directory, double now,
                                           std::string_view checkpoint_name = {}) {
  const std::string path = directory + "/" + checkpoint_index_name;
  const auto bytes = read_file(path, at_most(largest_index, "a list of checkpoints"));
  if (!bytes) return {.kept = {}, .last_preserved_timestamp = now};
  auto index = parse_index({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (!index) {
    log_warning(
        concat({in_quotes(path), " is damaged: going by the names of the files in the folder"}));
    return list_folder(directory, now, checkpoint_name);
  }
  // the clock was set back
  index->last_preserved_timestamp = std::min(index->last_preserved_timestamp, now);
  return std::move(*index);
}

LOCKSTEP_INLINE void warn_of_skipped(const std::string& path, std::string_view why) {
  log_warning(concat({"skipping the checkpoint ", in_quotes(path), ": ", why}));
}

LOCKSTEP_INLINE std::optional<std::vector<std::byte>> read_checkpoint_or_warn(
    const std::string& path, std::optional<std::uint64_t> expected) {
  std::string failure = "it is missing";
  try {
    if (is_sharded_state(path))
      return encode_checkpoint(read_sharded_state(path, {.bytes = expected.value_or(0)}));
    if (auto file = read_snapshot(path, expected)) return std::move(file->bytes);
  } catch (const Error& error) {
    failure = error.what();
  }
  warn_of_skipped(path, failure);
  return std::nullopt;
}

LOCKSTEP_INLINE std::optional<FoundCheckpoint> newest_checkpoint(
    const std::string& directory, const std::vector<KeptCheckpoint>& kept,
    FunctionRef<std::optional<std::vector<std::byte>>(const std::string&)> read) {
  for (auto checkpoint = kept.rbegin(); checkpoint != kept.rend(); ++checkpoint) {
    const std::string path = directory + "/" + checkpoint->name;
    if (auto bytes = read(path)) return FoundCheckpoint{path, std::move(*bytes)};
  }
  return std::nullopt;
}

LOCKSTEP_INLINE double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

LOCKSTEP_INLINE CheckpointFolder::CheckpointFolder(CheckpointManagerOptions options, Clock clock)
    : options_(std::move(options)), clock_(clock) {
  options_.validate();
  index_ = read_index(options_.directory, clock_(), options_.checkpoint_name);
}

LOCKSTEP_INLINE std::vector<std::string> CheckpointFolder::checkpoints() const {
  std::vector<std::string> paths;
  for (const KeptCheckpoint& checkpoint : index_.kept) paths.push_back(path(checkpoint.name));
  return paths;
}

LOCKSTEP_INLINE bool CheckpointFolder::due(std::int64_t step) const noexcept {
  return !options_.checkpoint_interval || !last_step_ ||
         step - *last_step_ >= *options_.checkpoint_interval;
}

LOCKSTEP_INLINE std::string CheckpointFolder::begin_save(std::optional<std::int64_t> number) const {
  const auto& kept = index_.kept;
  if (!number) number = kept.empty() ? 1 : checkpoint_number(kept.back().name).value_or(0) + 1;
  if (*number < 0 || *number == std::numeric_limits<std::int64_t>::max())
    throw ConfigurationError(
        concat({"CheckpointManager: the number of a checkpoint must be at least 0, and not the "
                "largest, got ",
                *number}));
  begin();
  return path(concat({options_.checkpoint_name, "-", *number}));
}

LOCKSTEP_INLINE std::string CheckpointFolder::save(const TrainingState& snapshot,
                                                   std::optional<std::int64_t> number) {
  std::string path = begin_save(number);
  save_snapshot(path, snapshot);
  remove_stale_temporaries(path);
  end_save(path, snapshot.iterations);
  return path;
}

LOCKSTEP_INLINE void CheckpointFolder::end_save(const std::string& saved, std::int64_t step) {
  auto& kept = index_.kept;
  const std::string name = saved.substr(saved.rfind('/') + 1);
  remove_stale_temporaries(path(checkpoint_index_name));
  std::erase_if(kept, [&](const KeptCheckpoint& earlier) { return earlier.name == name; });
  kept.push_back({.name = name, .timestamp = clock_()});
  last_step_ = step;
  write_index();
  if (options_.max_to_keep && kept.size() > static_cast<std::size_t>(*options_.max_to_keep)) {
    while (kept.size() > static_cast<std::size_t>(*options_.max_to_keep)) drop_oldest();
    write_index();
  }
}

LOCKSTEP_INLINE std::optional<FoundCheckpoint> CheckpointFolder::newest(
    std::optional<std::uint64_t> expected, std::span<const std::string> unreadable) const {
  const auto read = [&](const std::string& path) -> std::optional<std::vector<std::byte>> {
    if (std::ranges::find(unreadable, path) != unreadable.end()) return std::nullopt;
    if (!is_sharded_state(path)) return read_checkpoint_or_warn(path, expected);
    try {
      check_sharded_state(path, expected.value_or(0));
      return reference_to_shares(path);
    } catch (const Error& error) {
      warn_of_skipped(path, error.what());
      return std::nullopt;
    }
  };
  return newest_checkpoint(options_.directory, index_.kept, read);
}

LOCKSTEP_INLINE void CheckpointFolder::begin() const { mark_training_begun(options_.directory); }

LOCKSTEP_INLINE void CheckpointFolder::finish() const { mark_training_ended(options_.directory); }

LOCKSTEP_INLINE void CheckpointFolder::write_index() const {
  std::string text = concat({"model_checkpoint_path: \"", index_.kept.back().name, "\"\n"});
  for (const KeptCheckpoint& checkpoint : index_.kept)
    text += concat({"all_model_checkpoint_paths: \"", checkpoint.name, "\"\n"});
  for (const KeptCheckpoint& checkpoint : index_.kept)
    text += concat({"all_model_checkpoint_timestamps: ", checkpoint.timestamp, "\n"});
  text += concat({"last_preserved_timestamp: ", index_.last_preserved_timestamp, "\n"});
  write_file_atomically(path(checkpoint_index_name), std::as_bytes(std::span(text)));
}

/// Takes the oldest off the list, and deletes it unless keep_checkpoint_every_n_hours keeps it.
LOCKSTEP_INLINE void CheckpointFolder::drop_oldest() {
  const KeptCheckpoint oldest = std::move(index_.kept.front());
  index_.kept.erase(index_.kept.begin());
  constexpr double hour = 3600;
  if (options_.keep_checkpoint_every_n_hours &&
      oldest.timestamp - *options_.keep_checkpoint_every_n_hours * hour >=
          index_.last_preserved_timestamp)
    index_.last_preserved_timestamp = oldest.timestamp;
  else
    is_sharded_state(path(oldest.name)) ? remove_sharded_state(path(oldest.name))
                                        : remove_file(path(oldest.name));
}

}  // namespace detail

LOCKSTEP_INLINE void CheckpointManagerOptions::validate() const {
  if (directory.empty())
    throw ConfigurationError("CheckpointManager: directory is empty: name a folder");
  if (max_to_keep && *max_to_keep <= 0)
    throw ConfigurationError(concat({"CheckpointManager: max_to_keep must be at least 1, got ",
                                     *max_to_keep, "; std::nullopt keeps all"}));
  if (keep_checkpoint_every_n_hours && !(*keep_checkpoint_every_n_hours > 0))
    throw ConfigurationError(
        concat({"CheckpointManager: keep_checkpoint_every_n_hours must be above 0, got ",
                *keep_checkpoint_every_n_hours}));
  if (checkpoint_interval && *checkpoint_interval <= 0)
    throw ConfigurationError(
        concat({"CheckpointManager: checkpoint_interval must be at least 1 update, got ",
                *checkpoint_interval}));
  if (checkpoint_name.empty() || checkpoint_name.find_first_of("/\"\\\n") != std::string::npos)
    throw ConfigurationError(
        concat({"CheckpointManager: checkpoint_name ", in_quotes(checkpoint_name),
                " must be the beginning of a file name, without slashes and quotes"}));
}

LOCKSTEP_INLINE std::optional<std::string> latest_checkpoint(const std::string& directory) {
  auto found = detail::newest_checkpoint(
      directory, detail::read_index(directory, detail::seconds_since_1970()).kept,
      [](const std::string& path) { return detail::read_checkpoint_or_warn(path); });
  return found ? std::optional(std::move(found->path)) : std::nullopt;
}

}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE CheckpointWatch::CheckpointWatch(std::string directory)
    : directory_(std::move(directory)) {}

LOCKSTEP_INLINE bool begins_as_checkpoint(const std::string& path) {
  const File<> file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  std::array<char, checkpoint_magic.size()> begin{};
  return file.is_open() &&
         ::read(file.get(), begin.data(), begin.size()) == static_cast<ssize_t>(begin.size()) &&
         begin == checkpoint_magic;
}

LOCKSTEP_INLINE CheckpointWatch::Version CheckpointWatch::version_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  if (S_ISDIR(status.st_mode) && ::stat((path + manifest_name).c_str(), &status) != 0) return {};
  return {
      .inode = status.st_ino, .size = status.st_size, .nanoseconds = nanoseconds_of_change(status)};
}

/// Oldest first.
LOCKSTEP_INLINE std::vector<std::string> CheckpointWatch::paths() const {
  std::vector<std::string> paths;
  if (const auto bytes = read_file(directory_ + "/" + checkpoint_index_name,
                                   at_most(largest_index, "a list of checkpoints"))) {
    if (const auto index =
            parse_index({reinterpret_cast<const char*>(bytes->data()), bytes->size()})) {
      for (const KeptCheckpoint& checkpoint : index->kept)
        paths.push_back(directory_ + "/" + checkpoint.name);
      return paths;
    }
  }
  std::vector<std::pair<std::int64_t, std::string>> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code vanished;
    const std::string name = entry->path().filename().string();
    if (name.find(temporary_suffix) != std::string::npos || name.ends_with(previous_suffix))
      continue;
    const std::string path = directory_ + "/" + name;
    if (entry->is_regular_file(vanished) ? begins_as_checkpoint(path) : is_sharded_state(path))
      files.emplace_back(version_of(path).nanoseconds, path);
  }
  std::sort(files.begin(), files.end());
  for (auto& [nanoseconds, path] : files) paths.push_back(std::move(path));
  return paths;
}

LOCKSTEP_INLINE std::optional<FoundCheckpoint> CheckpointWatch::next(
    std::optional<std::uint64_t> expected) {
  for (const std::string& path : paths()) {
    const Version version = version_of(path);
    const auto [known, is_new] = found_.try_emplace(path, version);
    if (!is_new && known->second == version) continue;
    known->second = version;
    if (auto bytes = read_checkpoint_or_warn(path, expected))
      return FoundCheckpoint{path, std::move(*bytes)};
  }
  return std::nullopt;
}

}}}  // namespace lockstep::detail
