// Workers that are killed at a chosen moment and started again: threads of this process, connected by
// TCP.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "collectives/harness.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"

namespace lockstep_test {

/// Ring<Tcp> of such a worker, which has one replica.
class MortalRing {
 public:
  /// Of this thread's worker: called before it connects (operation 0), and before each operation
  /// (from 1), with the number of the connection (from 1). Where it returns true, the worker is cut
  /// off from the others just when these have what they need of it.
  static inline thread_local std::function<bool(int connection, int operation)> fate;

  /// The process of this thread's worker is killed: its connections are closed without a word.
  [[noreturn]] static void die() {
    ring_.reset();
    throw lockstep::Error("killed", lockstep::ExitCode::lost_peer);
  }
  /// This thread's worker is a process that has just been started.
  static void begin_life() {
    fate = nullptr;
    connection_ = 0;
  }

  static MortalRing connect(const lockstep::Rendezvous& rendezvous,
                            const CommunicationOptions& options) {
    operation_ = 0;
    ++connection_;
    ring_.reset();
    if (fate) (void)fate(connection_, operation_);
    ring_ = std::make_shared<Ring<Tcp>>(Ring<Tcp>::connect(rendezvous, options));
    return MortalRing(ring_->rank(), ring_->size());
  }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  void all_reduce(lockstep::NumberSpan values, lockstep::ReduceOp op = lockstep::ReduceOp::sum) {
    operate([&] { ring_->all_reduce(values, op); });
  }
  void all_reduce(std::span<double> status, lockstep::NumberSpan values) {
    operate([&] { ring_->all_reduce(status, values); });
  }
  void broadcast(std::span<std::byte> bytes, int root) {
    operate([&] { ring_->broadcast(bytes, root); });
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
    operate([&] { ring_->all_gather(mine, all); });
  }
  void barrier() {
    operate([] { ring_->barrier(); });
  }
  void abort(std::string_view reason, lockstep::ExitCode code) noexcept {
    if (ring_ != nullptr) ring_->abort(reason, code);
  }
  void abort(std::string_view reason) noexcept { abort(reason, lockstep::ExitCode::failure); }
  void close() { ring_->close(); }

 private:
  MortalRing(int rank, int size) noexcept : rank_(rank), size_(size) {}

  template <class F>
  void operate(const F& operation) {
    const bool is_cut_off = fate && fate(connection_, ++operation_);
    operation();
    if (is_cut_off)
      throw CollectiveError(
          {.failed_rank = (rank_ + 1) % size_, .reason = "cut off from the others"});
  }

  static inline thread_local std::shared_ptr<Ring<Tcp>> ring_;
  static inline thread_local int connection_ = 0, operation_ = 0;
  int rank_, size_;
};

using MortalStrategy = lockstep::MultiWorkerMirroredStrategy<MortalRing>;

/// Calls life(cluster, start) as each of the workers, and again, as a launcher would, where it is
/// killed or ends with 138.
template <class Life>
void run_mortal_workers(int workers, const Life& life) {
  const auto addresses = free_addresses(workers);
  rethrow_first(run_threads(workers, [&](int worker) {
    lockstep::Cluster cluster;
    cluster.spec.worker = addresses;
    cluster.task.index = worker;
    for (int start = 1;; ++start) try {
        MortalRing::begin_life();
        return life(cluster, start);
      } catch (const lockstep::Error& error) {
        if (error.exit_code() != lockstep::ExitCode::lost_peer || start == 10) throw;
      }
  }));
}

}  // namespace lockstep_test
