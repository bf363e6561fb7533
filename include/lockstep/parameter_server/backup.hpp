// The file from which a parameter server goes on when it is started again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/parameter_server/shard_keeper.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Where the workers of a fit stand; saved with the parameters.
struct PsProgress {
  std::uint64_t fit = 0;  ///< number of the fit that is served; 0: none yet
  /// Of each rank: where its training goes on, in words of its own; empty for one that has made no
  /// step, which begins where the chief did, at `begin`.
  std::vector<std::vector<std::byte>> places{};
  std::vector<std::byte> begin{};
};

/// Such a file, in the form of all states that are saved. (Its arrays have the size of the whole
/// model; those outside of the shard are as they were at first.)
class PsBackup {
 public:
  /// In an empty folder's name there is none.
  PsBackup(const std::string& folder, int server);

  [[nodiscard]] bool is_on() const noexcept { return !path_.empty(); }
  /// Reads the newest file that is not damaged; false when there is none. Throws ConfigurationError
  /// when it is of another program, and Error when it cannot be read.
  [[nodiscard]] bool restore(ShardKeeper& keeper, PsProgress& progress) const;
  /// Copies the shard, for write().
  void copy(const ShardKeeper& keeper, const PsProgress& progress);
  /// A failure is a warning: the older file is unharmed.
  void write() const;
  /// The training has come to its end, and the next one begins anew.
  void remove() const;

 private:
  std::string path_;
  TrainingState copy_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/parameter_server/backup.ipp"
#endif
