#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <new>
#include <span>
#include <utility>

#include "lockstep/collectives/policies/detail/shared_homes.hpp"
#include "lockstep/collectives/policies/introduction.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE SharedHomes share_homes(Tcp& tcp, const Rendezvous& rendezvous) {
  struct Introduction {
    SegmentName home;
    std::array<char, 40> machine;
    std::array<char, 200> problem;
  };
  const auto put = [](std::array<char, 200>& text, const std::string& problem) {
    problem.copy(text.data(), text.size() - 1);
  };
  const auto first_problem = [&](const std::vector<Introduction>& all) {
    for (std::size_t r = 0; r < all.size(); ++r)
      if (all[r].problem[0] != 0)
        return concat({tcp.name(static_cast<int>(r)), ": ", all[r].problem.data()});
    return std::string();
  };

  SharedHomes homes{.segments = std::vector<SharedSegment>(static_cast<std::size_t>(tcp.size())),
                    .spins = rendezvous.has_cores_for_all(),
                    .problem = {}};
  Introduction mine{.home = {}, .machine = boot_id(), .problem = {}};
  try {
    auto& own = homes.segments[static_cast<std::size_t>(tcp.rank())];
    own = SharedSegment::create(sizeof(SharedHome), random_cookie());
    ::new (own.data()) SharedHome;
    mine.home = own.name();
  } catch (const Error& error) {
    put(mine.problem, error.what());
  }
  auto all = gather(tcp, mine);
  homes.problem = first_problem(all);
  for (std::size_t r = 1; r < all.size() && homes.problem.empty(); ++r)
    if (all[r].machine != all[0].machine)
      homes.problem =
          concat({tcp.name(static_cast<int>(r)), " runs on another machine than ", tcp.name(0)});
  if (!homes.problem.empty()) return homes;

  try {
    for (int r = 0; r < tcp.size(); ++r)
      if (r != tcp.rank()) {
        const auto i = static_cast<std::size_t>(r);
        homes.segments[i] = SharedSegment::open(all[i].home);
      }
  } catch (const Error& error) {
    put(mine.problem, error.what());
  }
  homes.problem = first_problem(gather(tcp, mine));
  return homes;
}

LOCKSTEP_INLINE bool SharedArrival::has_come() {
  return static_cast<std::int32_t>(home_.arrivals.load(std::memory_order_acquire) - wanted_) >= 0;
}

// The sleeper counts itself before it looks, the other arrives before it counts the sleepers: one
// of the two sees the other.
LOCKSTEP_INLINE void SharedArrival::sleep(std::chrono::milliseconds most) {
  home_.sleepers.fetch_add(1);
  const std::uint32_t seen = home_.arrivals.load();
  if (static_cast<std::int32_t>(seen - wanted_) < 0) {
    const timespec time{.tv_sec = most.count() / 1000, .tv_nsec = most.count() % 1000 * 1'000'000};
    ::syscall(SYS_futex, &home_.arrivals, FUTEX_WAIT, seen, &time, nullptr, 0);
  }
  home_.sleepers.fetch_sub(1);
}

LOCKSTEP_INLINE void SharedArrival::wake(SharedHome& own) noexcept {
  if (own.sleepers.load() > 0)
    ::syscall(SYS_futex, &own.arrivals, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

LOCKSTEP_INLINE SharedArrays::SharedArrays(int rank, int size)
    : rank_(rank), own_(std::make_shared<OwnSegments>()), mapped_(static_cast<std::size_t>(size)) {}

LOCKSTEP_INLINE Buffer SharedArrays::allocate(std::size_t size) {
  if (size == 0) return {};
  using Owner = std::shared_ptr<OwnSegments>;
  auto owner = std::make_unique<Owner>(own_);
  own_->list.push_back(SharedSegment::create(size, random_cookie()));
  const auto release = [](std::byte* data, std::size_t, void* context) {
    const std::unique_ptr<Owner> segments(static_cast<Owner*>(context));
    std::erase_if((*segments)->list,
                  [&](const SharedSegment& segment) { return segment.data() == data; });
  };
  return Buffer(own_->list.back().data(), size, release, owner.release());
}

LOCKSTEP_INLINE void SharedArrays::find_segment(SharedSlot& mine, const void* data) const noexcept {
  const auto* const first = static_cast<const std::byte*>(data);
  for (const SharedSegment& segment : own_->list)
    if (first >= segment.data() && first + mine.call.bytes <= segment.data() + segment.size()) {
      mine.segment = segment.name();
      mine.offset = static_cast<std::uint64_t>(first - segment.data());
    }
}

LOCKSTEP_INLINE std::byte* SharedArrays::mapped(int rank, const SharedSlot& slot) {
  constexpr std::size_t most_segments = 8;
  auto& segments = rank == rank_ ? own_->list : mapped_[static_cast<std::size_t>(rank)];
  const auto known = std::find_if(
      segments.begin(), segments.end(),
      [&](const SharedSegment& segment) { return segment.name().cookie == slot.segment.cookie; });
  if (known != segments.end()) {
    if (rank != rank_) std::rotate(known, known + 1, segments.end());
    return (rank != rank_ ? segments.back() : *known).data() + slot.offset;
  }
  if (segments.size() == most_segments) segments.erase(segments.begin());
  segments.push_back(SharedSegment::open(slot.segment));
  return segments.back().data() + slot.offset;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
