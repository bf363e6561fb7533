#include "lockstep/collectives/ring/ring_flow.hpp"

#include <doctest/doctest.h>

#include <map>
#include <tuple>
#include <vector>

using namespace lockstep;
using namespace lockstep::detail;

TEST_SUITE("ring route") {
  TEST_CASE("what a rank sends is what the next one receives, and what it received before") {
    for (int ranks = 2; ranks <= 8; ++ranks)
      for (int rank = 0; rank < ranks; ++rank) {
        const Partition partition(5 * block_elements, ranks);
        const RingRoute mine(partition, rank, true);
        const RingRoute next(partition, (rank + 1) % ranks, true);
        for (int s = 0; s < mine.segments(); ++s) {
          CHECK(mine.sent_group(s) == next.received_group(s));
          if (s > 0) CHECK(mine.sent_group(s) == mine.received_group(s - 1));
        }
      }
  }

  TEST_CASE(
      "sums start at the group's rank, go on in the order of ranks, and reach everybody complete") {
    for (int ranks = 2; ranks <= 8; ++ranks) {
      const Partition partition(static_cast<std::size_t>(2 * ranks + 1) * block_elements, ranks);
      // The ranks whose values are in each group, as each rank has it.
      std::vector<std::vector<std::vector<int>>> held(static_cast<std::size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank)
        held[static_cast<std::size_t>(rank)].assign(static_cast<std::size_t>(ranks), {rank});
      for (int s = 0; s < RingRoute(partition, 0, false).segments(); ++s) {
        const auto before = held;
        for (int rank = 0; rank < ranks; ++rank) {
          const RingRoute route(partition, rank, false);
          const auto group = static_cast<std::size_t>(route.received_group(s));
          const auto& arrived = before[static_cast<std::size_t>((rank + ranks - 1) % ranks)][group];
          auto& mine = held[static_cast<std::size_t>(rank)][group];
          const bool add = route.is_reduced(s);
          mine = arrived;
          if (add) mine.push_back(rank);
          CHECK(route.is_complete(s) == (mine.size() == static_cast<std::size_t>(ranks)));
        }
      }
      for (const auto& groups : held)
        for (int group = 0; group < ranks; ++group)
          for (int k = 0; k < ranks; ++k)
            CHECK(groups[static_cast<std::size_t>(group)][static_cast<std::size_t>(k)] ==
                  (group + k) % ranks);
    }
  }

  TEST_CASE("every element is in one piece, the status is the first of group 0") {
    for (int ranks = 2; ranks <= 5; ++ranks)
      for (const bool has_status : {false, true})
        for (const std::size_t elements :
             {std::size_t{0}, std::size_t{1}, block_elements, 7 * block_elements + 5}) {
          const RingRoute route(Partition(elements, ranks), 1, has_status);
          std::vector<int> seen(elements);
          for (int group = 0; group < ranks; ++group)
            for (std::size_t piece = 0; piece < route.pieces(group); ++piece) {
              CHECK(route.is_status(group, piece) == (has_status && group == 0 && piece == 0));
              if (route.is_status(group, piece)) continue;
              const Piece range = route.elements(group, piece);
              for (std::size_t i = 0; i < range.count; ++i) ++seen[range.offset + i];
            }
          CHECK(seen == std::vector<int>(elements, 1));
        }
  }

  TEST_CASE("positions pass over segments without pieces") {
    const RingRoute route(Partition(1, 4), 2, false);  // one piece, in group 0
    RingPosition position;
    position.skip_empty(route, true);
    int visited = 0;
    for (; position.segment < route.segments(); position.next_piece(route, true)) {
      CHECK(route.sent_group(position.segment) == 0);
      ++visited;
    }
    // It passes rank 2 in the second step; the rank that completed the sum is the last to get it.
    CHECK(visited == 1);
  }
}
