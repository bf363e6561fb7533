#include "lockstep/step/gradient_reduction.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

using namespace lockstep;
using namespace lockstep::detail;

namespace {

/// Notes what it is asked for.
struct Recorder {
  int ranks = 2;
  const float* base = nullptr;
  std::vector<std::pair<std::ptrdiff_t, std::size_t>> begun{};
  std::vector<std::pair<std::ptrdiff_t, std::size_t>> finished{};
  int waits = 0;

  [[nodiscard]] int rank() const { return 0; }
  [[nodiscard]] int size() const { return ranks; }
  template <class T>
  void all_reduce(std::span<T>, ReduceOp) {}
  void all_reduce(std::span<double>, std::span<double>) {}
  void all_reduce(std::span<double>, std::span<float> values) {
    finished.emplace_back(values.data() - base, values.size());
  }
  void broadcast(std::span<std::byte>, int) {}
  void all_gather(std::span<const std::byte>, std::span<std::byte>) {}
  void barrier() {}
  void abort(std::string_view) noexcept {}
  void all_reduce_async(std::span<float> values) { begun.emplace_back(values.data() - base, values.size()); }
  void wait() { ++waits; }
  [[nodiscard]] Overlap overlap() const { return Overlap::on; }
  [[nodiscard]] bool has_spare_core() const { return true; }
};

constexpr std::size_t block = block_elements;

/// Backward over slices that end at `ends` of a whole of `size`.
Recorder reduce(int ranks, std::size_t size, const std::vector<std::size_t>& ends, OverlapChoice choice) {
  std::vector<float> gradients(size);
  Recorder recorder{.ranks = ranks, .base = gradients.data()};
  GradientReduction reduction(recorder, std::span(gradients), choice);
  const BackwardProgress ready = reduction.hook();
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const std::array slices{std::span(gradients).subspan(begin, end - begin)};
    ready(std::span<const std::span<float>>(slices));
    ready(std::span<const std::span<float>>(slices));  // by the layer and by its container
    begin = end;
  }
  reduction.finish({});
  return recorder;
}

}  // namespace

TEST_CASE("GradientReduction: ranges begin when they are ready, cut at multiples of ranks and 1 MiB") {
  const OverlapChoice on(Overlap::on, true);
  const auto r = reduce(2, 20 * block, {10, 3 * block, 9 * block, 9 * block + 1, 20 * block}, on);
  using Ranges = std::vector<std::pair<std::ptrdiff_t, std::size_t>>;
  CHECK(r.begun == Ranges{{0, 4 * block}, {4 * block, 4 * block}, {8 * block, 8 * block}});
  CHECK(r.finished == Ranges{{16 * block, 4 * block}});
  CHECK(r.waits == 1);

  const auto three = reduce(3, 20 * block, {7 * block, 20 * block}, on);
  CHECK(three.begun == Ranges{{0, 6 * block}, {6 * block, 6 * block}});
  CHECK(three.finished == Ranges{{12 * block, 8 * block}});
}

TEST_CASE("GradientReduction: the ranges do not depend on how a rank comes to its gradients") {
  const OverlapChoice on(Overlap::on, true);
  const auto at_once = reduce(2, 30 * block, {30 * block}, on);
  CHECK(at_once.begun.size() == 4);
  std::vector<std::size_t> ends;
  for (std::size_t end = 0; end < 30 * block; end += 100'000) ends.push_back(end);
  ends.push_back(30 * block);
  const auto in_steps = reduce(2, 30 * block, ends, on);
  CHECK(in_steps.begun == at_once.begun);
  CHECK(in_steps.finished == at_once.finished);
}

TEST_CASE("GradientReduction: what is left for the end has at least a block for each rank") {
  const OverlapChoice on(Overlap::on, true);
  for (const int ranks : {2, 3, 4, 8})
    for (std::size_t size = block; size < 40 * block; size += block / 2 + 7) {
      const auto r = reduce(ranks, size, {size / 3, size / 2, size}, on);
      std::size_t next = 0;
      for (const auto& [offset, count] : r.begun) {
        REQUIRE(static_cast<std::size_t>(offset) == next);
        REQUIRE(next % (block * static_cast<std::size_t>(ranks)) == 0);
        REQUIRE(count >= 4 * block);
        next += count;
      }
      REQUIRE(static_cast<std::size_t>(r.finished.at(0).first) == next);
      REQUIRE(next + r.finished[0].second == size);
      if (next > 0) REQUIRE(r.finished[0].second >= block * static_cast<std::size_t>(ranks));
    }
}

TEST_CASE("GradientReduction: without overlap all is reduced at the end") {
  OverlapChoice measuring(Overlap::automatic, true);
  for (const OverlapChoice& choice : {OverlapChoice(), OverlapChoice(Overlap::off, true), measuring}) {
    const auto r = reduce(2, 20 * block, {10 * block, 20 * block}, choice);
    CHECK(r.begun.empty());
    CHECK(r.finished == std::vector<std::pair<std::ptrdiff_t, std::size_t>>{{0, 20 * block}});
  }
}
