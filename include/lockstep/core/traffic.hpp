// How much this process exchanges with other workers.
#pragma once

#include <atomic>
#include <cstdint>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Bytes of messages, without their frames.
struct Traffic {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

namespace detail {

inline std::atomic<std::uint64_t> traffic_sent = 0, traffic_received = 0;

inline void count_traffic(std::uint64_t sent, std::uint64_t received) noexcept {
  traffic_sent.fetch_add(sent, std::memory_order_relaxed);
  traffic_received.fetch_add(received, std::memory_order_relaxed);
}

}  // namespace detail

/// Since the program began, over TCP and over what takes its place between neighbours on one
/// machine. What SharedMemory sums in place does not travel, and MPI does not say. Any thread may
/// call it.
[[nodiscard]] inline Traffic traffic() noexcept {
  return {detail::traffic_sent.load(std::memory_order_relaxed),
          detail::traffic_received.load(std::memory_order_relaxed)};
}

}}  // namespace lockstep
