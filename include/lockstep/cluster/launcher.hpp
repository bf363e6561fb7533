// Starts a cluster of local processes: copies of the running program.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Reads "a:2,b" as a, a, b: a host for each worker, in this order. A host is what ssh takes: a
/// name, an address ("[fd00::1]:2" with its number of workers), an entry of ssh's configuration,
/// with or without "user@". Throws ConfigurationError, naming the entry, when it is none, or when
/// there are more than 1024 workers.
[[nodiscard]] std::vector<std::string> parse_hosts(std::string_view text);

/// Reads a host file: in each line a host, and how many workers it takes, as "a:2", as "a slots=2"
/// (Open MPI's form) or as "a" for one. A host in two lines takes the workers of both. Empty
/// lines and what follows a '#' do not count. Throws ConfigurationError, naming the line.
[[nodiscard]] std::vector<std::string> parse_host_file(std::string_view text);

struct LaunchOptions {
  int workers = 1;                       ///< at least 1
  int servers = 0;                       ///< parameter servers beside them, on this machine
  std::vector<std::string> arguments{};  ///< argv of the workers, the program's name first
  std::string program = "/proc/self/exe";
  /// The host of each worker, for ssh (see parse_hosts); empty: all are on this machine.
  std::vector<std::string> hosts{};
  /// The command that runs a worker on its host; spaces separate its words.
  std::string ssh = "ssh -T -o BatchMode=yes -o ServerAliveInterval=10 -o ServerAliveCountMax=3";
  /// How often each worker is started again after it was killed or ended with an exit code of 128
  /// and above (a lost peer, a signal). Its peers lose it, and are started again as well.
  int restarts = 0;
  /// How long the other workers may take to notice that one has failed, before they are told to
  /// stop (SIGTERM).
  std::chrono::milliseconds failure_grace = std::chrono::seconds(10);
  /// How long a worker that was told to stop may take (to save its state, say), before it is
  /// killed.
  std::chrono::milliseconds stop_grace = std::chrono::seconds(30);
  /// The same for a worker that keeps others waiting and has not agreed to stop.
  std::chrono::milliseconds hung_grace = std::chrono::seconds(8);
  /// How long a process may be stopped (SIGSTOP) before it counts as one that hangs.
  std::chrono::milliseconds stopped_grace = std::chrono::minutes(1);

  /// Throws ConfigurationError when the numbers make no sense.
  void validate() const {
    if (workers < 1)
      throw ConfigurationError(concat({"a cluster needs at least 1 worker, got ", workers}));
    if (servers < 0 || (servers > 0 && !hosts.empty()))
      throw ConfigurationError(concat(
          {"0 or more parameter servers can be started, beside workers on this machine; got ",
           servers, " servers, and ", hosts.size(), " hosts"}));
    if (restarts < 0)
      throw ConfigurationError(
          concat({"a worker is started again 0 or more times, got ", restarts}));
    if (!hosts.empty() && hosts.size() != static_cast<std::size_t>(workers))
      throw ConfigurationError(
          concat({workers, " workers need a host each, got ", hosts.size(), " hosts"}));
  }
};

/// Starts the workers on free ports of the loopback interface, each with its TF_CONFIG, and waits
/// for all of them.
///
/// Each worker runs in a separate process group and is killed when this process dies. It inherits
/// its listening socket (LOCKSTEP_LISTEN_FD), so that no other program can take its port meanwhile.
/// Its standard input is empty; each line of its output appears as "[worker 0] line". SIGINT and
/// SIGTERM are passed on to each worker, once, SIGHUP and SIGUSR1 as SIGTERM; a worker that is
/// stopped (SIGSTOP) is woken up for it. A further signal, a second later or more, kills the
/// workers. When a worker fails, the others have failure_grace to fail too; a worker that ends with
/// 0 has not failed.
///
/// A worker that is started again finds the others, or their successors, on the same ports. Workers
/// that had already ended with 0 are started again for it (also when the chief is not done three
/// seconds later), unless the chief (worker 0) is among them: then the job is done, and workers
/// that were started again have failure_grace to end. No worker is started again after a signal, or
/// when a worker has failed for good.
///
/// A worker that hangs (stopped, deadlocked, cut off) does not end, but the others, or the
/// parameter servers, lose it and tell the launcher (LOCKSTEP_NOTE_FD). A second later the launcher
/// kills it, and it counts as ended with exit code 138. If several workers were lost, the launcher
/// kills the one that most others have lost; in a tie, the one that the lowest rank has lost. So
/// does one that is stopped for stopped_grace, in a start-up too. What is not noticed: a worker
/// that has not connected yet and hangs without being stopped, before the others have waited twice
/// for startup_timeout; and one whose callbacks do not return, before progress_timeout.
///
/// Returns 0 when all workers did, otherwise the exit code of the worker that failed first, which
/// the last line on stderr names too; for a worker that was killed by signal S it is 128 + S. A
/// worker that failed because it lost another counts only when no other has failed. When a
/// signal has stopped the run, the result is 130 for SIGINT and 143 for any other, unless all
/// workers ended with 0. If lines could not be written to stdout, the result is 1 in place of 0.
///
/// In an elastic job (MultiWorkerMirroredOptions::elastic) the others go on without a worker that
/// was killed, or has lost the others, and is not started again; the log says how to start it by
/// hand. (The launcher recognises such a job when the first worker has made its strategy.) The job
/// has succeeded when the others have come to the end; until then, a worker that hangs is left
/// alone.
///
/// With `servers`, the same program is also started for each task of a job `ps`: see
/// ParameterServerStrategy. Their output appears as "[server 0] line". A server is started again as
/// a worker is, on its port; a worker is then started again alone. Signals go to the workers, and
/// the servers end after them. When all workers have ended well, servers have failure_grace to end
/// by themselves; after that, or otherwise at once, they are told to (SIGTERM), and killed after
/// stop_grace. A server's exit code counts as a worker's, unless it was told to end.
///
/// With `hosts`, each worker runs on its host instead, started by a process of `ssh` here, in a
/// folder of the same name as this one and with the program at the same path. They meet on the
/// first host (on the loopback interface, if all are on one), or where LOCKSTEP_MEETING_ADDRESS
/// says. They get the variables LOCKSTEP_... and LD_LIBRARY_PATH of the launcher, through their
/// input, so that a secret shows in no list of processes. Everything said above holds for them; a
/// worker whose connection is lost is killed, and has ended with ssh's exit code, 255.
///
/// Throws ConfigurationError when workers < 1, servers < 0, restarts < 0, or hosts are given with
/// servers or for another number of workers, and Error when a process cannot be started.
[[nodiscard]] int launch_workers(const LaunchOptions& options);

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/cluster/launcher.ipp"
#endif
