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
  /// For each rank: where its training goes on, in a form that only workers read. Empty for a rank
  /// that has made no step: it begins where the chief did, at `begin`.
  std::vector<std::vector<std::byte>> places{};
  std::vector<std::byte> begin{};
};

/// That file, in the format of every saved state. (Its arrays have the size of the whole model;
/// what lies outside of the shard is as it was at first.)
class PsBackup {
 public:
  /// Without a folder (an empty name) nothing is read or written.
  PsBackup(const std::string& folder, int server);

  [[nodiscard]] bool is_on() const noexcept { return !path_.empty(); }
  /// Reads the newest file that is not damaged; false when there is none. Throws ConfigurationError
  /// when it is of another program, and Error when it cannot be read.
  [[nodiscard]] bool restore(ShardKeeper& keeper, PsProgress& progress) const;
  /// Copies the shard, for write().
  void copy(const ShardKeeper& keeper, const PsProgress& progress);
  /// A failure is a warning: the older file is unharmed.
  void write() const;
  /// For a training that has come to its end: the next one begins anew.
  void remove() const;

 private:
  std::string path_;
  TrainingState copy_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/parameter_server/backup.ipp"
#endif
