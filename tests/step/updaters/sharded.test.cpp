// Workers that each update a share of the parameters, with the slots of that share.
#include "lockstep/step/updaters/sharded.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/optimizers/adafactor.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/muon.hpp"
#include "lockstep/optimizers/rmsprop.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "step/step_testing.hpp"
#include "step/updaters/expected_updates.hpp"
#include "support/any_optimizer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::detail::SharePiece;
using ls::detail::StatusBlock;
using ls::detail::UpdateShares;

namespace {

template <class Net>
using Sharded = ls::detail::Compiled<Net, double, ls::SparseCategoricalCrossentropy, AnyOptimizer>;
/// Of 25 blocks: eight for each of three workers.
using BlocksNet = ls::Sequential<ls::Input<1300>, UserDense<1250>, UserDense<3>>;

template <class Net>
Sharded<Net> program(const AnyOptimizer& optimizer) {
  return Sharded<Net>({.from_logits = true}, optimizer, {});
}

void draw_doubles(const ls::Arena<double>& gradients, int rank, int step) {
  std::uint64_t state = static_cast<std::uint64_t>(1000 * step + rank + 1);
  for (const std::span<double> slice : gradients.slices())
    for (double& value : slice) {
      state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
      value = static_cast<double>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31;
    }
}

struct Expected {
  std::vector<std::vector<double>> parameters;  ///< after each step
  std::vector<std::vector<double>> slots;       ///< after the last one
};

/// Of one worker that updates all.
Expected unsharded(const ls::detail::Program<double>& program, int ranks, int steps) {
  ls::detail::Variables<double> variables(program);
  initialize(program, variables);
  const double rows = ranks * (ranks + 1) / 2.0;
  Expected expected;
  for (int step = 1; step <= steps; ++step) {
    std::vector<std::vector<double>> gradients;
    for (int rank = 0; rank < ranks; ++rank) {
      const ls::Arena<double> drawn(program.layout().variables);
      draw_doubles(drawn, rank, step);
      gradients.emplace_back(drawn.values().begin(), drawn.values().end());
    }
    const std::vector<double> sums = lockstep_test::contract_sum(gradients);
    if (variables.clips_by_norm())
      variables.norms().compute_part(std::span<const double>(sums), 0, 1);
    variables.update(variables.parameters().values(), sums, 0, rows, step);
    expected.parameters.emplace_back(variables.parameters().values().begin(),
                                     variables.parameters().values().end());
  }
  for (const auto& slot : variables.slots())
    expected.slots.emplace_back(slot.values().begin(), slot.values().end());
  return expected;
}

/// A worker with one replica, as Trainer makes it.
struct ShardedWorker {
  std::shared_ptr<ls::AnyCollective> outer;
  ls::HierarchicalGroup group;
  ls::detail::Variables<double> variables;
  Rank<double> rank;
  std::unique_ptr<ls::detail::Updater<double>> updater;

  template <class Outer>
  ShardedWorker(Outer& between_workers, const ls::detail::Program<double>& program,
                const ls::CommunicationOptions& options = {})
      : outer(ls::any_collective(between_workers)),
        group(1, outer.get(), options),
        variables(program, {}, true),
        rank(program, variables, std::make_shared<ls::Hierarchical>(group, 0)) {
    variables.share_updates(ls::detail::update_shares_of(variables, rank.replica), outer->rank());
    if (variables.shares().is_of_blocks())
      variables.allocate_parameters(
          [this](std::size_t bytes) { return rank.replica.collective().allocate(bytes); });
    updater = rank.updater();
    initialize(program, variables);
  }

  bool step(int number, double rows) {
    draw_doubles(rank.workspace.gradients(), rank.replica.collective().rank(), number);
    StatusBlock& status = rank.workspace.status();
    status.clear();
    status[StatusBlock::samples] = status[StatusBlock::rows] = rows;
    const std::size_t size = rank.workspace.gradients().values().size();
    const auto progress = updater->begin({.iteration = number});
    if (progress != ls::detail::Updater<double>::Progress::none)
      for (const std::size_t ready : {size / 3, size / 2, size}) updater->ready(ready);
    return updater->finish();
  }
};

bool equal(std::span<const double> a, std::span<const double> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// How far `a` is from `b` at most.
double distance(std::span<const double> a, std::span<const double> b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// Steps of workers end with the parameters and slots of the unsharded ones, of which each worker
/// has its share. `tolerance` 0: to the last bit.
template <class Family>
void check_sharded(const ls::detail::Program<double>& program, int ranks, bool of_blocks,
                   double tolerance = 0, ls::Overlap overlap = ls::Overlap::off) {
  CAPTURE(ranks);
  CAPTURE(program.parts_description());
  constexpr int steps = 2;
  const Expected expected = unsharded(program, ranks, steps);
  const std::size_t slots = program.layout().slots;
  Family::run(ranks, [&](auto& collective) {
    ShardedWorker worker(collective, program, {.overlap = overlap});
    const auto& variables = worker.variables;
    const UpdateShares& shares = variables.shares();
    require(shares.is_of_blocks() == of_blocks, "of blocks");
    const std::string name(worker.updater->name());
    require(name.starts_with(!of_blocks                    ? "all-reduce, then"
                             : overlap == ls::Overlap::off ? "reduce-scatter, then"
                                                           : "reduce-scatter, overlapped"),
            name);
    const auto same = [&](std::span<const double> a, std::span<const double> b) {
      return tolerance == 0 ? equal(a, b) : distance(a, b) <= tolerance;
    };
    for (int step = 1; step <= steps; ++step) {
      require(worker.step(step, samples_of(collective.rank())), "no update");
      require(same(variables.parameters().values(),
                   expected.parameters[static_cast<std::size_t>(step - 1)]),
              "parameters");
    }
    require(!worker.step(steps + 1, 0), "an update without rows");
    require(same(variables.parameters().values(), expected.parameters.back()), "changed");
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const std::span<const double> mine = variables.slot_share(slot);
      require(mine.size() == shares.size(collective.rank()), "size of a share");
      for (const SharePiece& piece : shares.of(collective.rank()))
        require(same(mine.subspan(piece.place, piece.size),
                     std::span(expected.slots[slot]).subspan(piece.begin, piece.size)),
                "slots");
    }
    require(variables.slots().size() == expected.slots.size() - slots, "whole slots");
    if (variables.has_averages())
      require(same(variables.slots().back().values(), expected.slots.back()), "averages");
  });
}

/// Each element is in one share.
void check_cover(const UpdateShares& shares, std::size_t elements, std::size_t most_of_a_share) {
  std::vector<int> owners(elements, 0);
  for (int worker = 0; worker < shares.workers(); ++worker) {
    CHECK(shares.size(worker) <= most_of_a_share);
    std::size_t place = 0;
    for (const SharePiece& piece : shares.of(worker)) {
      CHECK(piece.begin % 16 == 0);
      CHECK(piece.place == place);
      CHECK(shares.place(worker, piece.begin + piece.size / 2) == place + piece.size / 2);
      for (std::size_t i = 0; i < piece.size; ++i) ++owners[piece.begin + i];
      place += piece.size;
    }
  }
  CHECK(std::count(owners.begin(), owners.end(), 1) == static_cast<std::ptrdiff_t>(elements));
}

const AnyOptimizer momentum = ls::SGD{.learning_rate = 0.3, .momentum = 0.9, .nesterov = true};
const AnyOptimizer adam = ls::Adam{.learning_rate = 0.01, .amsgrad = true};
const AnyOptimizer adamw =
    ls::AdamW{.learning_rate = 0.01, .weight_decay = 0.1, .exclude_from_weight_decay = {"*bias"}};

}  // namespace

TEST_CASE_TEMPLATE("ShardedUpdater: blocks of the arena, with the bits of all-reduce", Family,
                   lockstep_test::TcpFamily, lockstep_test::SharedMemoryFamily) {
  for (const AnyOptimizer* const optimizer : {&momentum, &adamw})
    check_sharded<Family>(program<BlocksNet>(*optimizer), 2, true);
  check_sharded<Family>(program<BlocksNet>(adamw), 3, true);
  check_sharded<Family>(program<BlocksNet>(adamw), 2, true, 0, ls::Overlap::on);
  check_sharded<Family>(
      program<BlocksNet>(ls::Adam{
          .clipvalue = 0.1, .use_ema = true, .ema_momentum = 0.9, .ema_overwrite_frequency = 2}),
      2, true);
}

TEST_CASE_TEMPLATE("ShardedUpdater: ranges of few parameters, and of whole variables", Family,
                   lockstep_test::InProcessFamily, lockstep_test::TcpFamily,
                   lockstep_test::SharedMemoryFamily) {
  for (const int ranks : {2, 3}) {
    for (const AnyOptimizer* const optimizer : {&momentum, &adam, &adamw})
      check_sharded<Family>(program<LargeNet>(*optimizer), ranks, false);
    check_sharded<Family>(program<LargeNet>(ls::Adagrad{}), ranks, false);
    check_sharded<Family>(program<LargeNet>(ls::Lamb{.use_ema = true}), ranks, false);
    check_sharded<Family>(program<LargeNet>(ls::Adafactor{}), ranks, false);
    check_sharded<Family>(program<LargeNet>(ls::Muon{}), ranks, false);
    check_sharded<Family>(program<LargeNet>(ls::Adam{.clipnorm = 0.01}), ranks, false);
    check_sharded<Family>(program<LargeNet>(ls::Adam{.global_clipnorm = 0.01}), ranks, false);
  }
  check_sharded<Family>(program<SmallNet>(adam), 4, false);  // two have nothing
}

TEST_CASE("ShardedUpdater: a global norm of blocks costs one number, and may differ in a bit") {
  const auto clipped = program<BlocksNet>(ls::SGD{.momentum = 0.5, .global_clipnorm = 0.01});
  check_sharded<lockstep_test::TcpFamily>(clipped, 3, true, 1e-12);
  std::vector<std::vector<double>> parameters(2);
  lockstep_test::SharedMemoryFamily::run(2, [&](auto& collective) {
    ShardedWorker worker(collective, clipped);
    worker.step(1, 1);
    const auto values = worker.variables.parameters().values();
    parameters[static_cast<std::size_t>(collective.rank())].assign(values.begin(), values.end());
  });
  CHECK(parameters[0] == parameters[1]);
  // Each variable's own norm needs the gradients of all of it.
  lockstep_test::TcpFamily::run(2, [&](auto& collective) {
    const auto each = program<BlocksNet>(ls::SGD{.clipnorm = 0.01});
    ShardedWorker worker(collective, each);
    require(!worker.variables.shares().is_of_blocks(), "of blocks");
  });
}

TEST_CASE("update_shares_of: shares are fair, and end with variables where these stay whole") {
  lockstep_test::TcpFamily::run(3, [](auto& collective) {
    const auto each = program<BlocksNet>(adam);
    ShardedWorker worker(collective, each);
    const std::size_t elements = worker.variables.parameters().values().size();
    check_cover(worker.variables.shares(), elements, elements / 3 * 9 / 8);
    const auto lamb = program<LargeNet>(ls::Lamb{});
    ShardedWorker whole(collective, lamb);
    const auto& variables = whole.variables;
    check_cover(variables.shares(), variables.parameters().values().size(), 21'008);
    for (int rank = 0; rank < 3; ++rank)
      for (const SharePiece& piece : variables.shares().of(rank))
        CHECK(std::any_of(variables.ranges().begin(), variables.ranges().end(),
                          [&](const auto& range) { return range.begin == piece.begin; }));
  });
}
