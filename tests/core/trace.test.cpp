#include "lockstep/core/trace.hpp"

#include <doctest/doctest.h>

#include <chrono>

namespace ls = lockstep;
using namespace std::chrono_literals;

TEST_CASE("Trace: sums for each part and layer; the first events one by one") {
  ls::Trace trace(3, 2);
  const ls::Trace::Clock::time_point start{};
  trace.add(ls::TracePart::forward, 1, start + 1us, start + 3us);
  trace.add(ls::TracePart::forward, 1, start + 4us, start + 7us);
  trace.add(ls::TracePart::backward, 2, start + 7us, start + 8us);
  CHECK(trace.total(ls::TracePart::forward, 1) == 5us);
  CHECK(trace.total(ls::TracePart::forward, 0) == 0us);
  CHECK(trace.total(ls::TracePart::backward, 2) == 1us);
  REQUIRE(trace.events().size() == 2);
  CHECK(trace.events()[1].begin == start + 4us);
  CHECK(trace.events()[1].duration == 3us);
  CHECK(trace.events()[1].layer == 1);
  CHECK(trace.left_out() == 1);
  trace.clear_totals();
  CHECK(trace.total(ls::TracePart::forward, 1) == 0us);
  CHECK(trace.events().size() == 2);
}

TEST_CASE("TraceSpan: the time of its life; nothing without a trace") {
  ls::Trace trace(1, 8);
  const auto before = ls::Trace::Clock::now();
  {
    const ls::TraceSpan span(&trace, ls::TracePart::optimizer);
    const ls::TraceSpan nothing(nullptr, ls::TracePart::optimizer, 99);
  }
  const auto after = ls::Trace::Clock::now();
  REQUIRE(trace.events().size() == 1);
  CHECK(trace.events()[0].begin >= before);
  CHECK(trace.events()[0].begin + trace.events()[0].duration <= after);
  CHECK(trace.total(ls::TracePart::optimizer) == trace.events()[0].duration);
}

TEST_CASE("TraceSpan: the time of a span within another one is counted once") {
  ls::Trace trace(1, 8);
  const auto spin = [] {
    const auto begin = ls::Trace::Clock::now();
    while (ls::Trace::Clock::now() - begin < 1ms) {
    }
  };
  {
    const ls::TraceSpan outer(&trace, ls::TracePart::backward);
    spin();
    {
      const ls::TraceSpan inner(&trace, ls::TracePart::collective);
      spin();
      const ls::TraceSpan innermost(&trace, ls::TracePart::optimizer);
      spin();
    }
    const ls::TraceSpan second(&trace, ls::TracePart::collective);
    spin();
  }
  const ls::TraceSpan beside(&trace, ls::TracePart::loss);
  const auto total = [&](ls::TracePart part) { return trace.total(part); };
  // In the order in which they ended, each with all of its time.
  REQUIRE(trace.events().size() == 4);
  const auto length = [&](std::size_t event) { return trace.events()[event].duration; };
  CHECK(trace.events()[3].part == ls::TracePart::backward);
  CHECK(total(ls::TracePart::optimizer) == length(0));
  CHECK(total(ls::TracePart::collective) == length(1) - length(0) + length(2));
  CHECK(total(ls::TracePart::backward) == length(3) - length(1) - length(2));
  CHECK(total(ls::TracePart::backward) >= 1ms);
  CHECK(total(ls::TracePart::optimizer) + total(ls::TracePart::collective) +
            total(ls::TracePart::backward) ==
        length(3));
}
