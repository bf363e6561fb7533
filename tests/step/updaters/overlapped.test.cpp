#include "lockstep/step/updaters/overlapped.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "step/step_testing.hpp"
#include "step/updaters/expected_updates.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using Progress = ls::detail::Updater<float>::Progress;

namespace {

/// Notes what it is asked for.
class Watched : public LonelyCollective {
 public:
  using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;  // offset and size
  static inline thread_local Ranges begun{}, finished{};

  using LonelyCollective::all_reduce;
  using LonelyCollective::LonelyCollective;
  void all_reduce(std::span<double>, std::span<float> values) {
    note_range("all-reduce", values);
    finished.emplace_back(values.data() - gradients, values.size());
  }
  void all_reduce_async(std::span<float> values) {
    note_range("begin", values);
    begun.emplace_back(values.data() - gradients, values.size());
  }
  void all_reduce_async(std::span<double>) {}
  void wait() { note("wait"); }
  [[nodiscard]] ls::Overlap overlap() const { return ls::Overlap::on; }
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
