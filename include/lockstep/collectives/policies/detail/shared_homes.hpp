// The homes of ranks in shared memory: how they come to be seen by all, and how one waits there.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/collectives/collective_call.hpp"
#include "lockstep/collectives/host/shared_segment.hpp"
#include "lockstep/collectives/policies/introduction.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

/// What a rank has allocated for its collectives, and what it has mapped of the others'.
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/policies/detail/shared_homes.ipp"
#endif
