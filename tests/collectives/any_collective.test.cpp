#include "lockstep/collectives/any_collective.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/collectives/threads/in_process.hpp"

using namespace lockstep;
using namespace lockstep_test;

namespace {

template <class C>
AnyCollective::Abilities abilities(C& collective) {
  return any_collective(collective)->can();
}

/// What a user's own collective must have, and nothing else. It notes its calls.
struct Plain {
  std::vector<std::string> calls{};

  [[nodiscard]] int rank() const { return 1; }
  [[nodiscard]] int size() const { return 3; }
  template <class T>
  void all_reduce(std::span<T> values, ReduceOp op) {
    calls.push_back(std::string(op == ReduceOp::max ? "max " : "sum ") + std::to_string(sizeof(T)));
    values[0] += T(1);
  }
  template <class T>
  void all_reduce(std::span<double> status, std::span<T> values) {
    calls.push_back("both " + std::to_string(status.size()) + " " +
                    std::to_string(values.size_bytes()));
  }
  void broadcast(std::span<std::byte>, int root) {
    calls.push_back("broadcast " + std::to_string(root));
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte>) {
    calls.push_back("gather " + std::to_string(mine.size()));
  }
  void barrier() { calls.push_back("barrier"); }
  void abort(std::string_view reason) noexcept { calls.push_back("abort " + std::string(reason)); }
};

/// Has all that is optional.
struct Able : Plain {
  ActivityBoard mine{};

  [[nodiscard]] Buffer allocate(std::size_t bytes) {
    calls.push_back("allocate " + std::to_string(bytes));
    return Buffer(bytes);
  }
  ActivityBoard& activity() { return mine; }
  void close() { calls.push_back("close"); }
};

}  // namespace

TEST_CASE("AnyCollective: the abilities of the library's collectives") {
  Single single;
  CHECK_FALSE(abilities(single).scatter);
  CHECK_FALSE(abilities(single).overlap);
  CHECK_FALSE(abilities(single).share);

  InProcessGroup threads(2);
  InProcess thread = threads.member(1);
  CHECK(abilities(thread).scatter);
  CHECK(abilities(thread).scatter_early);
  CHECK_FALSE(abilities(thread).overlap);
  CHECK_FALSE(abilities(thread).share);
  CHECK(any_collective(thread)->overlap() == Overlap::off);

  const auto outer = any_collective(single);
  HierarchicalGroup group(1, outer.get(), {.overlap = Overlap::on}),
      alone(2, nullptr, {.overlap = Overlap::on});
  const Hierarchical worker = group.member(0), member = alone.member(1);
  CHECK_FALSE(worker.can().scatter);
  CHECK(worker.can().overlap);
  CHECK_FALSE(worker.can().share);
  CHECK_FALSE(worker.can().shard);
  CHECK(worker.overlap() == Overlap::on);
  CHECK(member.can().shard);
  CHECK(member.overlap() == Overlap::off);  // nothing to reduce outside
  CHECK(member.rank() == 1);
  CHECK(member.size() == 2);
}

TEST_CASE("AnyCollective: one that is taken over lives as long, one that is referred to is that") {
  auto counted = std::make_shared<int>();
  struct Counted : Single {
    explicit Counted(std::shared_ptr<int> shared) : count(std::move(shared)) {}
    std::shared_ptr<int> count;
  };
  auto owned = any_collective(Counted(counted));
  CHECK(counted.use_count() == 2);
  CHECK(any_collective(*owned).get() == owned.get());
  CHECK(any_collective(owned).get() == owned.get());
  owned.reset();
  CHECK(counted.use_count() == 1);
}

TEST_CASE("AnyCollective: workers share memory where each has one replica, and the processes do") {
  SharedMemoryFamily::run(2, [](auto& outer) {
    for (const int replicas : {1, 2}) {
      const auto any = any_collective(outer);
      HierarchicalGroup group(replicas, any.get(), patient_options());
      if (group.member(0).can().share != (replicas == 1)) throw std::logic_error("shares memory");
      outer.barrier();
    }
  });
}

TEST_CASE("AnyCollective: a user's collective with nothing else has what every one must have") {
  Plain plain;
  const auto held = any_collective(plain);
  AnyCollective& any = *held;
  CHECK(any.rank() == 1);
  CHECK(any.size() == 3);
  CHECK_FALSE(
      (any.can().scatter || any.can().scatter_early || any.can().overlap || any.can().share));
  CHECK(any.overlap() == Overlap::off);
  CHECK(any.board() == nullptr);
  CHECK(any.allocate(100).size() >= 100);
  CHECK_THROWS_WITH_AS(any.wait(), "wait: this collective does not have it (AnyCollective::can)",
                       Error);
  std::array<float, 1> floats{1};
  std::array<double, 1> doubles{1};
  std::array<std::int64_t, 1> integers{1};
  any.all_reduce(std::span<float>(floats), ReduceOp::sum);
  any.all_reduce(std::span<double>(doubles), ReduceOp::max);
  any.all_reduce(std::span<std::int64_t>(integers), ReduceOp::sum);
  CHECK(floats[0] == 2);
  CHECK(doubles[0] == 2);
  CHECK(integers[0] == 2);
  any.all_reduce(std::span<double>(doubles), std::span<float>(floats));
  any.all_reduce(std::span<double>(doubles), std::span<double>(doubles));
  std::array<std::byte, 6> bytes{};
  any.broadcast(bytes, 2);
  any.all_gather(std::span(bytes).first(2), bytes);
  any.barrier();
  any.abort("why");
  CHECK(plain.calls == std::vector<std::string>{"sum 4", "max 8", "sum 8", "both 1 4", "both 1 8",
                                                "broadcast 2", "gather 2", "barrier", "abort why"});
}

TEST_CASE("AnyCollective: what is optional is handed on") {
  Able able;
  const auto any = any_collective(able);
  CHECK(any->board() == &able.mine);
  CHECK(any->allocate(64).size() >= 64);
  any->close();
  CHECK(able.calls == std::vector<std::string>{"allocate 64", "close"});
}

TEST_CASE("AnyCollective: threads reduce through it with the bits of the contract") {
  constexpr int ranks = 3;
  constexpr std::size_t count = 200'001;
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(random_numbers<float>(rank, count));
  const std::vector<float> expected = contract_sum(inputs);
  std::vector<float> scattered(count);
  InProcessFamily::run(ranks, [&](InProcess& collective) {
    const auto held = any_collective(collective);
    AnyCollective& any = *held;
    std::vector<float> mine = inputs[static_cast<std::size_t>(any.rank())];
    std::array<double, 2> status{1, 2};
    any.begin_reduce_scatter(std::span<const double>(status), std::span<const float>(mine));
    const auto take = [&](std::span<const double> sums, std::size_t offset,
                          std::span<const float> piece) {
      if (sums[1] != 2 * ranks) throw std::logic_error("status");
      std::copy(piece.begin(), piece.end(),
                scattered.begin() + static_cast<std::ptrdiff_t>(offset));
    };
    any.advance_reduce_scatter(count / 2, take);
    any.reduce_scatter(status, std::span<float>(mine), take);
    any.all_reduce(status, std::span<float>(mine));
    if (mine != expected || status[0] != ranks * ranks) throw std::logic_error("all_reduce");
  });
  CHECK(scattered == expected);
}
