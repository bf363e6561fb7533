// The collective of an MPI library, and the cluster that its launcher has started. This header is
// empty in programs that do not link the CMake target lockstep::mpi.
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
#include <vector>

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/mpi/watchdog.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
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
          "MPI_THREAD_SERIALIZED, or leave it to lockstep, and use an MPI library that was built "
          "with threads");
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

namespace detail {

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
      log_line(concat({"worker ", rank, " ends the job: ", what, has_no_progress(limit)}));
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

}  // namespace detail

/// A CollectivePolicy over MPI: the way onto InfiniBand and onto supercomputers.
///
///     mpirun -n 4 ./trainer
///
/// with `MultiWorkerMirroredStrategy<Mpi> strategy(mpi_cluster())` in the program, or with
/// a TF_CONFIG that says the same as mpirun.
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
class Mpi final : public AnyCollective {
 public:
  /// Throws ConfigurationError when MPI has another place for this process than the rendezvous,
  /// when ranks differ in a property, and for options that only MPI itself can follow.
  [[nodiscard]] static Mpi connect(const Rendezvous& rendezvous,
                                   const CommunicationOptions& options) {
    check(options);
    detail::MpiEnvironment::need();
    return Mpi(std::make_unique<detail::MpiGroup>(rendezvous, options));
  }

  void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum) override {
    Running running(*state_, Operation::all_reduce);
    reduce(running, values, op == ReduceOp::sum ? MPI_SUM : state_->maximum(values.type()));
  }

  void all_reduce(std::span<double> status, NumberSpan values) override {
    Running running(*state_, Operation::all_reduce);
    reduce(running, status, MPI_SUM);
    reduce(running, values, MPI_SUM);
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    detail::check_root(root, size());
    Running running(*state_, Operation::broadcast);
    broadcast(running, bytes, root);
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
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

  void barrier() override {
    Running running(*state_, Operation::barrier);
    running.done(MPI_Barrier(state_->group), 0);
  }

  /// Ends all processes of the job, this one included, with exit code `code`.
  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept override {
    try {
      log_line(concat({"worker ", rank(), " ends the job: ", reason}));
    } catch (...) {  // out of memory
    }
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  }

  /// The orderly end: returns when all ranks have called it, or after `options.progress_timeout`
  /// with a line on stderr.
  void close() override {
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(state_->group, &request) != MPI_SUCCESS) return;
    const auto end = std::chrono::steady_clock::now() + state_->timeout;
    for (int all_have_come = 0;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      if (MPI_Test(&request, &all_have_come, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
      if (all_have_come != 0) break;
      if (std::chrono::steady_clock::now() > end)
        return log_line(concat({"worker ", rank(), ": ", detail::not_all_ended(state_->timeout)}));
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

  explicit Mpi(std::unique_ptr<detail::MpiGroup> state) noexcept
      : AnyCollective(state->rank, state->size, {}), state_(std::move(state)) {}

  static void check(const CommunicationOptions& options) {
    options.validate();
    const auto refuse = [](bool set, const char* name) {
      if (set)
        throw ConfigurationError(concat({"CommunicationOptions::", name,
                                         " is not for Mpi: take the settings of the MPI library"}));
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

/// The job that an MPI launcher has started (`mpirun -n 4 trainer`, or that of a supercomputer):
/// each process is a worker, and TF_CONFIG does not count. A process without a launcher is alone.
/// @code
/// MultiWorkerMirroredStrategy<Mpi> strategy(mpi_cluster());
/// @endcode
/// All processes must call this, each on one thread. The hosts are MPI's names of the machines; no
/// process listens on the ports.
[[nodiscard]] inline Cluster mpi_cluster() {
  const MpiPlace place = MpiPlace::get();
  Cluster cluster;
  if (place.size == 1) return cluster;
  cluster.task.index = place.rank;
  for (std::size_t rank = 0; rank < place.hosts.size(); ++rank)
    cluster.spec.worker.push_back(concat({place.hosts[rank], ":", rank % 65535 + 1}));
  return cluster;
}

}}  // namespace lockstep

#endif
