// What ranks tell each other when they look for a shorter way than TCP.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/collectives/ring/forward_flow.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/policies/introduction.ipp"
#endif
