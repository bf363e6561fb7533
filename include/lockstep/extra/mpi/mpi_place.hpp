// MPI's own start, and a process's place in an MPI job. This header is empty in programs that do
// not link the CMake target lockstep::mpi.
#pragma once

#include "lockstep/core/config.hpp"

#if defined(LOCKSTEP_HAS_MPI)

#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// Initializes MPI if the program has not done so, and then finalizes it when the program ends.
class MpiEnvironment {
 public:
  /// Throws ConfigurationError when MPI does not let the program's threads call it in turns.
  static void need() { static const MpiEnvironment environment; }
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

 private:
  MpiEnvironment() {
    int initialized = 0, provided = 0;
    MPI_Initialized(&initialized);
    if (initialized != 0)
      MPI_Query_thread(&provided);
    else
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    mine_ = initialized == 0;
    if (provided < MPI_THREAD_SERIALIZED)
      throw ConfigurationError(
          "MPI was initialized without threads; initialize it by MPI_Init_thread with "
          "MPI_THREAD_SERIALIZED, or leave "
          "it to "
          "lockstep, and use an MPI library that was built with threads");
  }
  ~MpiEnvironment() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (mine_ && finalized == 0) MPI_Finalize();
  }

  bool mine_ = false;
};

}  // namespace detail

/// Where a process stands in the job that mpirun, or a supercomputer's own launcher, has started.
struct MpiPlace {
  int rank = 0;
  int size = 1;
  std::vector<std::string> hosts{};  ///< the name of each rank's machine

  /// Initializes MPI if need be. All ranks must call this. Throws ConfigurationError as
  /// Mpi::connect does.
  [[nodiscard, gnu::cold]] static MpiPlace get() {
    detail::MpiEnvironment::need();
    MpiPlace place;
    MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &place.size);
    char own[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    MPI_Get_processor_name(own, &length);
    std::vector<char> all(sizeof own * static_cast<std::size_t>(place.size));
    MPI_Allgather(own, sizeof own, MPI_CHAR, all.data(), sizeof own, MPI_CHAR, MPI_COMM_WORLD);
    for (std::size_t at = 0; at < all.size(); at += sizeof own)
      place.hosts.emplace_back(all.data() + at);
    return place;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#endif
