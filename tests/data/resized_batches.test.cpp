#include "lockstep/data/resized_batches.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/support.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/distributed_dataset.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::detail::ResizedBatches;

namespace {

/// `stream` in batches of `size`.
Batches cut(const Indices& stream, std::size_t size) {
  Batches batches;
  for (std::size_t at = 0; at < stream.size(); at += size)
    batches.push_back(slice(stream, at, std::min(at + size, stream.size())));
  return batches;
}

ls::AnyDataset shuffled(std::int64_t batch) { return numbers(50).shuffle(50).batch(batch); }

/// Batches without a description, of the sizes 4, 1, 4, 1, ...
struct Uneven {
  std::int64_t at = 0;
  Indices now;

  [[nodiscard]] std::size_t sample_size() const { return 1; }
  [[nodiscard]] std::size_t target_size() const { return 0; }
  [[nodiscard]] std::int64_t cardinality() const { return 8; }
  void begin(ls::Iteration) { seek(0); }
  std::size_t next() {
    now.clear();
    if (at == 8) return 0;
    const std::int64_t first = at / 2 * 5 + (at % 2) * 4;
    now = range(first, first + (at % 2 == 0 ? 4 : 1));
    ++at;
    return now.size();
  }
  [[nodiscard]] std::span<const std::int64_t> sample_indices() const { return now; }
  template <class T>
  void read(std::span<const std::size_t> positions, ls::TensorView<T> x, ls::TensorView<T>) {
    for (std::size_t i = 0; i < x.stride(); ++i)  // as its own rules for padding allow
      x.data()[i] = static_cast<T>(i < positions.size() ? now[positions[i]] : 99);
  }
  [[nodiscard]] std::int64_t position() const { return at; }
  void seek(std::int64_t position) {
    at = position;
    now.clear();
  }
};
static_assert(ls::Dataset<Uneven>);

}  // namespace

TEST_CASE("ResizedBatches: a part of the size, rounded down, but at least one sample") {
  for (const std::int64_t iteration : {0, 1}) {
    const ls::Iteration pass{.seed = 5, .number = iteration};
    const Indices stream = flat(batches_of(shuffled(12), pass));
    CHECK(sorted(stream) == range(0, 50));
    CHECK(batches_of(ResizedBatches(shuffled(12), 3, 3), pass) == batches_of(shuffled(12), pass));
    CHECK(batches_of(ResizedBatches(shuffled(12), 2, 3), pass) == cut(stream, 8));
    CHECK(batches_of(ResizedBatches(shuffled(12), 1, 3), pass) == cut(stream, 4));
    CHECK(batches_of(ResizedBatches(shuffled(12), 5, 7), pass) == cut(stream, 8));
    CHECK(batches_of(ResizedBatches(shuffled(12), 1, 20), pass) == cut(stream, 1));
  }
}

TEST_CASE("ResizedBatches: batches of another size begin at any sample: each comes once") {
  const ls::Iteration pass{.seed = 9};
  const Indices stream = flat(batches_of(shuffled(12), pass));
  for (std::size_t at = 0; at <= stream.size(); ++at)
    for (const int part : {1, 2, 3}) {
      CAPTURE(at);
      CAPTURE(part);
      ResizedBatches batches(shuffled(12), part, 3);
      batches.begin(pass);
      batches.seek(static_cast<std::int64_t>(at));
      CHECK(batches.position() == static_cast<std::int64_t>(at));
      CHECK(rest(batches) ==
            cut(slice(stream, at, stream.size()), static_cast<std::size_t>(4 * part)));
      CHECK(batches.position() == 50);
      batches.seek(static_cast<std::int64_t>(at / 2));  // and back
      CHECK(flat(rest(batches)) == slice(stream, at / 2, stream.size()));
    }
}

TEST_CASE("ResizedBatches: reads what lies in several batches of the dataset, as one") {
  ResizedBatches batches(ls::AnyDataset(weighted_numbers(23).batch(5)), 4, 5);
  CHECK(batches.weight_size() == 1);
  batches.begin({});
  for (const std::size_t size : {4u, 4u, 4u, 4u, 4u, 3u}) {
    REQUIRE(batches.next() == size);
    const auto first = static_cast<std::size_t>(batches.sample_indices()[0]);
    const Read<float> all(batches);
    for (std::size_t i = 0; i < size; ++i) {
      CHECK(all.x(i, 0) == static_cast<float>(first + i));
      CHECK(all.y(i, 0) == 10 * static_cast<float>(first + i));
      CHECK(all.y(i, 1) == 100 * static_cast<float>(first + i));
    }
    const std::vector<std::size_t> some =
        size == 4 ? std::vector<std::size_t>{1, 3} : std::vector<std::size_t>{0, 2};
    Tensor<double> x(2, 1);
    batches.read(some, x.view(), {});
    for (std::size_t i = 0; i < 2; ++i) CHECK(x(i, 0) == static_cast<double>(first + some[i]));
  }
  CHECK(batches.next() == 0);
  CHECK(batches.next() == 0);
  Tensor<float> x(1, 1);
  const std::vector<std::size_t> none{0};
  CHECK_THROWS_AS(batches.read(none, x.view(), {}), ls::DataError);
}

TEST_CASE("ResizedBatches: sizes that differ, and no description: the first batch's counts") {
  ResizedBatches batches(ls::AnyDataset(Uneven{}), 3, 4);
  CHECK(batches_of(batches) == cut(range(0, 20), 3));
  ResizedBatches large(ls::AnyDataset(Uneven{}), 7, 4);  // over three of them at once
  large.begin({});
  for (const std::size_t size : {7u, 7u, 6u}) {
    REQUIRE(large.next() == size);
    const Read<float> all(large);
    for (std::size_t i = 0; i < size; ++i)
      CHECK(all.x(i, 0) == static_cast<float>(large.sample_indices()[i]));
  }
}

TEST_CASE("ResizedBatches: data without end, and copies that go their own way") {
  const ls::AnyDataset endless = numbers(7).repeat().batch(5);
  ResizedBatches batches(endless, 3, 5);
  CHECK(batches.cardinality() == ls::infinite_cardinality);
  CHECK(ResizedBatches(shuffled(5), 3, 5).cardinality() == ls::unknown_cardinality);
  batches.begin({});
  batches.seek(700'001);
  CHECK(rest(batches, 2) == Batches{{1, 2, 3}, {4, 5, 6}});
  ResizedBatches copy = batches;
  CHECK(rest(batches, 2) == Batches{{0, 1, 2}, {3, 4, 5}});
  CHECK(rest(copy, 1) == Batches{{0, 1, 2}});
}

TEST_CASE("ResizedBatches: misuse is an error") {
  ResizedBatches batches(shuffled(5), 1, 2);
  CHECK_THROWS_AS(batches.next(), ls::Error);
  CHECK_THROWS_AS(batches.seek(1), ls::Error);
  batches.begin({});
  CHECK_THROWS_AS(batches.seek(-1), ls::Error);
}

TEST_CASE("ResizedBatches: the ranks of a world share them, and all see the end") {
  const ls::Iteration pass{.seed = 2};
  const Indices stream = flat(batches_of(shuffled(12), pass));
  Indices seen;
  std::vector<ls::DistributedDataset<ls::AnyDataset>> ranks;
  for (int worker = 0; worker < 2; ++worker) {
    ranks.emplace_back(ls::AnyDataset(ResizedBatches(shuffled(12), 2, 3)),
                       ls::DistributionContext{.num_workers = 2, .worker = worker});
    ranks.back().begin(pass);
    ranks.back().seek(3);
  }
  for (int step = 0; step < 6; ++step) {  // 47 samples in batches of 8
    for (auto& rank : ranks) {
      REQUIRE(rank.has_next());
      REQUIRE(rank.next());
      CHECK(rank.batch_size() == (step < 5 ? 8u : 7u));
      const auto own = rank.sample_indices();
      seen.insert(seen.end(), own.begin(), own.end());
    }
  }
  for (auto& rank : ranks) {
    CHECK_FALSE(rank.has_next());
    CHECK_FALSE(rank.next());
  }
  CHECK(sorted(seen) == sorted(slice(stream, 3, 50)));
}
