// The collective between the processes of one machine.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/collectives/argument_checks.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/host/shared_segment.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/reduction/reduce_share.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A CollectivePolicy for ranks that are processes of one machine, of one user, and in one process namespace (not in containers of
/// their own). Every rank has a **home** in shared memory: a counter of its arrivals, a description of the operation that it is in,
/// and two staging areas that take turns. To **arrive** is to count up and to wait until all others have.
///
/// - Short arrays are put into the staging area; after one arrival everybody sums all of them.
/// - Long arrays in memory from allocate() are summed in place: each rank does its share for all, reading and writing the others' arrays.
/// - Other long arrays go through the staging areas, part by part.
///
/// Before a rank gives its share to all, it may do more with the sums (reduce_scatter_all_gather): that is done once, not by everybody.
///
/// Sums are those of Ring, to the last bit. Nothing of this memory has a name, so that nothing is left behind, also after kill -9.
///
/// Start-up, failure and end are Tcp's: the connections stay open, and a wait in shared memory looks at them. `options.wire`,
/// `bytes_per_pack` and `implementation` mean nothing here.
///
/// One thread calls it at a time, though not always the same; abort() may come from any thread.
class SharedMemory {
 public:
  /// As CollectivePolicy demands. Throws ConfigurationError, on all ranks, when their memory cannot be shared, with the reason.
  [[nodiscard]] static SharedMemory connect(Rendezvous rendezvous, const CommunicationOptions& options);

  /// Every rank's home, by rank, and which ranks may spin.
  struct Homes {
    std::vector<detail::SharedSegment> segments;
    bool spins = false;
    std::string problem;  ///< why they cannot be shared, the same on all ranks; empty when they can
  };
  /// Called by all ranks of a connected transport.
  [[nodiscard]] static Homes share_homes(Tcp& tcp, const Rendezvous& rendezvous);

  SharedMemory(Tcp tcp, Homes homes);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// Memory that is summed in place. It may outlive this object.
  [[nodiscard]] Buffer allocate(std::size_t size);

  template <Reducible T>
  void all_reduce(std::span<T> values, ReduceOp op = ReduceOp::sum) {
    if (op == ReduceOp::max)
      reduce<ReduceOp::max, T>(Operation::all_reduce, {}, values, Sums{});
    else
      reduce<ReduceOp::sum, T>(Operation::all_reduce, {}, values, Sums{});
  }
  template <Reducible T>
  void all_reduce(std::span<double> status, std::span<T> values) {
    reduce<ReduceOp::sum, T>(Operation::all_reduce, status, values, Sums{});
  }

  [[nodiscard]] bool shares_memory() const noexcept { return true; }

  /// See Collective. Each rank does one range, unless the array is short.
  template <Reducible T, class F>
  void reduce_scatter_all_gather(std::span<double> status, std::span<T> values, F f) {
    alignas(cache_line) T results[detail::piece_elements];
    const auto finish = [&](std::size_t offset, const T* sums, std::size_t count) {
      f(std::span<const double>(status), offset, std::span(sums, count), std::span(results, count));
      return static_cast<const T*>(results);
    };
    reduce<ReduceOp::sum, T>(Operation::reduce_scatter_all_gather, status, values, finish);
  }

  void broadcast(std::span<std::byte> bytes, int root);
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all);
  void barrier();

  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept { tcp_.abort(reason, code); }
  /// See Collective.
  [[nodiscard]] ActivityBoard& activity() noexcept { return tcp_.activity(); }
  void close() { tcp_.close(); }

 private:
  static constexpr std::size_t staging_bytes = std::size_t{1} << 20;
  static constexpr std::size_t short_bytes = std::size_t{64} << 10;  // of all ranks; measured

  // The operation that a rank is in.
  struct Slot {
    Operation operation = Operation::none;
    char type = 0;
    ReduceOp op = ReduceOp::sum;
    std::int32_t root = 0;
    std::uint32_t arrival = 0;
    std::uint64_t bytes = 0;
    std::uint64_t status_bytes = 0;
    // Where the array is, if it is in memory from allocate().
    detail::SegmentName segment;
    std::uint64_t offset = 0;

    [[nodiscard]] bool agrees(const Slot& other) const noexcept {
      return operation == other.operation && type == other.type && op == other.op && root == other.root &&
             arrival == other.arrival && bytes == other.bytes && status_bytes == other.status_bytes;
    }
    [[nodiscard]] std::string text() const;
  };

  struct Home {
    alignas(cache_line) std::atomic<std::uint32_t> arrivals;
    alignas(cache_line) std::atomic<std::uint32_t> sleepers;  // that wait for it
    alignas(cache_line) std::array<Slot, 2> slots;
    alignas(cache_line) std::array<std::array<std::byte, staging_bytes>, 2> staging;
  };
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

  struct OwnSegments;  // what allocate() has made
  struct Arrival;
  struct ASecond;

  [[nodiscard]] Home& home(int rank) const noexcept {
    return *reinterpret_cast<Home*>(homes_.segments[static_cast<std::size_t>(rank)].data());
  }

  // What a rank writes before arrival k, the others read after it and before their arrival k + 1; it is written again before
  // arrival k + 2, when all have come to arrival k + 1. So two areas do, and the parity of k picks one.
  [[nodiscard]] std::byte* next_staging() const noexcept { return home(rank_).staging[(arrivals_ + 1) % 2].data(); }
  [[nodiscard]] std::byte* staging(int rank) const noexcept { return home(rank).staging[arrivals_ % 2].data(); }
  template <class T>
  [[nodiscard]] auto staged(std::size_t offset = 0) const noexcept {
    return [this, offset](int r) { return reinterpret_cast<T*>(staging(r) + offset); };
  }

  // Names the operation, for enter().
  Slot& begin(Operation operation, std::size_t bytes);
  // Arrives, with what begin() and the caller wrote. Throws, on all ranks, when they have come with different operations.
  void enter();
  void arrive();
  void await(int other);

  // Says in the slot where in memory from allocate() the array is, if it is there.
  void find_segment(Slot& mine, const void* data) const noexcept;
  // After an arrival: where everybody's arrays are, if all are in such memory; else nothing.
  void find_arrays();
  [[nodiscard]] std::byte* mapped(int rank, const Slot& slot);

  // Rank by rank parts of `bytes` that fit into the staging area: write(offset, count, area) before, read(offset, count) after
  // an arrival.
  template <class Write, class Read>
  void in_parts(std::size_t bytes, Write write, Read read) {
    for (std::size_t offset = 0; offset == 0 || offset < bytes; offset += staging_bytes) {
      const std::size_t count = std::min(staging_bytes, bytes - offset);
      write(offset, count, next_staging());
      offset == 0 ? enter() : arrive();
      read(offset, count);
    }
  }

  // What all_reduce gives to all: finish(offset, sums, count) says where the elements are that take the place of these sums.
  struct Sums {
    template <class T>
    const T* operator()(std::size_t, const T* sums, std::size_t) const noexcept {
      return sums;
    }
  };

  template <ReduceOp op, Reducible T, class Finish>
  void reduce(Operation operation, std::span<double> status, std::span<T> values, Finish finish) {
    if (size_ == 1) return finish_all(values, finish);
    Slot& mine = begin(operation, values.size_bytes());
    mine.type = std::is_same_v<T, float> ? 'f' : std::is_same_v<T, double> ? 'd' : 'i';
    mine.op = op;
    mine.status_bytes = status.size_bytes();
    const std::size_t bytes = status.size_bytes() + values.size_bytes();
    if (bytes * static_cast<std::size_t>(size_) <= short_bytes) return reduce_short<op>(status, values, finish);

    find_segment(mine, values.data());
    in_parts(
        status.size_bytes(),
        [&](std::size_t offset, std::size_t count, std::byte* area) {
          if (count > 0) std::memcpy(area, std::as_bytes(status).data() + offset, count);
        },
        [&](std::size_t offset, std::size_t count) {
          detail::combine_ranks<op>(status.data() + offset / sizeof(double), 0, size_, count / sizeof(double),
                                    staged<const double>());
        });
    if (arrays_.empty()) return reduce_staged<op>(values, finish);
    reduce_share<op, T>(
        0, values.size(), [&](int r) { return reinterpret_cast<T*>(arrays_[static_cast<std::size_t>(r)]); }, finish);
    arrive();
  }

  template <ReduceOp op, Reducible T, class Finish>
  void reduce_short(std::span<double> status, std::span<T> values, Finish finish) {
    if (!status.empty()) std::memcpy(next_staging(), status.data(), status.size_bytes());
    if (!values.empty()) std::memcpy(next_staging() + status.size_bytes(), values.data(), values.size_bytes());
    enter();
    detail::combine_ranks<op>(status.data(), 0, size_, status.size(), staged<const double>());
    detail::combine_range<op>(values.data(), 0, values.size(), size_, staged<const T>(status.size_bytes()));
    finish_all(values, finish);
  }

  template <Reducible T, class Finish>
  static void finish_all(std::span<T> values, Finish finish) {
    for (std::size_t i = 0; i < values.size(); i += detail::piece_elements) {
      const auto sums = values.subspan(i, std::min(detail::piece_elements, values.size() - i));
      const T* const results = finish(i, static_cast<const T*>(sums.data()), sums.size());
      if (results != sums.data()) std::memcpy(sums.data(), results, sums.size_bytes());
    }
  }

  template <ReduceOp op, Reducible T, class Finish>
  void reduce_staged(std::span<T> values, Finish finish) {
    constexpr std::size_t part = staging_bytes / sizeof(T);
    for (std::size_t offset = 0; offset < values.size(); offset += part) {
      const auto own = values.subspan(offset, std::min(part, values.size() - offset));
      std::memcpy(next_staging(), own.data(), own.size_bytes());
      arrive();
      const std::byte* const results = staging(rank_);
      reduce_share<op, T>(offset, own.size(), staged<T>(), finish);
      arrive();
      std::memcpy(own.data(), results, own.size_bytes());
    }
  }

  // Combines this rank's share, finishes it, and gives it to all.
  template <ReduceOp op, Reducible T, class Data, class Finish>
  void reduce_share(std::size_t begin, std::size_t count, Data data, Finish finish) {
    if constexpr (std::is_same_v<Finish, Sums>)
      return detail::reduce_share_for_all<op, T>(rank_, size_, begin, count, data);
    detail::reduce_share<op, T>(
        rank_, size_, begin, count, [&](int r) { return static_cast<const T*>(data(r)); },
        [&](std::size_t offset, const T* sums, std::size_t n) {
          const T* const results = finish(begin + offset, sums, n);
          for (int r = 0; r < size_; ++r) std::memcpy(data(r) + offset, results, n * sizeof(T));
        });
  }

  Tcp tcp_;
  int rank_;
  int size_;
  Homes homes_;
  std::uint32_t arrivals_ = 0;
  std::shared_ptr<OwnSegments> own_;
  std::vector<std::vector<detail::SharedSegment>> mapped_;  // of other ranks, those used last at the end
  std::vector<std::byte*> arrays_;                          // of the operation, by rank
};

static_assert(CollectivePolicy<SharedMemory>);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/collectives/policies/shared_memory.ipp"
#endif
