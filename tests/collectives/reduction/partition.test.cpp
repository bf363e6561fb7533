#include "lockstep/collectives/reduction/partition.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace lockstep;

TEST_SUITE("partition") {
  TEST_CASE(
      "blocks and groups cover each element once, in the group of the rank that comes first") {
    for (const std::size_t elements :
         {std::size_t{0}, std::size_t{1}, block_elements - 1, block_elements, block_elements + 1,
          7 * block_elements + 5, 16 * block_elements})
      for (int ranks = 1; ranks <= 9; ++ranks) {
        const Partition partition(elements, ranks);
        std::vector<int> seen(partition.blocks());
        std::size_t covered = 0;
        for (int group = 0; group < ranks; ++group)
          for (std::size_t k = 0; k < partition.group_size(group); ++k) {
            const Piece piece = partition.group_block(group, k);
            CHECK(piece.offset % block_elements == 0);
            CHECK(piece.count > 0);
            CHECK(piece.count <= block_elements);
            CHECK(piece.offset + piece.count <= elements);
            const std::size_t block = piece.offset / block_elements;
            CHECK(partition.first_rank(block) == group);
            ++seen[block];
            covered += piece.count;
          }
        CHECK(covered == elements);
        CHECK(seen == std::vector<int>(partition.blocks(), 1));
      }
  }

  TEST_CASE("the order of an element does not depend on the length of the array") {
    const Partition small(3 * block_elements, 4), large(300 * block_elements + 1, 4);
    for (std::size_t block = 0; block < small.blocks(); ++block) {
      CHECK(small.first_rank(block) == large.first_rank(block));
      CHECK(small.block(block).offset == large.block(block).offset);
    }
  }

  TEST_CASE("ranks wrap around in both directions") {
    static_assert(wrap_rank(-1, 4) == 3);
    static_assert(wrap_rank(4, 4) == 0);
    static_assert(wrap_rank(-4, 4) == 0);
    static_assert(wrap_rank(0, 1) == 0);
  }
}
