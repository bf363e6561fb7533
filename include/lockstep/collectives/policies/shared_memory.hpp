// Memory that ranks share: the collective between processes of one machine, pipes of neighbours.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/host/shared_segment.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring/ring_flow.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Tells a segment of shared memory from all others.
[[nodiscard]] std::uint64_t random_cookie();

/// Differs between two machines, and between two boots of one.
[[nodiscard]] std::array<char, 40> boot_id();

/// Every rank's `mine`, by rank.
template <class T>
std::vector<T> gather(Tcp& tcp, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(tcp.size()));
  all[static_cast<std::size_t>(tcp.rank())] = mine;
  tcp.begin(Operation::all_gather);
  auto flow =
      ForwardFlow::all_gather(std::as_writable_bytes(std::span(all)), tcp.rank(), tcp.size());
  if (tcp.size() > 1)
    tcp.transfer(wrap_rank(tcp.rank() + 1, tcp.size()), wrap_rank(tcp.rank() - 1, tcp.size()),
                 flow);
  return all;
}

/// The operation that a rank is in.
struct SharedSlot {
  CollectiveCall call;
  std::uint32_t arrival = 0;
  /// Where the array is, if it is in memory from allocate().
  SegmentName segment;
  std::uint64_t offset = 0;
};

/// What each rank has in memory that all ranks see.
struct SharedHome {
  static constexpr std::size_t staging_bytes = std::size_t{1} << 20;

  alignas(cache_line) std::atomic<std::uint32_t> arrivals;
  alignas(cache_line) std::atomic<std::uint32_t> sleepers;  // that wait for it
  alignas(cache_line) std::array<SharedSlot, 2> slots;
  alignas(cache_line) std::array<std::array<std::byte, staging_bytes>, 2> staging;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// Every rank's home, by rank, and whether ranks may spin.
struct SharedHomes {
  std::vector<SharedSegment> segments{};
  bool spins = false;
  std::string problem{};  ///< why they cannot be shared, the same on all ranks; empty when they can

  [[nodiscard]] SharedHome& operator[](int rank) const noexcept {
    return *reinterpret_cast<SharedHome*>(segments[static_cast<std::size_t>(rank)].data());
  }
};

/// Called by all ranks of a connected transport.
[[nodiscard]] SharedHomes share_homes(Tcp& tcp, const Rendezvous& rendezvous);

/// Another rank's arrival.
class SharedArrival final : public ExternalEvent {
 public:
  SharedArrival(SharedHome& other, std::uint32_t number) : home_(other), wanted_(number) {}

  [[nodiscard]] LOCKSTEP_INLINE_VIRTUAL bool has_come() override;
  LOCKSTEP_INLINE_VIRTUAL void sleep(std::chrono::milliseconds most) override;
  /// For the rank whose home it is: those that sleep until it comes wake up.
  static void wake(SharedHome& own) noexcept;

 private:
  SharedHome& home_;
  const std::uint32_t wanted_;
};

/// The arrays that a rank has allocated for its collectives, and those of other ranks that it has
/// mapped.
class SharedArrays {
 public:
  SharedArrays(int rank, int size);

  /// It may outlive this object.
  [[nodiscard]] Buffer allocate(std::size_t size);
  /// Says in the slot of this rank where in such memory the array is, if it is there.
  void find_segment(SharedSlot& mine, const void* data) const noexcept;
  /// Where the array of `rank` is that its slot names. Throws Error.
  [[nodiscard]] std::byte* mapped(int rank, const SharedSlot& slot);

 private:
  struct OwnSegments {
    std::vector<SharedSegment> list{};
  };

  const int rank_;
  std::shared_ptr<OwnSegments> own_;
  std::vector<std::vector<SharedSegment>> mapped_;  // by rank, the last used at the end
};

}  // namespace detail

/// A CollectivePolicy for ranks that are processes of one machine, of one user, and in one process
/// namespace (not in separate containers). Every rank has a **home** in shared memory: a
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

  /// Each rank does one range, unless the array is short.
  void reduce_scatter_all_gather(std::span<double> status, NumberSpan values, UseSums f) override {
    reduce(Operation::reduce_scatter_all_gather, ReduceOp::sum, status, values, &f);
  }

  /// In memory from allocate(), a rank reads what it sums, and what it
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

namespace detail {

/// The neighbours in a ring that share memory. The same on all ranks.
struct NeighbourPipes {
  int pairs = 0;
  int together = 1;  ///< ranks in the longest row of such pairs
};

/// Called by all ranks of a connected transport: ranks next to each other on the ring that can
/// share memory do so from then on, instead of sending their data over TCP. `host`: ranks with
/// different ones do not try; empty: this machine, as the kernel names it.
NeighbourPipes open_neighbour_pipes(Tcp& tcp, std::string_view host = {});

}  // namespace detail

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/policies/shared_memory.ipp"
#endif
