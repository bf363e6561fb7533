#include "lockstep/collectives/world.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using lockstep::World;
using lockstep::detail::last_worlds;
using lockstep::detail::may_follow;
using lockstep::detail::Participant;
using lockstep::detail::WorldMemory;

namespace {

World make_world(std::int64_t epoch, std::vector<int> slots) {
  return {.epoch = epoch, .id = static_cast<std::uint64_t>(epoch) * 7, .slots = std::move(slots)};
}

}  // namespace

TEST_CASE("World: which ranks are which workers") {
  CHECK(World{}.ranks_are_slots());
  CHECK(make_world(1, {0, 1, 2}).ranks_are_slots());
  CHECK(make_world(2, {0, 1}).ranks_are_slots());  // the last one is missing
  CHECK_FALSE(make_world(3, {0, 2}).ranks_are_slots());
  CHECK_FALSE(make_world(4, {1}).ranks_are_slots());
  CHECK(make_world(5, {0, 2, 11}).ranks_text() == "ranks 0 1 2 are workers 0 2 11");
}

TEST_CASE("World: a line of text and back") {
  const World world{.epoch = 3, .id = 0xFFFFFFFFFFFFFFFFu, .slots = {0, 2, 11}};
  CHECK(world.text() == "3 18446744073709551615 0 2 11");
  const auto read = World::read(world.text());
  REQUIRE(read);
  CHECK(read->is_same(world));
  CHECK(read->slots == world.slots);
  for (const char* wrong :
       {"", "3", "3 7", "3 7 ", "0 7 1", "3 7 2 2", "3 7 2 1", "3 7 -1", "3 7 x", "3 7 1x",
        "3 18446744073709551616 1", "99999999999999999999 7 1"}) {
    CAPTURE(wrong);
    CHECK_FALSE(World::read(wrong));
  }
}

TEST_CASE("World: ranks go by slots") {
  const World world = make_world(1, {1, 3, 4});
  CHECK(world.rank_of(1) == 0);
  CHECK(world.rank_of(4) == 2);
  CHECK(world.has(3));
  CHECK_FALSE(world.has(2));
}

TEST_CASE("worlds before one that was at work are over; those agreed to since may be the last") {
  const World first = make_world(1, {0, 1, 2}), second = make_world(2, {0, 1}),
              third = make_world(3, {0, 1, 2});
  const Participant late{2, {.worked = first}};
  const Participant recent{0, {.worked = second, .agreed = {third}}};
  const auto last = last_worlds(std::vector{late, recent});
  REQUIRE(last.size() == 2);
  CHECK(last[0].is_same(second));
  CHECK(last[1].is_same(third));
  CHECK(last_worlds(std::vector<Participant>{{4, {}}}).empty());
  CHECK(recent.memory.last_epoch() == 3);
  CHECK(recent.memory.knows(third));
  CHECK_FALSE(late.memory.knows(third));
}

TEST_CASE(
    "a world is followed by more than half of it; newcomers in its places count for half at most") {
  const World world = make_world(4, {0, 1, 2, 3});
  const WorldMemory knows{.worked = world};
  const auto may = [&](std::vector<int> survivors, std::vector<int> newcomers) {
    std::vector<Participant> present;
    for (const int slot : survivors) present.push_back({slot, knows});
    for (const int slot : newcomers) present.push_back({slot, {}});
    return may_follow(world, present);
  };
  CHECK(may({0, 1, 2}, {}));
  CHECK_FALSE(may({0, 1}, {}));
  CHECK(may({0, 1}, {2}));
  CHECK_FALSE(may({0, 1}, {4, 5}));  // in places that this world did not have
  CHECK_FALSE(may({0}, {1, 2, 3}));
  CHECK_FALSE(may({}, {0, 1, 2, 3}));
}

TEST_CASE("of two groups without a common process, one at most may follow a world") {
  std::mt19937 random(5);
  for (int round = 0; round < 20'000; ++round) {
    const int size = 1 + static_cast<int>(random() % 7);
    std::vector<int> slots;
    for (int slot = 0; slot < size; ++slot) slots.push_back(slot);
    const World world = make_world(1, slots);
    std::vector<Participant> groups[2];
    for (const int slot : slots) {
      // A place has one process: the one that was in the world, or its successor, or none.
      const bool survives = random() % 2 == 0;
      const auto group = random() % 3;
      if (group < 2)
        groups[group].push_back({slot, survives ? WorldMemory{.worked = world} : WorldMemory{}});
    }
    REQUIRE_FALSE((may_follow(world, groups[0]) && may_follow(world, groups[1])));
  }
}
