#include "lockstep/step/updaters/early_ranges.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "lockstep/collectives/reduction/partition.hpp"

using lockstep::block_elements;
using lockstep::Piece;
using lockstep::detail::EarlyRanges;

namespace {

/// The ranges of a step in which so many elements become ready at a time.
std::vector<Piece> ranges_of(EarlyRanges& ranges, std::size_t elements, std::size_t at_a_time) {
  std::vector<Piece> all;
  ranges.begin_step();
  for (std::size_t count = 0; count < elements;) {
    count = std::min(count + at_a_time, elements);
    ranges.ready(count, [&](std::size_t begin, std::size_t size) {
      CHECK(begin + size <= count);
      all.push_back({begin, size});
    });
  }
  return all;
}

}  // namespace

TEST_CASE("early ranges: few and growing, without gaps, cut at rank 0's blocks, with a rest") {
  for (const int ranks : {2, 3, 4, 5, 16})
    for (const std::size_t blocks : {8u, 20u, 33u, 400u, 1024u}) {
      CAPTURE(ranks);
      CAPTURE(blocks);
      const std::size_t elements = blocks * block_elements + 17;
      const std::size_t turn = static_cast<std::size_t>(ranks) * block_elements;
      EarlyRanges ranges(elements, ranks);
      const std::vector<Piece> all = ranges_of(ranges, elements, elements);
      CHECK(all.empty() == ranges.empty());
      std::size_t end = 0, last = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].offset == end);
        CHECK(all[i].count % turn == 0);  // so that a range begins at rank 0, as an array does
        CHECK(all[i].count >= 4 * block_elements);
        if (i + 1 < all.size()) CHECK(all[i].count >= last);
        last = all[i].count;
        end += last;
      }
      CHECK(ranges.begun() == end);
      CHECK(end + turn <= std::max(elements, turn));
      CHECK(all.size() <= 4 + elements / (16 * block_elements));
    }
}

TEST_CASE("early ranges: they do not depend on how the gradients become ready") {
  const std::size_t elements = 90 * block_elements + 1;
  EarlyRanges ranges(elements, 3);
  const std::vector<Piece> at_once = ranges_of(ranges, elements, elements);
  REQUIRE(at_once.size() > 3);
  for (const std::size_t at_a_time : {std::size_t{1'000}, block_elements, 7 * block_elements}) {
    const std::vector<Piece> bit_by_bit = ranges_of(ranges, elements, at_a_time);
    CHECK(std::ranges::equal(bit_by_bit, at_once, [](const Piece& a, const Piece& b) {
      return a.offset == b.offset && a.count == b.count;
    }));
  }
}

TEST_CASE("early ranges: a range is not begun before all of it is ready") {
  EarlyRanges ranges(20 * block_elements, 2);
  int calls = 0;
  const auto count = [&](std::size_t, std::size_t) { ++calls; };
  ranges.begin_step();
  ranges.ready(4 * block_elements - 1, count);
  CHECK(calls == 0);
  CHECK(ranges.begun() == 0);
  ranges.ready(4 * block_elements, count);
  CHECK(calls == 1);
  CHECK(ranges.begun() == 4 * block_elements);
}

TEST_CASE("early ranges: an array that is too short for one has none") {
  const std::size_t least = (4 + 2) * block_elements;  // a range, and what must be left
  CHECK(EarlyRanges(least - 1, 2).empty());
  CHECK_FALSE(EarlyRanges(least, 2).empty());
  CHECK(EarlyRanges(0, 2).empty());
  CHECK(EarlyRanges(10, 64).empty());
}
