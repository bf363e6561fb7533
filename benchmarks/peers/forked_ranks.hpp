// Ranks as processes, for libraries that come without a launcher.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

namespace benchmarks {

/// Calls f(rank) in a process for each of `ranks`. Returns the exit code: 0 when all have come to
/// their end.
template <class F>
int fork_ranks(int ranks, const F& f) {
  const pid_t parent = getpid();
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t process = fork();
    if (process < 0) throw std::runtime_error("fork failed");
    if (process > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    try {
      f(rank);
      _exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      _exit(1);
    }
  }
  // The end of this process ends those that still wait for one that failed.
  for (int status = 0; wait(&status) > 0;)
    if (status != 0) return 1;
  return 0;
}

}  // namespace benchmarks
