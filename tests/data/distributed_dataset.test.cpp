#include "lockstep/data/distributed_dataset.hpp"

#include <doctest/doctest.h>

#include "data/support.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/filter.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using ls::AutoShardPolicy;

/// The parts of every rank, by rank, then by step.
template <class D>
std::vector<Batches> parts_of(const D& dataset, int workers, int replicas = 1,
                              ls::Iteration iteration = {}) {
  std::vector<Batches> all;
  for (int worker = 0; worker < workers; ++worker)
    for (int replica = 0; replica < replicas; ++replica) {
      ls::DistributedDataset<D> rank(dataset, {workers, worker, replicas, replica});
      rank.begin(iteration);
      Batches parts;
      for (;;) {
        const bool more = rank.has_next();
        REQUIRE(rank.has_next() == more);
        REQUIRE(rank.next() == more);
        if (!more) break;
        REQUIRE(rank.samples() == rank.sample_indices().size());
        REQUIRE(rank.samples() == rank.positions().size());
        parts.push_back(to_indices(rank.sample_indices()));
        REQUIRE(rank.position() == static_cast<std::int64_t>(parts.size()));
      }
      REQUIRE_FALSE(rank.next());
      REQUIRE(rank.samples() == 0);
      REQUIRE(rank.position() == static_cast<std::int64_t>(parts.size()));
      if (rank.cardinality() >= 0)
        REQUIRE(rank.cardinality() == static_cast<std::int64_t>(parts.size()));
      all.push_back(parts);
    }
  return all;
}

template <class D>
auto with(const D& dataset, AutoShardPolicy policy) {
  return dataset.with_options({.auto_shard_policy = policy});
}

/// File "n" holds n samples, the numbers 100 n, 100 n + 1, ...
ls::Tensor<int> read_file(const std::string& name) {
  const int n = std::stoi(name);
  std::vector<int> values;
  for (int i = 0; i < n; ++i) values.push_back(100 * n + i);
  return ls::Tensor<int>(values);
}

/// What a rank reads in one pass.
template <class D>
std::vector<int> values_of(const D& dataset, ls::DistributionContext context) {
  ls::DistributedDataset<D> rank(dataset, context);
  rank.begin({});
  std::vector<int> values;
  while (rank.next()) {
    const Tensor<float> x(rank.samples(), 1);
    rank.read(x.view(), ls::TensorView<float>{});
    for (std::size_t i = 0; i < rank.samples(); ++i) values.push_back(static_cast<int>(x(i, 0)));
  }
  return values;
}

}  // namespace

TEST_SUITE("Keras: AutoShardPolicy") {
  TEST_CASE("a worker or a replica outside the cluster is an error") {
    using D = decltype(numbers(4).batch(2));
    CHECK_THROWS_AS(ls::DistributedDataset<D>(numbers(4).batch(2), {2, 2, 1, 0}),
                    ls::ConfigurationError);
    CHECK_THROWS_AS(ls::DistributedDataset<D>(numbers(4).batch(2), {2, 0, 2, 2}),
                    ls::ConfigurationError);
  }

  TEST_CASE(
      "data: elements are sharded, batches are global, and parts differ by at most one: 7 over 2 "
      "are 4 and 3") {
    CHECK(parts_of(numbers(7).batch(7), 2) == std::vector<Batches>{{{0, 2, 4, 6}}, {{1, 3, 5}}});
  }

  TEST_CASE(
      "data: it ends when no rank has data left; one that has run out takes part with an empty "
      "batch") {
    const auto parts = parts_of(numbers(10).batch(4), 3);
    CHECK(parts[0] == Batches{{0, 3}, {4, 7}, {8}});
    CHECK(parts[1] == Batches{{1}, {5}, {9}});
    CHECK(parts[2] == Batches{{2}, {6}, {}});
  }

  TEST_CASE(
      "data: a last partial batch is divided like any other: 10 samples in batches of 12 over 2 "
      "workers") {
    CHECK(parts_of(numbers(10).batch(12), 2) ==
          std::vector<Batches>{{{0, 2, 4, 6, 8}}, {{1, 3, 5, 7, 9}}});
  }

  TEST_CASE("data: ranks count worker by worker") {
    const auto parts = parts_of(numbers(9).batch(9), 2, 2);
    CHECK(parts == std::vector<Batches>{{{0, 4, 8}}, {{1, 5}}, {{2, 6}}, {{3, 7}}});
  }

  TEST_CASE("data: row i of a rank's part is position i * ranks + rank of the global batch") {
    auto dataset = numbers(20).shuffle(20).repeat(2).batch(7);
    const Batches all = batches_of(dataset, {3, 1});
    for (const int workers : {1, 2, 3, 4}) {
      const auto parts = parts_of(dataset, workers, 1, {3, 1});
      for (std::size_t step = 0; step < all.size(); ++step)
        for (std::size_t p = 0; p < all[step].size(); ++p) {
          const auto position = static_cast<std::int64_t>(p);
          const auto rank = static_cast<std::size_t>(ls::shard_of(position, workers));
          const auto row = static_cast<std::size_t>(position / workers);
          REQUIRE(parts[rank][step][row] == all[step][p]);
        }
    }
  }

  TEST_CASE("data: an empty dataset ends at once on every rank") {
    CHECK(parts_of(numbers(0).batch(4), 3) == std::vector<Batches>(3));
    CHECK(parts_of(numbers(0).repeat().batch(4), 3) == std::vector<Batches>(3));
  }

  TEST_CASE("off: every worker sees every sample, a part of each batch at a time") {
    const auto parts = parts_of(with(numbers(11).batch(7), AutoShardPolicy::off), 2);
    CHECK(parts[0] == Batches{{0, 1, 2, 3}, {4, 5, 6}, {7, 8}, {9, 10}});
    CHECK(parts[1] == parts[0]);
  }

  TEST_CASE("off: replicas share a part") {
    const auto parts = parts_of(with(numbers(8).batch(8), AutoShardPolicy::off), 2, 2);
    CHECK(parts[0] == Batches{{0, 2}, {4, 6}});
    CHECK(parts[1] == Batches{{1, 3}, {5, 7}});
    CHECK(parts[2] == parts[0]);
    CHECK(parts[3] == parts[1]);
  }

  TEST_CASE("off: a batch with fewer samples than workers has empty parts, on all workers alike") {
    const auto parts = parts_of(with(numbers(4).batch(3), AutoShardPolicy::off), 3);
    CHECK(parts[0] == Batches{{0}, {1}, {2}, {3}, {}, {}});
    CHECK(parts[2] == parts[0]);
  }

  TEST_CASE(
      "file: file i belongs to worker i % workers, and each reads its own, in its part of the "
      "batch size") {
    const auto dataset =
        with(ls::from_files({"3", "1", "2", "4"}, read_file).batch(4), AutoShardPolicy::file);
    CHECK(values_of(dataset, {2, 0}) == std::vector<int>{300, 301, 302, 200, 201});
    CHECK(values_of(dataset, {2, 1}) == std::vector<int>{100, 400, 401, 402, 403});

    const auto parts = parts_of(dataset, 2);
    CHECK(parts[0].size() == 3);
    CHECK(parts[0][0].size() == 2);
    CHECK(parts[0][2].size() == 1);
    CHECK(parts[1].size() == 3);
  }

  TEST_CASE("file: sizes of the parts differ by at most one") {
    const auto dataset =
        with(ls::from_files({"9", "9", "9"}, read_file).batch(8), AutoShardPolicy::file);
    const auto parts = parts_of(dataset, 3);
    CHECK(parts[0][0].size() == 3);
    CHECK(parts[1][0].size() == 3);
    CHECK(parts[2][0].size() == 2);
  }

  TEST_CASE("file: a worker with less data ends earlier") {
    const auto dataset =
        with(ls::from_files({"1", "9"}, read_file).batch(4), AutoShardPolicy::file);
    const auto parts = parts_of(dataset, 2);
    CHECK(parts[0].size() == 1);
    CHECK(parts[1].size() == 5);
  }

  TEST_CASE("file: the replicas of a worker share its batch") {
    const auto dataset =
        with(ls::from_files({"5", "4"}, read_file).batch(8), AutoShardPolicy::file);
    CHECK(values_of(dataset, {2, 0, 2, 0}) == std::vector<int>{500, 502, 504});
    CHECK(values_of(dataset, {2, 0, 2, 1}) == std::vector<int>{501, 503});
    CHECK(values_of(dataset, {2, 1, 2, 1}) == std::vector<int>{401, 403});
  }

  TEST_CASE("file: an upstream shuffle happens after the files are sharded") {
    const auto dataset = with(ls::from_files({"3", "1", "2", "4"}, read_file).shuffle(100).batch(4),
                              AutoShardPolicy::file);
    auto values = values_of(dataset, {2, 0});
    std::sort(values.begin(), values.end());
    CHECK(values == std::vector<int>{200, 201, 300, 301, 302});
  }

  TEST_CASE("file: no two workers have a sample number in common") {
    const auto parts =
        parts_of(with(ls::from_files({"3", "3"}, read_file).batch(6), AutoShardPolicy::file), 2);
    Indices all = flat(parts[0]);
    const Indices others = flat(parts[1]);
    all.insert(all.end(), others.begin(), others.end());
    all = sorted(all);
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  }

  TEST_CASE("file: no files, or fewer than workers, is an error that names both counts") {
    using D = decltype(numbers(4).batch(4));
    const auto wants_files = with(numbers(4).batch(4), AutoShardPolicy::file);
    const std::string none = message_of<ls::ConfigurationError>([&] {
      ls::DistributedDataset<D>(wants_files, {3, 0});
    });
    CHECK(contains(none, "0 files"));
    CHECK(contains(none, "3 workers"));

    const auto two = with(ls::from_files({"3", "1"}, read_file).batch(6), AutoShardPolicy::file);
    using F = std::remove_const_t<decltype(two)>;
    const std::string few = message_of<ls::ConfigurationError>([&] {
      ls::DistributedDataset<F>(two, {3, 0});
    });
    CHECK(contains(few, "2 files"));
    CHECK(contains(few, "3 workers"));
  }

  TEST_CASE("file: a batch smaller than the number of workers is an error") {
    const auto dataset =
        with(ls::from_files({"3", "1"}, read_file).batch(1), AutoShardPolicy::file);
    using D = std::remove_const_t<decltype(dataset)>;
    CHECK(contains(message_of<ls::ConfigurationError>([&] {
                     ls::DistributedDataset<D>(dataset, {2, 0});
                   }),
                   "batch of 1"));
  }

  TEST_CASE(
      "automatic: file where there are enough files, else data, said in the text for the log") {
    const auto decide = [](const auto& dataset, int workers) {
      ls::DistributedDataset<std::remove_cvref_t<decltype(dataset)>> rank(dataset, {workers, 0});
      return std::pair(rank.policy(), rank.policy_text());
    };
    const auto files = ls::from_files({"3", "1"}, read_file).batch(6);
    CHECK(decide(files, 2).first == AutoShardPolicy::file);
    CHECK(contains(decide(files, 2).second, "2 files for 2 workers"));
    CHECK(decide(files, 3).first == AutoShardPolicy::data);
    CHECK(contains(decide(files, 3).second, "2 files are fewer than 3 workers"));
    CHECK(decide(files, 1).first == AutoShardPolicy::data);
    CHECK(decide(numbers(4).batch(2), 2).first == AutoShardPolicy::data);
    CHECK(contains(decide(numbers(4).batch(2), 2).second, "no files"));
    CHECK(contains(decide(with(numbers(4).batch(2), AutoShardPolicy::off), 2).second, "chosen"));
  }

  TEST_CASE("the caller's policy replaces the dataset's") {
    const auto dataset = with(numbers(4).batch(4), AutoShardPolicy::off);
    ls::DistributedDataset<std::remove_const_t<decltype(dataset)>> rank(dataset, {2, 1},
                                                                        AutoShardPolicy::data);
    rank.begin({});
    CHECK(rank.next());
    CHECK(to_indices(rank.sample_indices()) == Indices{1, 3});
    CHECK(rank.batch_size() == 4);
  }

  TEST_CASE("reading a part") {
    ls::DistributedDataset rank(numbers(7).batch(7), ls::DistributionContext{2, 1});
    rank.begin({});
    CHECK(rank.has_next());
    CHECK(rank.next());
    CHECK_FALSE(rank.has_next());
    const Tensor<double> x(3, 1);
    const Tensor<double> y(3, 1);
    rank.read(x.view(), y.view());
    CHECK(x(2, 0) == 5.0);
    CHECK(y(2, 0) == 50.0);
    CHECK(x.padding_is(0.0));
  }

  TEST_CASE("seeking anywhere equals running there, under every policy") {
    const auto check = [](const auto& dataset, ls::DistributionContext context) {
      using D = std::remove_cvref_t<decltype(dataset)>;
      const auto run = [&](ls::DistributedDataset<D>& rank, std::size_t most) {
        Batches parts;
        while (parts.size() < most && rank.next())
          parts.push_back(to_indices(rank.sample_indices()));
        return parts;
      };
      ls::DistributedDataset<D> reference(dataset, context);
      reference.begin({4, 1});
      const Batches all = run(reference, 30);
      for (std::size_t to = 0; to <= all.size(); ++to) {
        ls::DistributedDataset<D> rank(dataset, context);
        rank.begin({4, 1});
        (void)run(rank, 5);
        (void)rank.has_next();
        rank.seek(static_cast<std::int64_t>(to));
        REQUIRE(rank.position() == static_cast<std::int64_t>(to));
        REQUIRE(rank.samples() == 0);
        REQUIRE(run(rank, 30 - to) ==
                Batches(all.begin() + static_cast<std::ptrdiff_t>(to), all.end()));
      }
    };
    const auto pipeline = numbers(10).shuffle(4).repeat(3).batch(7);
    check(pipeline, {2, 1});
    check(numbers(10).shuffle(4).repeat().batch(7), {3, 2, 2, 1});
    check(with(pipeline, AutoShardPolicy::off), {3, 1, 2, 0});
    check(with(numbers(4).batch(3).repeat(3), AutoShardPolicy::off), {3, 1});
    check(with(ls::from_files({"3", "1", "2", "4"}, read_file).shuffle(5).repeat(3).batch(4),
               AutoShardPolicy::file),
          {2, 1});
  }

  TEST_CASE("data that end although they promised more have no next part") {
    const auto none = numbers(6).filter([](const auto&) { return false; });
    const auto check = [](const auto& dataset) {
      ls::DistributedDataset rank(dataset, ls::DistributionContext{2, 1});
      for (const bool after_seek : {false, true}) {
        rank.begin({});
        if (after_seek) rank.seek(0);
        CHECK(rank.has_next());
        CHECK_FALSE(rank.next());
        CHECK_FALSE(rank.has_next());
        CHECK_FALSE(rank.next());
      }
    };
    check(none.repeat().batch(4));
    check(none.repeat().take(13).batch(2));
  }

  TEST_CASE("endless data have always a next part") {
    ls::DistributedDataset rank(numbers(3).repeat().batch(2), ls::DistributionContext{2, 1});
    CHECK(rank.cardinality() == ls::infinite_cardinality);
    rank.begin({});
    for (int i = 0; i < 20; ++i) {
      CHECK(rank.has_next());
      CHECK(rank.next());
    }
  }
}
