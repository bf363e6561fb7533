#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/checkpoint/checkpoint_watch.hpp"
#include "lockstep/checkpoint/detail/checkpoint_header.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_writer.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
  return {.inode = status.st_ino,
          .size = status.st_size,
          .nanoseconds = static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                         status.st_mtim.tv_nsec};
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
    if (!entry->is_regular_file(vanished) || name.find(temporary_suffix) != std::string::npos ||
        name.ends_with(previous_suffix))
      continue;
    const std::string path = directory_ + "/" + name;
    if (begins_as_checkpoint(path)) files.emplace_back(version_of(path).nanoseconds, path);
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
