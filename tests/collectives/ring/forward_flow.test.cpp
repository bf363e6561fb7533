#include "lockstep/collectives/ring/forward_flow.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace lockstep;
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
