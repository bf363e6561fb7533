#include "lockstep/step/updaters/all_reduce.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/optimizers/sgd.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "step/step_testing.hpp"
#include "step/updaters/expected_updates.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("AllReduceUpdater: one reduction after backward, and then the update") {
  MadeUpProgram program(1'000);
  program.ends = {100, 1'000};
  ls::detail::Variables<float> variables(program);
  program.parameters = variables.parameters().values();
  const Rank rank(program, variables, LonelyCollective(2));
  LonelyCollective::gradients = rank.workspace.gradients().values().data();
  const auto updater = rank.updater();
  CHECK(updater->name() == "all-reduce");
  auto data = tiny_batches(5, 5);
  data.begin({});
  take_happened();
  ls::detail::train_step(rank.parts, *updater, data, {});
  CHECK(take_happened() == "backward( ) all-reduce 0-1008 update 0-1008 ");
  for (const float value : variables.parameters().values().first(1'000))
    REQUIRE(value == -0.5F / 5);
}

TEST_CASE("AllReduceUpdater: each replica of a process updates its part") {
  MadeUpProgram program(1'600);
  ls::detail::Variables<float> variables(program);
  program.parameters = variables.parameters().values();
  for (const int local_rank : {0, 1, 2}) {
    const Rank rank(program, variables, LonelyCollective(6), local_rank, 3);
    LonelyCollective::gradients = rank.workspace.gradients().values().data();
    rank.parts.workspace.status()[ls::detail::StatusBlock::samples] = 1;
    rank.parts.workspace.status()[ls::detail::StatusBlock::rows] = 1;
    take_happened();
    ls::detail::AllReduceUpdater<float> updater(rank.parts);
    updater.begin({});
    updater.finish();
    const char* const parts[] = {"0-528 ", "528-1056 ", "1056-1600 "};
    CHECK(take_happened() == std::string("all-reduce 0-1600 update ") + parts[local_rank]);
  }
}

TEST_CASE("AllReduceUpdater: the bits do not depend on who updates") {
  for (const int ranks : {2, 3})
    for (const double momentum : {0.0, 0.5}) {
      const ls::SGD optimizer{.learning_rate = 0.3, .momentum = momentum, .weight_decay = 0.01};
      const Updated<SmallNet> small({.from_logits = true}, optimizer, {});
      const Updated<LargeNet> large({.from_logits = true}, optimizer, {});
      check_steps<lockstep_test::TcpFamily>(small, ranks, "all-reduce");
      check_steps<lockstep_test::TcpFamily>(large, ranks, "all-reduce");
    }
  const Updated<LargeNet> large({.from_logits = true}, {.learning_rate = 0.3}, {});
  check_steps<lockstep_test::TcpFamily>(large, 4, "all-reduce");
}

TEST_CASE(
    "AllReduceUpdater: an update that is clipped by norms has the same bits alone, on threads and "
    "on workers") {
  for (const ls::SGD& optimizer :
       {ls::SGD{.learning_rate = 0.3, .momentum = 0.5, .global_clipnorm = 0.7},
        ls::SGD{.learning_rate = 0.3, .clipnorm = 0.2}}) {
    const Updated<LargeNet> program({.from_logits = true}, optimizer, {});
    const auto parameters = [&](auto collective, int rank, int size,
                                ls::detail::Variables<float>& variables) {
      const Rank own(program, variables, std::move(collective), rank, size);
      const auto updater = own.updater();
      require(updater->name() == "all-reduce", "the route");
      for (int step = 1; step <= 3; ++step)
        make_update(own.parts, *updater, step, samples_of(rank));
    };
    {
      ls::detail::Variables<float> variables(program);
      initialize(program, variables);
      parameters(ls::Single{}, 0, 1, variables);
      CHECK(copy(variables.parameters().values()) == expected_steps(program, 1, 3).back());
    }
    for (const int threads : {2, 3}) {
      ls::detail::Variables<float> variables(program);
      initialize(program, variables);
      ls::InProcessGroup group(threads, lockstep_test::patient_options());
      lockstep_test::rethrow_first(lockstep_test::run_threads(
          threads, [&](int rank) { parameters(group.member(rank), rank, threads, variables); }));
      CHECK(copy(variables.parameters().values()) == expected_steps(program, threads, 3).back());
    }
    check_steps<lockstep_test::TcpFamily>(program, 2, "all-reduce");
  }
}

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

using Progress = ls::detail::Updater<float>::Progress;

namespace {

/// Notes what it is asked for.
class Watched : public LonelyCollective {
 public:
  using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;  // offset and size
  static inline thread_local Ranges begun{}, finished{};

  explicit Watched(int size) : LonelyCollective(size, {.overlap = true}, ls::Overlap::on) {}
  using LonelyCollective::all_reduce;
  void all_reduce(std::span<double>, ls::NumberSpan numbers) override {
    const auto values = numbers.as<float>();
    note_range("all-reduce", values);
    finished.emplace_back(values.data() - gradients, values.size());
  }
  void all_reduce_async(ls::NumberSpan numbers) override {
    const auto values = numbers.as<float>();
    note_range("begin", values);
    begun.emplace_back(values.data() - gradients, values.size());
  }
  void wait() override { note("wait"); }
};
using Ranges = Watched::Ranges;

constexpr std::size_t block = ls::block_elements;

/// A MadeUpProgram of `size` parameters on one of `ranks` ranks.
struct Setup {
  MadeUpProgram program;
  ls::detail::Variables<float> variables{program};
  Rank<float> rank;
  ls::detail::OverlappedUpdater<float> updater{rank.parts};

  Setup(int ranks, std::size_t size) : program(size), rank(program, variables, Watched(ranks)) {
    Watched::gradients = rank.workspace.gradients().values().data();
    Watched::begun.clear();
    Watched::finished.clear();
    take_happened();
  }

  /// Backward over layers that end at `ends`.
  void reduce(const std::vector<std::size_t>& ends) {
    const auto progress = updater.begin({});
    if (progress != Progress::none)
      for (const std::size_t end : ends) {
        updater.ready(end);
        updater.ready(end);  // by the layer and by its container
      }
    updater.finish();
  }
};

std::pair<Ranges, Ranges> ranges(int ranks, std::size_t size,
                                 const std::vector<std::size_t>& ends) {
  Setup setup(ranks, size);
  setup.reduce(ends);
  return {Watched::begun, Watched::finished};
}

}  // namespace

TEST_CASE(
    "OverlappedUpdater: ranges begin when they are ready, cut at multiples of ranks and 1 MiB") {
  const auto [begun, finished] =
      ranges(2, 20 * block, {10, 3 * block, 9 * block, 9 * block + 1, 20 * block});
  CHECK(begun == Ranges{{0, 4 * block}, {4 * block, 4 * block}, {8 * block, 8 * block}});
  CHECK(finished == Ranges{{16 * block, 4 * block}});
  const auto three = ranges(3, 20 * block, {7 * block, 20 * block});
  CHECK(three.first == Ranges{{0, 6 * block}, {6 * block, 6 * block}});
  CHECK(three.second == Ranges{{12 * block, 8 * block}});
}

TEST_CASE("OverlappedUpdater: the ranges do not depend on how a rank comes to its gradients") {
  const auto at_once = ranges(2, 30 * block, {30 * block});
  CHECK(at_once.first.size() == 4);
  std::vector<std::size_t> ends;
  for (std::size_t end = 0; end < 30 * block; end += 100'000) ends.push_back(end);
  ends.push_back(30 * block);
  CHECK(ranges(2, 30 * block, ends) == at_once);
}

TEST_CASE("OverlappedUpdater: what is left for the end has at least a block for each rank") {
  for (const int ranks : {2, 3, 4, 8})
    for (std::size_t size = block; size < 40 * block; size += block / 2 + 16) {
      Setup setup(ranks, size);
      const std::size_t all = setup.rank.workspace.gradients().values().size();
      setup.reduce({size / 3, size / 2, all});
      std::size_t next = 0;
      for (const auto& [offset, count] : Watched::begun) {
        REQUIRE(offset == next);
        REQUIRE(next % (block * static_cast<std::size_t>(ranks)) == 0);
        REQUIRE(count >= 4 * block);
        next += count;
      }
      REQUIRE(Watched::finished.at(0).first == next);
      REQUIRE(next + Watched::finished[0].second == all);
      if (next > 0) REQUIRE(Watched::finished[0].second >= block * static_cast<std::size_t>(ranks));
    }
}

TEST_CASE(
    "OverlappedUpdater: reductions begin during backward; status and the rest come after it, then "
    "the update") {
  Setup setup(2, 20 * block);
  setup.program.ends = {9 * block, 20 * block};
  setup.program.parameters = setup.variables.parameters().values();
  const auto updater = setup.rank.updater();
  CHECK(updater->name() == "all-reduce, overlapped with backward");
  auto data = tiny_batches(10, 5);
  data.begin({});
  const auto range = [](std::size_t begin, std::size_t end) {
    return " " + std::to_string(begin * block) + "-" + std::to_string(end * block) + " ";
  };
  for (int step = 0; step < 2; ++step) {
    ls::detail::train_step(setup.rank.parts, *updater, data, {.iteration = step});
    CHECK(take_happened() == "backward( begin" + range(0, 4) + "begin" + range(4, 8) + "begin" +
                                 range(8, 16) + ") all-reduce" + range(16, 20) + "wait update" +
                                 range(0, 20));
  }
}

TEST_CASE("OverlappedUpdater: small gradients are reduced at the end") {
  Setup setup(2, 4 * block);
  CHECK(setup.updater.begin({}) == Progress::none);
  setup.reduce({});
  CHECK(Watched::begun.empty());
  CHECK(Watched::finished == Ranges{{0, 4 * block}});
}

TEST_CASE("OverlappedUpdater: the bits are those of one reduction") {
  const Updated<OverlapNet> program({.from_logits = true}, {.learning_rate = 0.3, .momentum = 0.5},
                                    {});
  const std::string route = "all-reduce, overlapped with backward";
  ls::CommunicationOptions options = lockstep_test::patient_options();
  options.overlap = ls::Overlap::on;
  for (const int ranks : {2, 3})
    check_steps<lockstep_test::TcpFamily>(program, ranks, route, options);
  // Where each rank could update a share for all, overlap goes first.
  const Updated<LargeNet> plain({.from_logits = true}, {.learning_rate = 0.3}, {});
  check_steps<lockstep_test::SharedMemoryFamily>(plain, 2, route, options);
}
