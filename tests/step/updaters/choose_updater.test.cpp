#include "lockstep/step/updaters/choose_updater.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "step/step_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Two ranks that can all; only what it says of itself is asked.
struct Able : LonelyCollective {
  static inline ls::Overlap wanted = ls::Overlap::off;
  static inline bool shares = false;

  Able() : LonelyCollective(2, {.overlap = true, .share = shares}, wanted) {}
  void all_reduce_async(ls::NumberSpan) override {}
  void wait() override {}
  void reduce_scatter_all_gather(std::span<double>, ls::NumberSpan, ls::UseSums) override {}
};

template <class C>
std::string route(C collective, std::size_t slots = 0, int local_size = 1, bool clips = false) {
  MadeUpProgram program(100, slots);
  if (clips) program.rules.clipping.global_clipnorm = 1;
  ls::detail::Variables<float> variables(program);
  const Rank rank(program, variables, std::move(collective), 0, local_size);
  return std::string(rank.updater()->name());
}

}  // namespace

TEST_CASE("choose_updater: by what the collective can, and the ranks, and the optimizer") {
  CHECK(route(ls::Single{}) == "each layer, as soon as backward is done with it");
  ls::InProcessGroup one(1), two(2);
  CHECK(route(one.member(0)) == "each layer, as soon as backward is done with it");
  CHECK(route(two.member(0), 0, 2) ==
        "each replica updates a share (reduce-scatter between threads)");
  ls::HierarchicalGroup workers(2, nullptr);
  CHECK(route(std::make_shared<ls::Hierarchical>(workers, 0), 0, 2) == "all-reduce");
  CHECK(route(LonelyCollective(2)) == "all-reduce");
  CHECK(route(Able{}) == "all-reduce");

  Able::shares = true;
  CHECK(route(Able{}) ==
        "each worker updates a share (reduce-scatter and all-gather in shared memory)");
  CHECK(route(Able{}, 1) == "all-reduce");     // slots stay with their rank
  CHECK(route(Able{}, 0, 2) == "all-reduce");  // as do parameters that replicas share
  Able::wanted = ls::Overlap::on;
  CHECK(route(Able{}) == "all-reduce, overlapped with backward");
  Able::shares = false;
  CHECK(route(Able{}) == "all-reduce, overlapped with backward");
  Able::wanted = ls::Overlap::off;
}

TEST_CASE("choose_updater: all gradients come before the update that needs their norm") {
  CHECK(route(ls::Single{}, 0, 1, true) == "all-reduce");
  ls::InProcessGroup two(2);
  CHECK(route(two.member(0), 0, 2, true) == "all-reduce");
  Able::shares = true;
  CHECK(route(Able{}, 0, 1, true) == "all-reduce");
  Able::shares = false;
  Able::wanted = ls::Overlap::on;
  CHECK(route(Able{}, 0, 1, true) == "all-reduce, overlapped with backward");
  Able::wanted = ls::Overlap::off;
}

TEST_CASE("choose_updater: no rank reads parameters that another one brings to its constraints") {
  Able::shares = true;
  MadeUpProgram program(100);
  program.constrain(ls::NonNeg{});
  ls::detail::Variables<float> variables(program);
  const Rank rank(program, variables, Able{});
  CHECK(rank.updater()->name() == "all-reduce");
  Able::shares = false;
}

TEST_CASE("Updater: a user's own route takes part in a step like the others") {
  class Noted final : public ls::detail::Updater<float> {
   public:
    explicit Noted(const ls::detail::Parts<float>& parts) : Updater<float>(parts) {}
    [[nodiscard]] std::string_view name() const noexcept override { return "noted"; }
    Progress begin(const ls::detail::UpdateStep& step) override {
      note("begin " + std::to_string(step.iteration));
      return Progress::gradients;
    }
    void ready(std::size_t count) override { note("ready", 0, count); }
    bool finish() override {
      note("finish");
      return true;
    }
  };
  MadeUpProgram program(100);
  program.ends = {40, 100};
  ls::detail::Variables<float> variables(program);
  const Rank rank(program, variables, ls::Single{});
  Noted updater(rank.parts);
  auto data = tiny_batches(5, 5);
  data.begin({});
  take_happened();
  ls::detail::train_step(rank.parts, updater, data, {.iteration = 6});
  CHECK(take_happened() == "begin 7 backward( ready 0-40 ready 0-100 ) finish ");
}
