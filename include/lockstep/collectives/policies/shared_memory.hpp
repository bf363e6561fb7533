// The collective between the processes of one machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/collective_call.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/detail/shared_homes.hpp"
#include "lockstep/collectives/reduction/reduce_share.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A CollectivePolicy for ranks that are processes of one machine, of one user, and in one process
/// namespace (not in containers of their own). Every rank has a **home** in shared memory: a
/// counter of its arrivals, a description of the operation that it is in, and two staging areas
/// that take turns. To **arrive** is to count up and to wait until all others have.
///
/// - Short arrays are put into the staging area; after one arrival every rank sums all of them.
/// - Long arrays in memory from allocate() are summed in place: each rank does its share for all,
///   reading and writing the others' arrays.
/// - Other long arrays go through the staging areas, part by part.
///
/// Before a rank gives its share to all, it may do more with the sums (reduce_scatter_all_gather):
/// that is done once, not on every rank.
///
/// Sums are those of Ring, to the last bit. Nothing of this memory has a name, so that nothing is
/// left behind, also after kill -9.
///
/// Start-up, failure and end are Tcp's: the connections stay open, and a wait in shared memory
/// looks at them. `options.wire`, `bytes_per_pack` and `implementation` mean nothing here.
///
/// One thread calls it at a time, though not always the same; abort() may come from any thread.
class SharedMemory final : public AnyCollective {
 public:
  /// As CollectivePolicy demands. Throws ConfigurationError, on all ranks, when their memory cannot
  /// be shared, with the reason.
  [[nodiscard]] static SharedMemory connect(Rendezvous rendezvous,
                                            const CommunicationOptions& options);

  /// Over a connected transport, where share_homes() found no problem.
  SharedMemory(Tcp tcp, detail::SharedHomes homes);

  /// Memory that is summed in place. It may outlive this object.
  [[nodiscard]] Buffer allocate(std::size_t size) override { return shared_.allocate(size); }

  void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum) override {
    reduce(Operation::all_reduce, op, {}, values, nullptr);
  }
  void all_reduce(std::span<double> status, NumberSpan values) override {
    reduce(Operation::all_reduce, ReduceOp::sum, status, values, nullptr);
  }

  /// See SharingCollective. Each rank does one range, unless the array is short.
  void reduce_scatter_all_gather(std::span<double> status, NumberSpan values, UseSums f) override {
    reduce(Operation::reduce_scatter_all_gather, ReduceOp::sum, status, values, &f);
  }

  /// See ShardingCollective. In memory from allocate(), a rank reads what it sums, and what it
  /// gathers, where the others have it.
  LOCKSTEP_INLINE_VIRTUAL void reduce_scatter_blocks(NumberSpan values) override;
  LOCKSTEP_INLINE_VIRTUAL void all_gather_blocks(NumberSpan values) override;

  LOCKSTEP_INLINE_VIRTUAL void broadcast(std::span<std::byte> bytes, int root) override;
  LOCKSTEP_INLINE_VIRTUAL void all_gather(std::span<const std::byte> mine,
                                          std::span<std::byte> all) override;
  LOCKSTEP_INLINE_VIRTUAL void barrier() override;

  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept override {
    tcp_.abort(reason, code);
  }
  [[nodiscard]] ActivityBoard* board() override { return &tcp_.activity(); }
  void close() override { tcp_.close(); }

 private:
  using Slot = detail::SharedSlot;
  static constexpr std::size_t staging_bytes = detail::SharedHome::staging_bytes;
  static constexpr std::size_t short_bytes = std::size_t{64} << 10;  // of all ranks; measured

  // What a rank writes before arrival k, the others read after it and before their arrival k + 1;
  // it is written again before arrival k + 2, when all have come to arrival k + 1. So two areas do,
  // and the parity of k picks one.
  [[nodiscard]] std::byte* next_staging() const noexcept {
    return homes_[rank()].staging[(arrivals_ + 1) % 2].data();
  }
  [[nodiscard]] std::byte* staging(int rank) const noexcept {
    return homes_[rank].staging[arrivals_ % 2].data();
  }

  // Names the operation, for enter().
  Slot& begin(const detail::CollectiveCall& call);
  // Arrives, with what begin() and the caller wrote. Throws, on all ranks, when they have come with
  // different operations.
  void enter();
  void arrive();
  void await(int other);

  // After an arrival: where the arrays of all ranks are, if all are in such memory; else nothing.
  void find_arrays();

  // Rank by rank parts of `bytes` that fit into the staging area: write(offset, count, area)
  // before, read(offset, count) after an arrival.
  void in_parts(std::size_t bytes, FunctionRef<void(std::size_t, std::size_t, std::byte*)> write,
                FunctionRef<void(std::size_t, std::size_t)> read);

  // Gives all ranks the sums, or what f makes of them.
  void reduce(Operation operation, ReduceOp op, std::span<double> status, NumberSpan values,
              const UseSums* f);
  void reduce_short(ReduceOp op, std::span<double> status, NumberSpan values, const UseSums* f);
  void gather_staged(NumberSpan values);
  void reduce_staged(ReduceOp op, std::span<double> status, NumberSpan values, const UseSums* f);
  // This rank's share of elements [begin, begin + count).
  void reduce_share(const detail::Combination& how, std::span<const double> status,
                    std::size_t begin, std::size_t count, detail::RankArrays arrays,
                    const UseSums* f) const;

  Tcp tcp_;
  detail::SharedHomes homes_;
  std::uint32_t arrivals_ = 0;
  detail::SharedArrays shared_;
  std::vector<std::byte*> arrays_;  // of the operation, by rank
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/policies/shared_memory.ipp"
#endif
