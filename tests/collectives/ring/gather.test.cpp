#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/collectives/ring/ring.hpp"

using namespace lockstep;
using detail::GatheredMessages;

namespace {

using Bytes = std::vector<std::byte>;

Bytes message_of_rank(int rank, std::size_t bytes) {
  Bytes message(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    message[i] = static_cast<std::byte>(1 + 17 * static_cast<std::size_t>(rank) + i);
  return message;
}

/// The other ranks, as one of them sees them: in each round it is sent what the scheme says that
/// they hold by then.
class Others {
 public:
  Others(std::size_t bytes, int rank, int ranks) : bytes_(bytes), rank_(rank), ranks_(ranks) {}

  void operator()(int to, int from, Flow& flow) {
    rounds.emplace_back(to, from);
    CHECK(flow.bytes_to_send() == flow.bytes_to_receive());  // all ranks move as much in a round
    const std::size_t moved = flow.outgoing().size();
    CHECK(moved == flow.bytes_to_send());
    const Bytes mine = slots(rank_, moved);
    CHECK(std::equal(mine.begin(), mine.end(), flow.outgoing().begin()));
    const Bytes theirs = slots(from, moved);
    std::copy(theirs.begin(), theirs.end(), flow.incoming().begin());
  }

  std::vector<std::pair<int, int>> rounds;  ///< to, from

 private:
  /// The messages of rank, rank + 1, ..., each at a multiple of 64 bytes.
  [[nodiscard]] Bytes slots(int rank, std::size_t size) const {
    Bytes bytes(size);
    for (std::size_t at = 0; at < size; at += (bytes_ + 63) / 64 * 64, ++rank) {
      const Bytes message = message_of_rank(rank % ranks_, bytes_);
      REQUIRE(at + bytes_ <= size);
      std::copy(message.begin(), message.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return bytes;
  }

  std::size_t bytes_;
  int rank_, ranks_;
};

/// The other one of two ranks, which has a status and an array.
class OtherOfTwo {
 public:
  OtherOfTwo(int rank, const std::vector<double>& status, const std::vector<float>& values)
      : rank_(rank) {
    const auto status_bytes = std::as_bytes(std::span(status)),
               value_bytes = std::as_bytes(std::span(values));
    message_.assign(status_bytes.begin(), status_bytes.end());
    message_.insert(message_.end(), value_bytes.begin(), value_bytes.end());
  }

  void operator()(int to, int from, Flow& flow) const {
    CHECK(to == 1 - rank_);
    CHECK(from == 1 - rank_);
    REQUIRE(flow.bytes_to_receive() == message_.size());
    std::copy(message_.begin(), message_.end(), flow.incoming().begin());
  }

 private:
  int rank_;
  Bytes message_;
};

}  // namespace

TEST_CASE(
    "GatheredMessages: ceil(log2 n) rounds bring every rank's message, for any number of ranks") {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int rank = 0; rank < ranks; ++rank)
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{100}}) {
        CAPTURE(ranks);
        CAPTURE(rank);
        CAPTURE(bytes);
        Buffer memory;
        GatheredMessages messages(memory, bytes, rank, ranks);
        const Bytes own = message_of_rank(rank, bytes);
        std::copy(own.begin(), own.end(), messages.of(rank).begin());
        Others others(bytes, rank, ranks);
        messages.exchange(others);
        CHECK(others.rounds.size() == std::bit_width(static_cast<unsigned>(ranks - 1)));
        for (std::size_t round = 0; round < others.rounds.size(); ++round) {
          const int distance = 1 << round;
          CHECK(others.rounds[round].first == (rank - distance + ranks) % ranks);
          CHECK(others.rounds[round].second == (rank + distance) % ranks);
        }
        for (int other = 0; other < ranks; ++other) {
          const auto message = messages.of(other);
          CHECK(Bytes(message.begin(), message.end()) == message_of_rank(other, bytes));
          CHECK(reinterpret_cast<std::uintptr_t>(message.data()) % cache_line == 0);
        }
      }
}

TEST_CASE("GatheredMessages: memory that is large enough is used again") {
  Buffer memory;
  const std::byte* const first = GatheredMessages(memory, 100, 0, 4).of(0).data();
  CHECK(GatheredMessages(memory, 60, 2, 4).of(2).data() == first);
  CHECK(memory.size() == 4 * 128);
  (void)GatheredMessages(memory, 200, 0, 4);
  CHECK(memory.size() == 4 * 256);
}

TEST_CASE("reduce_gathered: status and array come out of one message, in the order of the ranks") {
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    std::vector<double> status{0.5, 2};
    std::vector<float> values{1, 2, 3};
    OtherOfTwo other(rank, {0.25, 4}, {10, -20, 30});
    Buffer memory;
    detail::reduce_gathered(other, rank, 2, memory, status, std::span(values));
    CHECK(status == std::vector<double>{0.75, 6});
    CHECK(values == std::vector<float>{11, -18, 33});
    std::vector<float> largest{1, 2, 3};
    OtherOfTwo again(rank, {}, {10, -20, 30});
    detail::reduce_gathered(again, rank, 2, memory, {}, std::span(largest), ReduceOp::max);
    CHECK(largest == std::vector<float>{10, 2, 30});
  }
}
