// The ranks of an MPI library as a group of their own, which have compared what they are. This
// header is empty in programs that do not link the CMake target lockstep::mpi.
#pragma once

#include "lockstep/core/config.hpp"

#if defined(LOCKSTEP_HAS_MPI)

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/mpi/watchdog.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

[[nodiscard]] inline MPI_Datatype mpi_type(DataType type) noexcept {
  return type == DataType::float32   ? MPI_FLOAT
         : type == DataType::float64 ? MPI_DOUBLE
                                     : MPI_INT64_T;
}

/// MPI_MAX leaves open what the maximum of a number and NaN is.
template <DataType type>
void mpi_maximum(void* in, void* in_and_out, int* count, MPI_Datatype*) {
  combine({type, ReduceOp::max}, in_and_out, in, in_and_out, static_cast<std::size_t>(*count));
}

/// A duplicate of MPI_COMM_WORLD, with the operations that MPI lacks. Ends the job when the ranks
/// do not come in time.
struct MpiGroup {
  MpiGroup(const Rendezvous& rendezvous, const CommunicationOptions& options)
      : timeout(options.progress_limit()),
        watchdog(options.progress_limit(), [this](const char* what) { end_job(what, timeout); }) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    Watchdog start_up(options.startup_timeout,
                      [&](const char* what) { end_job(what, options.startup_timeout); });
    start_up.begin("start-up");
    check_place(rendezvous);
    MPI_Comm_dup(MPI_COMM_WORLD, &group);
    MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN);
    MPI_Op_create(&mpi_maximum<DataType::float32>, 1, &float_maximum);
    MPI_Op_create(&mpi_maximum<DataType::float64>, 1, &double_maximum);
    compare(rendezvous.properties);
  }

  [[nodiscard]] MPI_Op maximum(DataType type) const noexcept {
    return type == DataType::float32   ? float_maximum
           : type == DataType::float64 ? double_maximum
                                       : MPI_MAX;
  }

  // All ranks throw when one has to.
  void check_place(const Rendezvous& rendezvous) const {
    const bool fits =
        rank == rendezvous.rank && static_cast<std::size_t>(size) == rendezvous.addresses.size();
    int all_fit = fits ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &all_fit, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all_fit != 0) return;
    const std::string place =
        concat({"this worker is ", rendezvous.rank, " of ", rendezvous.addresses.size(),
                " in its cluster and rank ", rank, " of ", size, " in MPI"});
    throw ConfigurationError(
        concat({fits ? "another worker has another place in MPI than in its cluster; " : "", place,
                "; TF_CONFIG must say the same as mpirun, or the program must take the cluster "
                "from MPI (mpi_cluster())"}));
  }

  // All ranks throw when one differs.
  void compare(const std::vector<std::pair<std::string, std::string>>& properties) const {
    // What all of them are must be as long everywhere before they can be looked at one by one.
    std::vector<std::int64_t> mine{static_cast<std::int64_t>(properties.size())};
    if (const auto [least, greatest] = extremes(mine); least != greatest)
      throw ConfigurationError(
          "the workers run different programs: they have different numbers of properties");
    mine.clear();
    for (const auto& [name, value] : properties)
      mine.push_back(
          crc32c(std::as_bytes(std::span(value)), crc32c(std::as_bytes(std::span(name)))));
    const auto [least, greatest] = extremes(mine);
    for (std::size_t i = 0; i < properties.size(); ++i)
      if (least[i] != greatest[i])
        throw ConfigurationError(concat({"the workers differ in '", properties[i].first,
                                         "', which must be the same; worker ", rank, " has '",
                                         properties[i].second, "'"}));
  }

  [[nodiscard]] std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> extremes(
      const std::vector<std::int64_t>& mine) const {
    std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> result{mine, mine};
    const int count = static_cast<int>(mine.size());
    MPI_Allreduce(MPI_IN_PLACE, result.first.data(), count, MPI_INT64_T, MPI_MIN, group);
    MPI_Allreduce(MPI_IN_PLACE, result.second.data(), count, MPI_INT64_T, MPI_MAX, group);
    return result;
  }

  void end_job(const char* what, std::chrono::milliseconds limit) const noexcept {
    try {
      log_line(concat(
          {"worker ", rank, " ends the job: ", what, ": no progress for ", limit.count(),
           " ms; another worker hangs, or is busy for longer than CommunicationOptions allow"}));
    } catch (...) {  // out of memory
    }
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::lost_peer));
  }

  int rank = 0;
  int size = 1;
  const std::chrono::milliseconds timeout;  // for progress
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Op float_maximum = MPI_OP_NULL;
  MPI_Op double_maximum = MPI_OP_NULL;
  Watchdog watchdog;  // last: it uses the others
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#endif
