#include "lockstep/data/stream.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "data/stage_testing.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/distributed_dataset.hpp"
#include "lockstep/data/filter.hpp"
#include "lockstep/data/parallel_read.hpp"
#include "lockstep/data/tensor_slices.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

struct Counts {
  std::atomic<int> opened = 0, given = 0;
};

/// Sample i is (i, i * i), its target 10 i; move-only. It counts.
auto counting(int samples, Counts* counts = nullptr, std::size_t keep = 1024) {
  return ls::from_stream(
      [=] {
        if (counts != nullptr) ++counts->opened;
        return [=, n = std::make_unique<int>(0)](ls::Sample<float>& sample) {
          if (*n == samples) return false;
          if (counts != nullptr) ++counts->given;
          CHECK(sample.index == *n);
          CHECK(sample.x[1] == 0);
          sample.x[0] = static_cast<float>(*n);
          sample.x[1] = static_cast<float>(*n * *n);
          sample.y[0] = static_cast<float>(10 * *n);
          ++*n;
          return true;
        };
      },
      {.sample_size = 2, .target_size = 1, .keep = keep});
}

/// Reads all batches; each sample must be what its number says. Returns the numbers.
template <class D>
Indices read_all(D& dataset) {
  Indices seen;
  while (dataset.next() > 0) {
    const Read<double> read(dataset);
    for (std::size_t i = 0; i < read.x.samples(); ++i) {
      const auto number = static_cast<double>(dataset.sample_indices()[i]);
      CHECK(read.x(i, 0) == number);
      CHECK(read.x(i, 1) == number * number);
      CHECK(read.y(i, 0) == 10 * number);
      seen.push_back(dataset.sample_indices()[i]);
    }
  }
  return seen;
}

}  // namespace

TEST_SUITE_BEGIN("Keras: dataset pipeline: from_stream");

TEST_CASE("from_stream: batches until the stream ends; each pass opens it anew") {
  Counts counts;
  auto dataset = counting(25, &counts).batch(10);
  static_assert(ls::Dataset<decltype(dataset)>);
  CHECK(dataset.cardinality() == ls::unknown_cardinality);
  CHECK(dataset.sample_size() == 2);
  CHECK(dataset.target_size() == 1);
  CHECK(counts.opened == 0);  // until a pass begins
  for (int pass = 0; pass < 2; ++pass) {
    dataset.begin({.seed = 1, .number = pass});
    CHECK(read_all(dataset) == range(0, 25));
    CHECK(dataset.next() == 0);
    CHECK(counts.opened == pass + 1);
    CHECK(counts.given == 25 * (pass + 1));
  }
}

TEST_CASE("from_stream: an empty stream, and one that ends with a batch") {
  auto empty = counting(0).batch(4);
  empty.begin({});
  CHECK(empty.next() == 0);
  CHECK(empty.next() == 0);
  auto whole = counting(8).batch(4);
  whole.begin({});
  CHECK(read_all(whole) == range(0, 8));
}

TEST_CASE("from_stream: shuffle, filter, map, repeat, take and skip go on over it") {
  auto shuffled = counting(40).shuffle(7).repeat(3).batch(9);
  shuffled.begin({.seed = 3});
  const Indices seen = read_all(shuffled);
  REQUIRE(seen.size() == 120);
  for (std::size_t pass = 0; pass < 3; ++pass)
    CHECK(sorted(slice(seen, 40 * pass, 40 * pass + 40)) == range(0, 40));
  CHECK(slice(seen, 0, 40) != slice(seen, 40, 80));
  auto taken = counting(40).skip(5).take(6).batch(4);
  taken.begin({});
  CHECK(read_all(taken) == range(5, 11));
  auto filtered = counting(10).filter([](const auto& sample) { return sample.x[0] > 6; }).batch(2);
  filtered.begin({});
  CHECK(read_all(filtered) == range(7, 10));
  auto mapped = counting(3).map([](auto& sample) { sample.x[0] += 1; }).batch(3);
  mapped.begin({});
  REQUIRE(mapped.next() == 3);
  CHECK(Read<float>(mapped).x(2, 0) == 3);
}

TEST_CASE("from_stream: repetitions that lie in one shuffle buffer keep their samples") {
  for (const std::size_t keep : {1U, 1024U}) {
    auto dataset = counting(6, nullptr, keep).repeat(10).shuffle(30).batch(5);
    dataset.begin({.seed = 2});
    const Indices seen = sorted(read_all(dataset));
    REQUIRE(seen.size() == 60);
    for (std::size_t i = 0; i < 60; ++i) CHECK(seen[i] == static_cast<std::int64_t>(i / 10));
  }
}

TEST_CASE("from_stream: what is kept no more is read again, and then more is kept") {
  Counts counts;
  auto dataset = counting(2'000, &counts, 1).shuffle(100).batch(16);
  dataset.begin({.seed = 5});
  CHECK(sorted(read_all(dataset)) == range(0, 2'000));
  INFO("opened ", counts.opened.load(), " times");
  CHECK(counts.opened > 1);
  CHECK(counts.opened < 20);
  // One that cannot be read twice says so.
  auto gone = ls::from_stream(
                  [left = std::make_shared<int>(100)] {
                    return [left](ls::Sample<float>&) { return (*left)-- > 0; };
                  },
                  {.sample_size = 1, .keep = 1})
                  .shuffle(50)
                  .batch(10);
  gone.begin({});
  const auto read = [&] {
    while (gone.next() > 0) Read<float> all(gone);
  };
  CHECK_THROWS_WITH_AS(read(), doctest::Contains("its end, after samples: "), ls::DataError);
}

namespace {

/// One counter for all streams, as std::cin is one: what was read comes never again.
auto once(std::size_t keep, int* opened) {
  return ls::from_stream(
      [=, n = std::make_shared<int>(0)] {
        ++*opened;
        return [n](ls::Sample<float>& sample) {
          if (*n == 20'000) return false;
          sample.x[0] = static_cast<float>(*n);
          sample.x[1] = static_cast<float>(*n * *n);
          sample.y[0] = static_cast<float>(10 * *n);
          ++*n;
          return true;
        };
      },
      {.sample_size = 2, .target_size = 1, .keep = keep});
}

}  // namespace

TEST_CASE("from_stream: what cannot be read twice is right, or an error") {
  int opened = 0;
  const auto right = [&](auto dataset) {
    opened = 0;
    dataset.begin({.seed = 3});
    Indices seen;
    while (dataset.next() > 0) {
      const Read<double> read(dataset);
      for (std::size_t i = 0; i < read.x.samples(); ++i) {
        if (read.x(i, 0) != static_cast<double>(dataset.sample_indices()[i])) return false;
        seen.push_back(dataset.sample_indices()[i]);
      }
    }
    return sorted(seen) == range(0, 20'000) && opened == 1;
  };
  CHECK(right(once(1024, &opened).batch(2048)));
  CHECK(right(once(1024, &opened).batch(16'000)));
  CHECK(right(once(1, &opened).batch(16)));
  CHECK(right(once(1024, &opened).shuffle(200).batch(32)));  // some stay there for 2'000 samples
  CHECK(right(once(1024, &opened).shuffle(3'000).batch(500)));
  CHECK(
      right(once(std::size_t(-1), &opened).filter([](const auto&) { return true; }).batch(9'000)));
  // The rule has an end, and filter reads each sample before the batch does.
  const char* const says =
      "sample 0 differs from before; make .keep larger: it was 100, and must be at least ";
  CHECK_THROWS_WITH_AS(right(once(100, &opened).batch(3'000)), doctest::Contains(says),
                       ls::DataError);
  CHECK(opened == 2);
  CHECK_THROWS_WITH_AS(
      right(once(100, &opened).filter([](const auto&) { return true; }).batch(300)),
      doctest::Contains(says), ls::DataError);
}

TEST_CASE("from_stream: who begins late, or again, has the same samples, or an error") {
  for (const std::size_t keep : {16U, 4096U}) {
    CAPTURE(keep);
    Counts counts;
    auto first = counting(500, &counts, keep).batch(20);
    auto late = first;
    first.begin({});
    CHECK(read_all(first) == range(0, 500));
    late.begin({});
    CHECK(read_all(late) == range(0, 500));
    CHECK(counts.opened == (keep == 16 ? 2 : 1));
  }
  int opened = 0;
  auto first = once(16, &opened).batch(20);
  auto late = first;
  first.begin({});
  for (int batch = 0; batch < 10; ++batch) {
    first.next();
    const Read<double> read(first);
  }
  const std::string says = "sample 0 differs from before";
  late.begin({});
  CHECK_THROWS_WITH_AS(late.next(), doctest::Contains(says.c_str()), ls::DataError);
  // Backwards:
  CHECK_THROWS_WITH_AS(first.seek(2), doctest::Contains(says.c_str()), ls::DataError);
  first.begin({.number = 1});  // another pass goes on where the counter is
  CHECK(first.next() == 20);
}

TEST_CASE("from_stream: while the stream waits, others read what has come") {
  std::binary_semaphore waits(0), go_on(0);
  auto dataset = ls::from_stream(
                     [&] {
                       return [&, n = 0](ls::Sample<float>& sample) mutable {
                         if (n == 8) {
                           waits.release();
                           if (!go_on.try_acquire_for(std::chrono::seconds(60))) return false;
                         }
                         sample.x[0] = static_cast<float>(n);
                         return n++ < 12;
                       };
                     },
                     {.sample_size = 1})
                     .batch(4);
  dataset.begin({});
  auto other = dataset;
  CHECK(other.next() == 4);
  std::thread thread([&] {
    while (dataset.next() > 0) Read<float> all(dataset);
  });
  waits.acquire();
  CHECK(Read<float>(other).x(3, 0) == 3);
  CHECK(other.next() == 4);
  CHECK(Read<float>(other).x(3, 0) == 7);
  go_on.release();
  CHECK(other.next() == 4);
  CHECK(Read<float>(other).x(3, 0) == 11);
  CHECK(other.next() == 0);
  thread.join();
}

TEST_CASE("from_stream: seeking anywhere equals running there") {
  check_stage(ls::AnyDataset(counting(20).shuffle(6).batch(3)));
  auto dataset = counting(50).shuffle(8).batch(7);
  const Batches all = batches_of(dataset, {.seed = 4, .number = 2});
  REQUIRE(all.size() == 8);
  for (std::int64_t to = 0; to <= 9; ++to) {
    auto other = counting(50, nullptr, 8).shuffle(8).batch(7);
    other.begin({.seed = 4, .number = 2});
    other.seek(to);
    CHECK(other.position() == std::min<std::int64_t>(to, 8));
    Batches left;
    while (other.next() > 0) {
      left.push_back(to_indices(other.sample_indices()));
      const Read<float> read(other);
      for (std::size_t i = 0; i < read.x.samples(); ++i)
        CHECK(read.x(i, 0) == static_cast<float>(left.back()[i]));
    }
    CHECK(left == Batches(all.begin() + std::min<std::int64_t>(to, 8), all.end()));
    other.seek(1);  // backwards
    CHECK(other.next() == 7);
    CHECK(to_indices(other.sample_indices()) == all[1]);
  }
}

TEST_CASE("from_stream: the key of a pass is the same for all, and another in each pass") {
  const auto keyed = [] {
    return ls::from_stream(
               [](ls::RandomKey key) {
                 return [random = ls::RandomStream(key), n = 0](ls::Sample<float>& sample) mutable {
                   sample.x[0] = static_cast<float>(random.uniform(0, 1));
                   return n++ < 5;
                 };
               },
               {.sample_size = 1})
        .batch(5);
  };
  std::vector<float> first;
  for (const std::int64_t number : {0, 0, 1}) {
    auto dataset = keyed();
    dataset.begin({.seed = 9, .number = number});
    REQUIRE(dataset.next() == 5);
    const Read<float> read(dataset);
    std::vector<float> values;
    for (std::size_t i = 0; i < 5; ++i) values.push_back(read.x(i, 0));
    if (first.empty()) first = values;
    CHECK((values == first) == (number == 0));
  }
}

TEST_CASE("from_stream: copies in a process share one stream, looking ahead too") {
  for (const bool late : {false, true}) {  // late: some begin when others have read past .keep
    CAPTURE(late);
    Counts counts;
    const ls::AnyDataset dataset(counting(64, &counts, late ? 1 : 1024).shuffle(5).batch(8));
    std::vector<Indices> seen(3);
    std::barrier all_have_begun(3);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        ls::DistributedDataset<ls::AnyDataset> mine(
            dataset, {.num_workers = 1, .worker = 0, .local_replicas = 3, .local_replica = rank});
        mine.begin({.seed = 1});
        if (!late) all_have_begun.arrive_and_wait();
        while (mine.next()) {
          Tensor<float> x(mine.samples(), 2), y(mine.samples(), 1);
          mine.read(x.view(), y.view());
          for (std::size_t i = 0; i < mine.samples(); ++i) {
            if (x(i, 0) != static_cast<float>(mine.sample_indices()[i])) return;
            seen[static_cast<std::size_t>(rank)].push_back(mine.sample_indices()[i]);
          }
          if (mine.has_next() != (mine.position() < 8)) return;
        }
      });
    for (std::thread& thread : threads) thread.join();
    Indices all = flat(seen);
    CHECK(sorted(all) == range(0, 64));
    if (late) continue;
    CHECK(counts.opened == 1);
    CHECK(counts.given == 64);
  }
}

TEST_CASE("from_stream: parallel_read reads it, with weights") {
  const auto weighted = [](std::int64_t threads) {
    auto samples = ls::from_stream(
        [] {
          return [n = 0](ls::Sample<float>& sample) mutable {
            sample.x[0] = static_cast<float>(n);
            if (n % 2 == 1) sample.weights[0] = 0.5F;
            return n++ < 100;
          };
        },
        {.sample_size = 1, .target_size = 1, .weight_size = 1});
    auto dataset = samples.parallel_read(threads).batch(40);
    CHECK(dataset.weight_size() == 1);
    dataset.begin({});
    std::vector<float> all;
    while (dataset.next() > 0) {
      const Read<float> read(dataset);
      for (std::size_t i = 0; i < read.x.samples(); ++i) {
        all.push_back(read.x(i, 0));
        CHECK(read.y(i, 1) == (static_cast<int>(read.x(i, 0)) % 2 == 1 ? 0.5F : 1.0F));
      }
    }
    return all;
  };
  CHECK(weighted(1) == weighted(3));
  CHECK(weighted(3).size() == 100);
}

TEST_CASE("from_stream: an exception of the stream comes to all, and sizes are checked") {
  auto broken = ls::from_stream(
                    [] {
                      return [n = 0](ls::Sample<float>&) mutable {
                        if (n++ == 5) throw std::runtime_error("the line is dead");
                        return true;
                      };
                    },
                    {.sample_size = 1})
                    .batch(4);
  broken.begin({});
  auto other = broken;
  CHECK(broken.next() == 4);
  CHECK_THROWS_WITH(broken.next(), "the line is dead");
  CHECK(other.next() == 4);  // read before
  CHECK_THROWS_WITH(other.next(), "the line is dead");
  CHECK_THROWS_WITH_AS(
      (void)ls::from_stream([] { return [](ls::Sample<float>&) { return false; }; }, {}),
      doctest::Contains(".sample_size must be at least 1"), ls::ConfigurationError);
}

TEST_SUITE_END();
