#include "lockstep/core/state.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ls = lockstep;

namespace {
enum class Mode { min, max };
}

TEST_CASE("State gives back what was put, by name and type") {
  ls::State state;
  CHECK(state.empty());
  state.put("epoch", 3);
  state.put("steps", std::uint64_t{5'000'000'000});
  state.put("done", true);
  state.put("mode", Mode::max);
  state.put("best", 0.5f);
  state.put("path", std::string("a/b"));
  state.put("order", std::vector<std::int64_t>{3, 1, 2});
  state.put("losses", std::vector<double>{0.1, 0.2});

  CHECK(state.get<int>("epoch") == 3);
  CHECK(state.get<std::int64_t>("steps") == 5'000'000'000);
  CHECK(state.get<bool>("done"));
  CHECK(state.get<Mode>("mode") == Mode::max);
  CHECK(state.get<float>("best") == 0.5f);
  CHECK(state.get<double>("best") == 0.5);
  CHECK(state.get<std::string>("path") == "a/b");
  CHECK(state.get<std::vector<std::int64_t>>("order") == std::vector<std::int64_t>{3, 1, 2});
  CHECK(state.get<std::vector<double>>("losses") == std::vector<double>{0.1, 0.2});
  CHECK(state.values().size() == 8);
  CHECK(state.contains("path"));
  CHECK_FALSE(state.contains("Path"));
}

TEST_CASE("State: a later put wins, also with another type") {
  ls::State state;
  state.put("x", 1);
  state.put("x", std::string("one"));
  CHECK(state.get<std::string>("x") == "one");
  CHECK(state.values().size() == 1);
}

TEST_CASE("State: missing entries and other types are errors that name the entry") {
  ls::State state;
  state.put("x", 1);
  CHECK_THROWS_WITH_AS((void)state.get<int>("y"), "saved state has no entry 'y'", ls::Error);
  CHECK_THROWS_WITH_AS((void)state.get<double>("x"), "saved state: entry 'x' has another type",
                       ls::Error);
  CHECK_THROWS_AS((void)state.get<std::string>("x"), ls::Error);
}

TEST_CASE("State: equality") {
  ls::State a, b;
  a.put("x", 1);
  CHECK_FALSE(a == b);
  b.put("x", 1);
  CHECK(a == b);
  b.put("x", 1.0);
  CHECK_FALSE(a == b);
}
