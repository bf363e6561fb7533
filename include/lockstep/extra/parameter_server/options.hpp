// Options of training with parameter servers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Equal in all processes, unless an option says otherwise.
struct ParameterServerOptions {
  /// How many steps a worker may be ahead of the slowest one that lives: a faster one waits. 0: all
  /// train in rounds, and the servers apply the mean of a round's gradients once, as
  /// MultiWorkerMirroredStrategy does, to the same bits. Nothing: no limit, as in TensorFlow.
  std::optional<std::int64_t> max_staleness = std::nullopt;
  /// How long a process that is waited for may be silent before its connection counts as lost. A
  /// busy worker is not silent: another thread speaks for it.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// How long workers wait for one that lives, but makes no step: it is left out then.
  std::chrono::milliseconds progress_timeout = std::chrono::minutes(10);
  /// How long processes may take to find each other; how long workers wait for a server that is
  /// started again; and how long a server without workers waits for one.
  std::chrono::milliseconds startup_timeout = std::chrono::minutes(5);
  /// The IP address of this machine on which a server listens. Empty: the loopback interface where
  /// its own address belongs to it, else all interfaces.
  std::string bind_address{};
  /// Encryption of all connections between workers and servers, as CommunicationOptions::tls has it
  /// for those between workers; equal in all processes. Off: as the environment variable
  /// LOCKSTEP_TLS says.
  Tls tls = Tls::off;
  /// For Tls::certificates. A server's certificate must have the DNS name "ps-N.lockstep", N being
  /// the server's index in the job `ps`. "{task}" in a name stands for "rank-N" on a worker and for
  /// "ps-N" on a server.
  TlsFiles tls_files{};
  /// The folder for a server's backup, "ps-0.lockstep" (by its index): all that it holds, from
  /// which it goes on when it is started again, or from "ps-0.lockstep.previous" if that file is
  /// damaged. Both are removed when the chief has finished and all workers have ended. While a
  /// server runs, "ps-0.lockstep.lock" keeps other jobs from them. Empty: there are no backups. The
  /// servers of a job may share a folder.
  std::string backup_dir{};
  /// After how many updates a server writes that file anew. Those since the last one are lost with
  /// a server that dies, but not with one that is told to stop (SIGTERM, SIGINT, SIGHUP, SIGUSR1).
  std::int64_t backup_freq = 100;

  /// Throws ConfigurationError when an option makes no sense.
  void validate() const {
    CommunicationOptions shared;
    shared.timeout = timeout;
    shared.progress_timeout = progress_timeout;
    shared.startup_timeout = startup_timeout;
    shared.validate();
    if (max_staleness && *max_staleness < 0)
      throw ConfigurationError(concat(
          {"ParameterServerOptions::max_staleness must be 0 (rounds) or more, or nothing for no "
           "limit, got ",
           *max_staleness}));
    if (backup_freq < 1)
      throw ConfigurationError(
          concat({"ParameterServerOptions::backup_freq must be 1 or more, got ", backup_freq}));
  }

  [[nodiscard]] bool in_rounds() const noexcept { return max_staleness && *max_staleness == 0; }
  /// A process that answers has at least as much time as one that does not.
  [[nodiscard]] std::chrono::milliseconds progress_limit() const noexcept {
    return std::max(timeout, progress_timeout);
  }
};

}}  // namespace lockstep
