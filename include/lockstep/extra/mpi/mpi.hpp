// The collective of an MPI library. This header is empty in programs that do not link the CMake
// target lockstep::mpi.
#pragma once

#include "lockstep/core/config.hpp"

#if defined(LOCKSTEP_HAS_MPI)

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/mpi/mpi_group.hpp"
#include "lockstep/extra/mpi/mpi_place.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A CollectivePolicy over MPI: the way onto InfiniBand and onto supercomputers.
///
///     mpirun -n 4 ./trainer
///
/// with `MultiWorkerMirroredStrategy<Mpi> strategy(mpi_cluster())` in the program (see
/// extra/mpi/mpi_cluster.hpp), or with a TF_CONFIG that says the same as mpirun.
///
/// Sums are formed in the MPI library's order, which is not Partition's: the promise of equal bits
/// between this collective and the others does not hold. All ranks hold the same bits if the
/// library gives them the same, as MPI's standard recommends.
///
/// A failure ends the job: MPI has no other way. abort(), and an operation that makes no progress
/// for `options.progress_timeout` (MPI cannot ask whether a rank lives), end all processes by
/// MPI_Abort, after a line on stderr that says which rank did it and why. An error that MPI reports
/// is thrown as a CollectiveError.
///
/// One thread calls it at a time, though not always the same; abort() may come from any thread.
/// Include <lockstep/extra/mpi.hpp>.
/// Use: `MultiWorkerMirroredStrategy<Mpi>{mpi_cluster()}`. Keras: none.
class Mpi {
 public:
  /// Throws ConfigurationError when MPI has another place for this process than the rendezvous,
  /// when ranks differ in a property, and for options that only MPI itself can follow.
  [[nodiscard]] static Mpi connect(const Rendezvous& rendezvous,
                                   const CommunicationOptions& options) {
    check(options);
    detail::MpiEnvironment::need();
    return Mpi(std::make_unique<detail::MpiGroup>(rendezvous, options));
  }

  [[nodiscard]] int rank() const noexcept { return state_->rank; }
  [[nodiscard]] int size() const noexcept { return state_->size; }

  void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum) {
    Running running(*state_, Operation::all_reduce);
    reduce(running, values, op == ReduceOp::sum ? MPI_SUM : state_->maximum(values.type()));
  }

  void all_reduce(std::span<double> status, NumberSpan values) {
    Running running(*state_, Operation::all_reduce);
    reduce(running, status, MPI_SUM);
    reduce(running, values, MPI_SUM);
  }

  void broadcast(std::span<std::byte> bytes, int root) {
    detail::check_root(root, size());
    Running running(*state_, Operation::broadcast);
    broadcast(running, bytes, root);
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
    detail::check_lengths(mine.size(), all.size(), size());
    Running running(*state_, Operation::all_gather);
    const auto slice = [&](int r) {
      return all.subspan(mine.size() * static_cast<std::size_t>(r), mine.size());
    };
    if (!mine.empty()) std::memmove(slice(rank()).data(), mine.data(), mine.size());
    if (mine.size() <= most_at_once) {
      running.done(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(),
                                 static_cast<int>(mine.size()), MPI_BYTE, state_->group),
                   all.size());
    } else {
      for (int r = 0; r < size(); ++r) broadcast(running, slice(r), r);
    }
  }

  void barrier() {
    Running running(*state_, Operation::barrier);
    running.done(MPI_Barrier(state_->group), 0);
  }

  /// Ends all processes of the job, this one included, with exit code `code`.
  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept {
    try {
      log_line(concat({"worker ", rank(), " ends the job: ", reason}));
    } catch (...) {  // out of memory
    }
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  }

  /// The orderly end: returns when all ranks have called it, or after `options.progress_timeout`
  /// with a line on stderr.
  void close() {
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(state_->group, &request) != MPI_SUCCESS) return;
    const auto end = std::chrono::steady_clock::now() + state_->timeout;
    for (int all_have_come = 0;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      if (MPI_Test(&request, &all_have_come, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
      if (all_have_come != 0) break;
      if (std::chrono::steady_clock::now() > end)
        return log_line(concat({"worker ", rank(), ": not all workers came to their end within ",
                                state_->timeout.count(), " ms"}));
    }
    MPI_Comm_free(&state_->group);
    MPI_Op_free(&state_->float_maximum);
    MPI_Op_free(&state_->double_maximum);
  }

 private:
  /// Elements, or bytes, of one call: MPI counts in int, and each call that ends is progress.
  static constexpr std::size_t most_at_once = std::size_t{1} << 28;

  /// An operation, with its deadline.
  class Running {
   public:
    Running(detail::MpiGroup& state, Operation operation) : state_(state), operation_(operation) {
      state_.watchdog.begin(to_string(operation_));
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() { state_.watchdog.end(); }

    /// One of the operation's calls has ended with this result.
    void done(int result, std::size_t bytes) {
      if (result != MPI_SUCCESS) fail(result);
      bytes_ += bytes;
      state_.watchdog.begin(to_string(operation_));
    }

   private:
    [[noreturn, gnu::cold]] void fail(int result) const {
      char text[MPI_MAX_ERROR_STRING] = {};
      int length = 0;
      MPI_Error_string(result, text, &length);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin_;
      throw CollectiveError({.operation = to_string(operation_),
                             .bytes_done = bytes_,
                             .seconds = time.count(),
                             .reason = std::string(text, static_cast<std::size_t>(length))});
    }

    detail::MpiGroup& state_;
    Operation operation_;
    std::uint64_t bytes_ = 0;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  };

  explicit Mpi(std::unique_ptr<detail::MpiGroup> state) noexcept : state_(std::move(state)) {}

  static void check(const CommunicationOptions& options) {
    options.validate();
    const auto refuse = [](bool set, const char* name) {
      if (set)
        throw ConfigurationError(concat(
            {"CommunicationOptions::", name, " is not for Mpi, which has settings of its own"}));
    };
    refuse(options.implementation != CommunicationImplementation::automatic, "implementation");
    refuse(options.bytes_per_pack != 0, "bytes_per_pack");
    refuse(options.wire != Wire::native, "wire");
    refuse(options.error_feedback, "error_feedback");
    refuse(!options.congestion_control.empty(), "congestion_control");
    refuse(options.connections != 0, "connections");
    refuse(detail::TlsSettings::chosen(options, 0).tls != Tls::off, "tls (or LOCKSTEP_TLS)");
  }

  template <class Span, class F>
  static void for_pieces(Span values, F f) {
    for (std::size_t i = 0; i < values.size(); i += most_at_once)
      f(values.subspan(i, std::min(most_at_once, values.size() - i)));
  }

  void reduce(Running& running, NumberSpan values, MPI_Op op) {
    for_pieces(values, [&](NumberSpan piece) {
      running.done(MPI_Allreduce(MPI_IN_PLACE, piece.data(), static_cast<int>(piece.size()),
                                 detail::mpi_type(piece.type()), op, state_->group),
                   piece.size_bytes());
    });
  }

  void broadcast(Running& running, std::span<std::byte> bytes, int root) {
    for_pieces(bytes, [&](std::span<std::byte> piece) {
      running.done(
          MPI_Bcast(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, root, state_->group),
          piece.size());
    });
  }

  std::unique_ptr<detail::MpiGroup> state_;
};

static_assert(CollectivePolicy<Mpi>);

}  // namespace lockstep::inline LOCKSTEP_ABI

#endif
