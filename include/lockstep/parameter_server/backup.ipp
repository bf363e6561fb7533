#pragma once

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/snapshot_file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/parameter_server/backup.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

// Bytes as whole numbers, each behind the number of bytes.
LOCKSTEP_INLINE std::vector<std::int64_t> numbers_of(std::span<const std::byte> bytes) {
  std::vector<std::int64_t> numbers(1 + (bytes.size() + 7) / 8);
  numbers[0] = static_cast<std::int64_t>(bytes.size());
  if (!bytes.empty()) std::memcpy(numbers.data() + 1, bytes.data(), bytes.size());
  return numbers;
}
LOCKSTEP_INLINE std::vector<std::byte> bytes_of_numbers(const std::vector<std::int64_t>& numbers) {
  if (numbers.empty() || numbers[0] < 0 ||
      static_cast<std::size_t>(numbers[0]) > 8 * (numbers.size() - 1))
    throw DataError("its places are damaged");
  std::vector<std::byte> bytes(static_cast<std::size_t>(numbers[0]));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data() + 1, bytes.size());
  return bytes;
}

LOCKSTEP_INLINE State written_progress(const PsProgress& progress) {
  State state;
  state.put("fit", static_cast<std::int64_t>(progress.fit));
  state.put("begin", numbers_of(progress.begin));
  for (std::size_t i = 0; i < progress.places.size(); ++i)
    state.put(concat({"place_", i}), numbers_of(progress.places[i]));
  return state;
}
LOCKSTEP_INLINE PsProgress read_progress(const State& state) {
  PsProgress progress;
  progress.fit = static_cast<std::uint64_t>(state.get<std::int64_t>("fit"));
  progress.begin = bytes_of_numbers(state.get<std::vector<std::int64_t>>("begin"));
  for (std::size_t i = 0; state.contains(concat({"place_", i})); ++i)
    progress.places.push_back(
        bytes_of_numbers(state.get<std::vector<std::int64_t>>(concat({"place_", i}))));
  return progress;
}

LOCKSTEP_INLINE PsBackup::PsBackup(const std::string& folder, int server) {
  if (!folder.empty()) path_ = concat({folder, "/ps-", server, ".lockstep"});
}

LOCKSTEP_INLINE bool PsBackup::restore(ShardKeeper& keeper, PsProgress& progress) const {
  if (!is_on()) return false;
  remove_stale_temporaries(path_);
  for (const std::string& path : {path_, previous_generation(path_)}) {
    try {
      const auto found = read_snapshot(path, keeper.backup_bytes());
      if (!found) continue;
      if (found->snapshot.callbacks.empty())
        throw DataError("it is no backup of a parameter server");
      keeper.restore(found->snapshot);
      progress = read_progress(found->snapshot.callbacks.front());
      return true;
    } catch (const DataError& error) {
      log_line(concat({"warning: parameter server: '", path, "': ", error.what()}));
    }
  }
  return false;
}

LOCKSTEP_INLINE void PsBackup::copy(const ShardKeeper& keeper, const PsProgress& progress) {
  copy_ = keeper.backup(std::move(copy_));
  copy_.callbacks = {written_progress(progress)};
}

LOCKSTEP_INLINE void PsBackup::write() const {
  try {
    save_snapshot(path_, copy_, FormerFile::kept);
  } catch (const Error& error) {
    log_line(concat({"warning: parameter server: saving to '", path_, "' failed: ", error.what(),
                     "; an older backup is unharmed"}));
  }
}

LOCKSTEP_INLINE void PsBackup::remove() const {
  if (!is_on()) return;
  for (const std::string& path : {previous_generation(path_), path_}) {
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error)
      log_line(concat({"warning: parameter server: cannot remove '", path, "': ", error.message(),
                       "; the next training would go on from it"}));
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
