// The file from which a parameter server goes on when it is started again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_lock.hpp"
#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/parameter_server/shard_keeper.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Where the workers of a fit stand; saved with the parameters.
struct PsProgress {
  /// The training has ended, and the backups of all servers are about to be removed: any that is
  /// still there is of no more use. In that of server 0.
  bool has_ended = false;
  std::uint64_t fit = 0;  ///< number of the fit that is served; 0: none yet
  /// For each rank: where its training goes on, in a form that only workers read. Empty for a rank
  /// that has made no step: it begins where the chief did, at `begin`.
  std::vector<std::vector<std::byte>> places{};
  std::vector<std::byte> begin{};
};

/// The file of that server.
[[nodiscard]] inline std::string ps_backup_path(const std::string& folder, int server) {
  return concat({folder, "/ps-", server, ".lockstep"});
}

// Bytes as whole numbers, each behind the number of bytes.
inline std::vector<std::int64_t> numbers_of(std::span<const std::byte> bytes) {
  std::vector<std::int64_t> numbers(1 + (bytes.size() + 7) / 8);
  numbers[0] = static_cast<std::int64_t>(bytes.size());
  if (!bytes.empty()) std::memcpy(numbers.data() + 1, bytes.data(), bytes.size());
  return numbers;
}
inline std::vector<std::byte> bytes_of_numbers(const std::vector<std::int64_t>& numbers) {
  if (numbers.empty() || numbers[0] < 0 ||
      static_cast<std::size_t>(numbers[0]) > 8 * (numbers.size() - 1))
    throw DataError("its places are damaged");
  std::vector<std::byte> bytes(static_cast<std::size_t>(numbers[0]));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data() + 1, bytes.size());
  return bytes;
}

inline State written_progress(const PsProgress& progress) {
  State state;
  state.put("fit", static_cast<std::int64_t>(progress.fit));
  state.put("has_ended", std::int64_t{progress.has_ended});
  state.put("begin", numbers_of(progress.begin));
  for (std::size_t i = 0; i < progress.places.size(); ++i)
    state.put(concat({"place_", i}), numbers_of(progress.places[i]));
  return state;
}
inline PsProgress read_progress(const State& state) {
  PsProgress progress;
  progress.fit = static_cast<std::uint64_t>(state.get<std::int64_t>("fit"));
  progress.has_ended = state.contains("has_ended") && state.get<std::int64_t>("has_ended") != 0;
  progress.begin = bytes_of_numbers(state.get<std::vector<std::int64_t>>("begin"));
  for (std::size_t i = 0; state.contains(concat({"place_", i})); ++i)
    progress.places.push_back(
        bytes_of_numbers(state.get<std::vector<std::int64_t>>(concat({"place_", i}))));
  return progress;
}

/// That file, in the format of every saved state, and a lock that keeps other jobs from it. (Its
/// arrays have the size of the whole model; what lies outside of the shard is as it was at first.)
class PsBackup {
 public:
  /// Without a folder (an empty name) nothing is read or written.
  PsBackup(const std::string& folder, int server, int servers)
      : folder_(folder),
        server_(server),
        servers_(servers),
        path_(ps_backup_path(folder, server)),
        is_on_(!folder.empty()) {}

  /// Until it is removed.
  [[nodiscard]] bool is_on() const noexcept { return is_on_; }
  /// Locks the file, and reads the newest generation that can be read; false when there is none.
  /// Throws ConfigurationError when another job has the file, or it is of another program or number
  /// of servers, and DataError when it cannot be read.
  [[nodiscard]] bool restore(ShardKeeper& keeper, PsProgress& progress) {
    if (!is_on()) return false;
    lock();
    remove_stale_temporaries(path_);
    const auto found =
        read_newest_snapshot(path_, keeper.backup_bytes(), "parameter server",
                             "remove the files 'ps-*' of all servers to start from the beginning");
    if (!found) return false;
    const TrainingState& saved = found->file.snapshot;
    if (saved.callbacks.empty() || !saved.callbacks.front().contains("fit"))
      throw ConfigurationError(concat(
          {"parameter server: '", found->path, "' is no backup of a parameter server: remove it"}));
    keeper.restore(saved);
    progress = checked_progress(found->path, saved.callbacks.front());
    if (!found->is_newest) former_ = FormerFile::removed;
    return true;
  }
  /// Copies the shard, for write().
  void copy(const ShardKeeper& keeper, const PsProgress& progress) {
    copy_ = keeper.backup(std::move(copy_));
    copy_.callbacks = {written_progress(progress)};
    copy_.callbacks.front().put("server", std::int64_t{server_});
    copy_.callbacks.front().put("servers", std::int64_t{servers_});
  }
  /// Whether that worked. A failure is a warning: the older file is unharmed.
  bool write() {
    try {
      save_snapshot(path_, copy_, former_);
      former_ = FormerFile::kept;
      return true;
    } catch (const Error& error) {
      log_warning(concat({"parameter server: saving to '", path_, "' failed: ", error.what(),
                          "; an older backup is unharmed"}));
      return false;
    }
  }
  /// For a training that has ended: the next one begins anew.
  void remove() {
    if (!std::exchange(is_on_, false)) return;
    // The newer one last: alone, the older one would be taken for it.
    for (const std::string& path : {previous_generation(path_), path_}) {
      std::error_code error;
      std::filesystem::remove(path, error);
      if (error)
        log_warning(concat({"parameter server: cannot remove '", path, "': ", error.message(),
                            "; the next training would go on from it"}));
    }
  }

 private:
  void lock() {
    const std::string what = concat({"parameter server: backup_dir '", folder_, "'"});
    try {
      lock_.emplace(path_ + ".lock", what);
    } catch (const ConfigurationError&) {
      throw;
    } catch (const Error& error) {  // nor can backups be written
      log_warning(concat({what, ": ", error.what()}));
    }
  }
  [[nodiscard]] PsProgress checked_progress(const std::string& file, const State& saved) const {
    const auto check = [&](const char* name, std::int64_t mine, std::string_view what) {
      if (saved.contains(name) && saved.get<std::int64_t>(name) != mine)
        throw ConfigurationError(
            concat({"parameter server: '", file, "' is of ", what, " ",
                    saved.get<std::int64_t>(name), ", and this job has ", mine,
                    ": start the job as it was, or give it a backup_dir of its own"}));
    };
    check("servers", servers_, "a job with a number of servers of");
    check("server", server_, "server");
    return read_progress(saved);
  }

  const std::string folder_;
  const int server_;
  const int servers_;
  const std::string path_;
  bool is_on_;
  std::optional<FileLock> lock_;
  FormerFile former_ = FormerFile::kept;
  TrainingState copy_;
};

}}}  // namespace lockstep::detail
