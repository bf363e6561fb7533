#include "lockstep/collectives/ring/ring_flow.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "collectives/harness.hpp"

using namespace lockstep;
using namespace lockstep_test;
using detail::RingFlow;
using detail::RingStaging;

namespace {

/// Moves bytes from each rank to the next one, at most `portion` at once, until nothing moves any
/// more.
void run_ring(const std::vector<std::unique_ptr<RingFlow>>& flows, std::size_t portion) {
  std::vector<std::uint64_t> sent(flows.size());
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t rank = 0; rank < flows.size(); ++rank) {
      RingFlow& next = *flows[(rank + 1) % flows.size()];
      const auto out = flows[rank]->outgoing();
      const auto in = next.incoming();
      CHECK(out.size() <= flows[rank]->rest_of_part_to_send());
      CHECK(in.size() <= next.rest_of_part_to_receive());
      CHECK(flows[rank]->rest_of_part_to_send() == next.rest_of_part_to_receive());
      const std::size_t bytes = std::min({out.size(), in.size(), portion});
      if (bytes == 0) continue;
      std::copy_n(out.begin(), bytes, in.begin());
      flows[rank]->sent(bytes);
      next.received(bytes);
      sent[rank] += bytes;
      moves = true;
    }
  }
  for (std::size_t rank = 0; rank < flows.size(); ++rank) {
    CHECK(sent[rank] == flows[rank]->bytes_to_send());
    CHECK(sent[rank] == flows[(rank + 1) % flows.size()]->bytes_to_receive());
  }
}

template <class T>
std::vector<std::vector<T>> reduced(std::vector<std::vector<T>> arrays, ReduceOp op,
                                    std::vector<double>& statuses, std::size_t pack_bytes) {
  const auto ranks = static_cast<int>(arrays.size());
  std::vector<RingStaging> staging(arrays.size());
  std::vector<std::unique_ptr<RingFlow>> flows;
  for (std::size_t rank = 0; rank < arrays.size(); ++rank)
    flows.push_back(std::make_unique<RingFlow>(staging[rank], pack_bytes, static_cast<int>(rank),
                                               ranks, std::span(&statuses[rank], 1),
                                               std::span(arrays[rank]), op));
  run_ring(flows, 50'000);
  return arrays;
}

}  // namespace

TEST_CASE_TEMPLATE("RingFlow: sums of each type are those of the numerics contract, on all ranks",
                   T, float, double, std::int64_t) {
  for (const int ranks : {2, 3, 4})
    for (const std::size_t count : {std::size_t{0}, std::size_t{5}, 3 * block_elements + 17}) {
      CAPTURE(ranks);
      CAPTURE(count);
      std::vector<std::vector<T>> arrays;
      for (int rank = 0; rank < ranks; ++rank) {
        arrays.push_back(random_numbers<T>(rank, count));
        for (T& value : arrays.back()) value = value * T(100);  // also whole numbers differ
      }
      std::vector<double> statuses(arrays.size(), 1.0);
      const auto expected = contract_sum(arrays);
      for (const auto& result : reduced(arrays, ReduceOp::sum, statuses, 4096))
        CHECK(result == expected);
      CHECK(statuses == std::vector<double>(arrays.size(), ranks));
    }
}

TEST_CASE_TEMPLATE("RingFlow: maxima of each type", T, float, double, std::int64_t) {
  const std::vector<std::vector<T>> arrays{{1, 5, -2}, {3, 4, -1}, {2, 2, -3}};
  std::vector<double> statuses{1, 3, 2};
  for (const auto& result : reduced(arrays, ReduceOp::max, statuses, 64))
    CHECK(result == std::vector<T>{3, 5, -1});
  CHECK(statuses == std::vector<double>(3, 3.0));
}

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

using detail::ForwardFlow;

namespace {

using Bytes = std::vector<std::byte>;

Bytes numbered(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(1 + i % 255);
  return bytes;
}

/// Moves bytes from each rank to the next one, at most `portion` at once, until nothing moves any
/// more. (An end of the loop before all has arrived is a flow that waits for what never comes.)
void run_ring(std::vector<ForwardFlow>& flows, std::size_t portion) {
  std::vector<std::uint64_t> sent(flows.size()), received(flows.size());
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t rank = 0; rank < flows.size(); ++rank) {
      const std::size_t next = (rank + 1) % flows.size();
      const auto out = flows[rank].outgoing();
      const auto in = flows[next].incoming();
      const std::size_t bytes = std::min({out.size(), in.size(), portion});
      if (bytes == 0) continue;
      std::copy_n(out.begin(), bytes, in.begin());
      flows[rank].sent(bytes);
      flows[next].received(bytes);
      sent[rank] += bytes;
      received[next] += bytes;
      moves = true;
    }
  }
  for (std::size_t rank = 0; rank < flows.size(); ++rank) {
    CHECK(sent[rank] == flows[rank].bytes_to_send());
    CHECK(received[rank] == flows[rank].bytes_to_receive());
    CHECK(flows[rank].outgoing().empty());
    CHECK(flows[rank].incoming().empty());
  }
}

}  // namespace

TEST_CASE("ForwardFlow: all_gather brings every slice to every rank, and moves none twice") {
  for (const int ranks : {1, 2, 3, 5})
    for (const std::size_t slice : {std::size_t{1}, std::size_t{7}, std::size_t{64}})
      for (const std::size_t portion : {std::size_t{1}, std::size_t{5}, std::size_t{1000}}) {
        CAPTURE(ranks);
        CAPTURE(slice);
        CAPTURE(portion);
        const Bytes expected = numbered(slice * static_cast<std::size_t>(ranks));
        std::vector<Bytes> arrays(static_cast<std::size_t>(ranks), Bytes(expected.size()));
        std::vector<ForwardFlow> flows;
        for (int rank = 0; rank < ranks; ++rank) {
          Bytes& mine = arrays[static_cast<std::size_t>(rank)];
          const auto at = static_cast<std::ptrdiff_t>(slice) * rank;
          std::copy_n(expected.begin() + at, slice, mine.begin() + at);
          flows.push_back(ForwardFlow::all_gather(mine, rank, ranks));
          CHECK(flows.back().bytes_to_send() == expected.size() - slice);
          CHECK(flows.back().bytes_to_receive() == expected.size() - slice);
        }
        run_ring(flows, portion);
        for (const Bytes& array : arrays) CHECK(array == expected);
      }
}

TEST_CASE(
    "ForwardFlow: broadcast brings the root's bytes to all, and the ring ends before the root") {
  for (const int ranks : {1, 2, 4, 5})
    for (int root = 0; root < ranks; ++root)
      for (const std::size_t portion : {std::size_t{1}, std::size_t{100}}) {
        CAPTURE(ranks);
        CAPTURE(root);
        CAPTURE(portion);
        const Bytes expected = numbered(33);
        std::vector<Bytes> arrays(static_cast<std::size_t>(ranks), Bytes(expected.size()));
        arrays[static_cast<std::size_t>(root)] = expected;
        std::vector<ForwardFlow> flows;
        for (int rank = 0; rank < ranks; ++rank)
          flows.push_back(
              ForwardFlow::broadcast(arrays[static_cast<std::size_t>(rank)], rank, root, ranks));
        CHECK(flows[static_cast<std::size_t>(root)].bytes_to_receive() == 0);
        CHECK(flows[static_cast<std::size_t>((root + ranks - 1) % ranks)].bytes_to_send() == 0);
        run_ring(flows, portion);
        for (const Bytes& array : arrays) CHECK(array == expected);
      }
}

TEST_CASE("ForwardFlow: nothing to move, nothing to send") {
  for (int rank = 0; rank < 3; ++rank)
    for (ForwardFlow flow :
         {ForwardFlow::all_gather({}, rank, 3), ForwardFlow::broadcast({}, rank, 0, 3)}) {
      CHECK(flow.bytes_to_send() == 0);
      CHECK(flow.bytes_to_receive() == 0);
      CHECK(flow.outgoing().empty());
      CHECK(flow.incoming().empty());
    }
}
