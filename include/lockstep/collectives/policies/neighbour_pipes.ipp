#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "lockstep/collectives/host/shared_segment.hpp"
#include "lockstep/collectives/policies/neighbour_pipes.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE NeighbourPipes open_neighbour_pipes(Tcp& tcp, std::string_view host) {
  const int size = tcp.size(), rank = tcp.rank();
  // Of two ranks, each is the other's next one, and that is enough.
  const int sides = size > 2 ? 2 : size - 1;
  const auto neighbour = [&](int side) { return wrap_rank(rank + (side == 0 ? 1 : -1), size); };
  const auto index = [](int r) { return static_cast<std::size_t>(r); };
  // The side on which this rank is for its neighbour.
  const auto facing = [&](int side) { return index(sides == 2 ? 1 - side : side); };

  struct Introduction {
    std::array<char, 40> host{};
    std::array<SegmentName, 2> pipes{};  // to the next rank and to the previous one
  };
  Introduction mine;
  mine.host = boot_id();
  if (!host.empty()) {
    mine.host = {};
    host.copy(mine.host.data(), mine.host.size() - 1);
  }
  struct Ends {
    SharedSegment own, other;
  };
  std::array<Ends, 2> ends;
  try {
    for (int side = 0; side < sides; ++side) {
      ends[index(side)].own = SharedSegment::create(sizeof(PipeMemory), random_cookie());
      ::new (ends[index(side)].own.data()) PipeMemory;
      mine.pipes[index(side)] = ends[index(side)].own.name();
    }
  } catch (const Error&) {  // then not
  }
  const auto all = gather(tcp, mine);

  std::array<char, 2> opened{};
  for (int side = 0; side < sides; ++side) {
    const Introduction& theirs = all[index(neighbour(side))];
    const SegmentName& name = theirs.pipes[facing(side)];
    if (theirs.host != mine.host || mine.pipes[index(side)].size == 0 ||
        name.size != sizeof(PipeMemory))
      continue;
    try {
      ends[index(side)].other = SharedSegment::open(name);
      opened[index(side)] = 1;
    } catch (const Error&) {  // another user's, or in another container
    }
  }
  const auto all_opened = gather(tcp, opened);

  const auto share = [&](int r, std::size_t side, std::size_t other_side) {
    return all_opened[index(r)][side] != 0 &&
           all_opened[index(wrap_rank(r + (side == 0 ? 1 : -1), size))][other_side] != 0;
  };
  for (int side = 0; side < sides; ++side) {
    if (!share(rank, index(side), facing(side))) continue;
    auto& [own, other] = ends[index(side)];
    // What this rank has written can be read, and stays what it is, also when this rank has failed.
    own.disown();
    tcp.attach(neighbour(side), std::make_unique<HostPipe>(std::move(own), std::move(other)));
  }
  NeighbourPipes pipes;
  for (int r = 0; r < (size > 2 ? size : size - 1); ++r) pipes.pairs += share(r, 0, facing(0));
  for (int first = 0; first < size; ++first) {  // of a row, perhaps
    int row = 1;
    while (row < size && share(wrap_rank(first + row - 1, size), 0, facing(0))) ++row;
    pipes.together = std::max(pipes.together, row);
  }
  return pipes;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
