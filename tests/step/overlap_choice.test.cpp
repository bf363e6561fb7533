#include "lockstep/step/overlap_choice.hpp"

#include <doctest/doctest.h>

using namespace lockstep;
using namespace lockstep::detail;
using namespace std::chrono_literals;

namespace {

using Measured = OverlapChoice::Measured;

/// The vote after the trial, in which every step but those in `others` took the same time.
double vote_after(OverlapChoice choice, const Measured& usual, std::initializer_list<Measured> others = {}) {
  const int steps = OverlapChoice::warm_up_steps + OverlapChoice::measured_steps;
  for (int i = 0; i < steps - static_cast<int>(others.size()); ++i) {
    CHECK(choice.is_measuring());
    choice.add(usual);
    if (i + 1 < steps) CHECK(choice.vote() == 0);
  }
  for (const Measured& other : others) choice.add(other);
  CHECK_FALSE(choice.is_measuring());
  return choice.vote();
}

constexpr Measured slow_wire{.step = 30ms, .left_of_backward = 8ms, .reduction = 20ms, .reduction_cpu = 4ms};
constexpr Measured busy_wire{.step = 22ms, .left_of_backward = 8ms, .reduction = 7ms, .reduction_cpu = 5ms};

}  // namespace

TEST_CASE("OverlapChoice: on and off need no trial; a default one never overlaps") {
  for (const Overlap overlap : {Overlap::on, Overlap::off}) {
    const OverlapChoice choice(overlap, true);
    CHECK(choice.overlaps() == (overlap == Overlap::on));
    CHECK_FALSE(choice.is_measuring());
    CHECK(choice.vote() == 0);
  }
  CHECK_FALSE(OverlapChoice().overlaps());
  CHECK_FALSE(OverlapChoice().is_measuring());
}

TEST_CASE("OverlapChoice: a slow wire makes it pay on a shared core, the work of a fast one only on a spare core") {
  CHECK(vote_after({Overlap::automatic, false}, slow_wire) == 1);
  CHECK(vote_after({Overlap::automatic, true}, slow_wire) == 1);
  CHECK(vote_after({Overlap::automatic, false}, busy_wire) == 0);
  CHECK(vote_after({Overlap::automatic, true}, busy_wire) == 1);
}

TEST_CASE(
    "OverlapChoice: nothing can be won when no gradients are ready before the end of backward, or hardly any time is "
    "left") {
  CHECK(vote_after({Overlap::automatic, true}, {.step = 30ms, .reduction = 20ms, .reduction_cpu = 4ms}) == 0);
  CHECK(vote_after({Overlap::automatic, true},
                   {.step = 30ms, .left_of_backward = 1ms, .reduction = 20ms, .reduction_cpu = 4ms}) == 0);
}

TEST_CASE("OverlapChoice: one step without a wait shows that the others waited for a late rank") {
  CHECK(vote_after({Overlap::automatic, false}, slow_wire, {busy_wire}) == 0);
}

TEST_CASE("OverlapChoice: the majority decides, in the step after the trial, for good") {
  OverlapChoice choice(Overlap::automatic, false);
  choice.decide(2, 4);
  CHECK_FALSE(choice.overlaps());
  choice.decide(3, 4);
  CHECK(choice.overlaps());
  choice.decide(0, 4);
  CHECK(choice.overlaps());
}

TEST_CASE("OverlapChoice: the marks of a step give the times between them") {
  const auto work = [](std::chrono::microseconds time) {
    for (const auto end = OverlapChoice::Clock::now() + time; OverlapChoice::Clock::now() < end;) {
    }
  };
  OverlapChoice choice(Overlap::automatic, true);
  for (const bool ready : {true, false}) {
    choice.begin_step();
    work(100us);
    if (ready) choice.gradients_ready();
    work(200us);
    if (ready) choice.gradients_ready();  // the first time counts
    choice.begin_reduction();
    work(400us);
    const Measured measured = choice.end_reduction();
    CHECK(measured.reduction >= 400us);
    CHECK(measured.reduction_cpu > 0s);
    if (ready)
      CHECK(measured.left_of_backward >= 200us);
    else
      CHECK(measured.left_of_backward == 0s);
    CHECK(measured.step >= measured.left_of_backward + measured.reduction + 100us);
  }
}
