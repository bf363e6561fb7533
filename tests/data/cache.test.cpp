#include "lockstep/data/cache.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "data/stage_testing.hpp"
#include "data/support.hpp"
#include "golden/data_stages.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/generator.hpp"
#include "lockstep/data/window.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

const auto add_noise = [](ls::Sample<double>& s) { s.x[0] += ls::RandomStream(s.key).uniform(); };

/// Counts how many samples are read through it.
struct Counted {
  std::shared_ptr<std::atomic<int>> count = std::make_shared<std::atomic<int>>(0);
  void operator()(ls::Sample<double>&) const { ++*count; }
};

void write_all(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace

TEST_SUITE("Keras: dataset pipeline: cache") {
  TEST_CASE("runs upstream once; order and augmentation of the first pass stay") {
    const Counted counted;
    const auto cached = numbers(7).map(counted).map(add_noise).shuffle(7).cache();
    CHECK(cached.cardinality() == 7);
    CHECK(ls::range(5).cache().cardinality() == golden_data::cardinality_of_cache_finite);
    auto dataset = ls::AnyDataset(cached.batch(3));
    const RowBatches first = row_batches(dataset, {4, 0});
    CHECK(*counted.count == 7);
    CHECK(row_batches(dataset, {4, 1}) == first);
    CHECK(row_batches(cached.repeat(2).batch(7), {4, 2})[1] ==
          row_batches(cached.batch(7), {4, 0})[0]);
    CHECK(*counted.count == 7);
    CHECK(row_batches(dataset, {5, 0}) != first);
    CHECK(*counted.count == 14);
    CHECK(row_batches(numbers(7).map(add_noise).shuffle(7).map([](auto&) {}).batch(3), {4, 0})
              .size() == first.size());
  }
  TEST_CASE("what comes behind it is drawn anew in each pass") {
    const auto augmented = numbers(7).cache().map(add_noise).batch(7);
    CHECK(row_batches(augmented, {4, 0}) != row_batches(augmented, {4, 1}));
    const auto shuffled = numbers(20).cache().shuffle(20).batch(20);
    CHECK(row_batches(shuffled, {4, 0}) != row_batches(shuffled, {4, 1}));
  }
  TEST_CASE("seeking, two workers, both scalar types, samples made of others") {
    const TemporaryFolder folder;
    check_stage(numbers(11).map(add_noise).shuffle(5).cache().shuffle(4).repeat(2).batch(4));
    check_stage(numbers(11).map(add_noise).window(2, 1).cache().window(2).cache().batch(2));
    check_stage(numbers(11)
                    .map(add_noise)
                    .shuffle(5)
                    .cache(folder.path("cache"))
                    .shuffle(4)
                    .repeat(2)
                    .batch(4));
    auto cached = numbers(5).cache().batch(5);
    cached.begin({});
    cached.next();
    CHECK(Read<float>(cached).y(4, 0) == 40.0f);
    CHECK(Read<double>(cached).y(4, 0) == 40.0);
    CHECK(Read<float>(cached).x(4, 0) == 4.0f);
    CHECK(Read<float>(cached).x.padding_is(0.0f));
    const Tensor<float> x(5, 1);
    cached.read(std::span<const std::size_t>(all_positions(cached)), x.view(),
                ls::TensorView<float>{});
    CHECK(x(3, 0) == 3.0f);
  }
  TEST_CASE("copies in several threads share it") {
    const TemporaryFolder folder;
    for (const std::string& path : {std::string(), folder.path("cache")}) {
      const Counted counted;
      const ls::AnyDataset dataset =
          numbers(50).map(counted).map(add_noise).cache(path).shuffle(50).batch(10);
      const RowBatches expected = row_batches(dataset, {1, 1});
      std::vector<RowBatches> got(3);
      std::vector<std::thread> threads;
      for (RowBatches& own : got)
        threads.emplace_back([&own, &dataset] { own = row_batches(dataset, {1, 1}); });
      for (std::thread& thread : threads) thread.join();
      for (const RowBatches& own : got) CHECK(own == expected);
      CHECK(*counted.count == 50);
    }
  }
  TEST_CASE("a file lasts: another run, with another seed, reads nothing upstream") {
    const TemporaryFolder folder;
    const std::string path = folder.path("cache");
    const auto run = [&](const Counted& counted, std::uint64_t seed) {
      return row_batches(numbers(9).map(counted).map(add_noise).shuffle(9).cache(path).batch(4),
                         {seed, 3});
    };
    const Counted first, second, third;
    const RowBatches rows = run(first, 1);
    CHECK(*first.count == 9);
    CHECK(run(second, 2) == rows);
    CHECK(*second.count == 0);

    // A record that a killed process left incomplete is made again.
    const std::string bytes = file_text(path);
    write_all(path, bytes.substr(0, bytes.size() - 5));
    CHECK(run(third, 3) == rows);
    CHECK(*third.count == 1);
    CHECK(file_text(path).size() == bytes.size());
  }
  TEST_CASE("a file of other data, or a damaged one, is refused") {
    const TemporaryFolder folder;
    const std::string path = folder.path("cache");
    const auto error = [&](const ls::AnyDataset& dataset) {
      return message_of<ls::DataError>([&] { (void)row_batches(dataset); });
    };
    CHECK(error(numbers(9).cache(path).batch(4)) == "NO EXCEPTION");
    const std::string bytes = file_text(path);
    CHECK(contains(error(numbers(8).cache(path).batch(4)),
                   "was made from other data or by another pipeline"));
    CHECK(contains(error(numbers(9).map(add_noise).cache(path).batch(4)),
                   "delete it, or give another path"));
    CHECK(error(numbers(9).cache(path).batch(4)) == "NO EXCEPTION");

    std::string damaged = bytes;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    write_all(path, damaged);
    CHECK(contains(error(numbers(9).cache(path).batch(4)), "is damaged"));
    damaged = bytes;
    damaged[40] = static_cast<char>(damaged[40] ^ 1);
    write_all(path, damaged);
    CHECK(contains(error(numbers(9).cache(path).batch(4)), "damaged header"));
    write_all(path, "no cache, but a text of another program");
    CHECK(contains(error(numbers(9).cache(path).batch(4)), "is no cache of this library"));
    write_all(path, "short");
    CHECK(contains(error(numbers(9).cache(path).batch(4)), "is no cache of this library"));
    CHECK(contains(error(numbers(9).cache(folder.path("missing/cache")).batch(4)),
                   "cannot be opened"));
  }
  TEST_CASE(
      "a file has one owner; others take a file beside it; workers with own files have own "
      "caches") {
    const TemporaryFolder folder;
    const std::string path = folder.path("cache");
    ls::AnyDataset one = numbers(4).cache(path).batch(4), two = numbers(4).cache(path).batch(4);
    CHECK(row_batches(one) == row_batches(two));
    CHECK(std::filesystem::exists(path + ".1"));
    CHECK(file_text(path) == file_text(path + ".1"));

    const auto reader = [](const std::string& name) {
      return ls::Tensor<int>(std::vector<int>(2, std::stoi(name)));
    };
    ls::AnyDataset files = ls::from_files({"1", "2"}, reader).cache(folder.path("part")).batch(2);
    files.shard_files(2, 1);
    CHECK(row_batches(files) == RowBatches{{{2}}, {{2}}});
    CHECK(std::filesystem::exists(folder.path("part.1-of-2")));
  }
}
