#include "lockstep/data/parallel_read.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "data/support.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/augmentation.hpp"
#include "lockstep/data/cache.hpp"
#include "lockstep/data/generator.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/window.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

const auto noise = [](auto& sample) {
  using T = std::remove_cvref_t<decltype(sample.x[0])>;
  ls::RandomStream random(sample.key);
  for (T& value : sample.x) value += static_cast<T>(random.uniform(0, 1));
  if (!sample.y.empty()) sample.y[0] += sample.x[0];
};

/// All batches of two epochs.
template <class T, class D>
std::vector<T> values(D dataset, std::int64_t begin_at = 0) {
  std::vector<T> all;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    dataset.begin({.seed = 7, .number = epoch});
    dataset.seek(begin_at);
    while (dataset.next() > 0) {
      const Read<T> batch(dataset);
      for (std::size_t i = 0; i < dataset.sample_indices().size(); ++i) {
        for (std::size_t f = 0; f < dataset.sample_size(); ++f) all.push_back(batch.x(i, f));
        for (std::size_t f = 0; f < dataset.target_size(); ++f) all.push_back(batch.y(i, f));
      }
      CHECK(batch.x.padding_is(T(0)));
    }
  }
  return all;
}

template <class P>
void check_alike(const P& pipeline) {
  for (const int batch : {1, 16, 33, 70}) {
    const auto expected = values<float>(pipeline.batch(batch));
    CHECK(expected.size() > 100);
    for (const int threads : {1, 2, 3, 8})
      CHECK(values<float>(pipeline.parallel_read(threads).batch(batch)) == expected);
    CHECK(values<double>(pipeline.parallel_read(3).batch(batch)) ==
          values<double>(pipeline.batch(batch)));
    CHECK(values<float>(pipeline.parallel_read(3).batch(batch), 1) ==
          values<float>(pipeline.batch(batch), 1));
  }
}

}  // namespace

TEST_CASE("parallel_read: the samples of one thread, whatever comes before it") {
  const auto samples = weighted_numbers(150).shuffle(50);
  SUBCASE("a random function") { check_alike(samples.map(noise)); }
  SUBCASE("a function with other sizes") {
    check_alike(samples.map(
        [](const ls::Sample<const float>& in, ls::Sample<float>& out) {
          ls::RandomStream random(out.key);
          for (auto& value : out.x) value = in.x[0] + static_cast<float>(random.uniform(0, 1));
          out.y[0] = in.y[0];
        },
        {.sample_size = 3, .target_size = 1}));
  }
  SUBCASE("a generator") {
    check_alike(ls::from_generator(
        [](auto& sample) {
          sample.x[0] = static_cast<float>(sample.index);
          sample.y[0] += sample.x[0];
        },
        {.size = 150, .sample_size = 2, .target_size = 1}));
  }
  SUBCASE("windows") { check_alike(ls::from_tensor_slices(std::vector<int>(300, 3)).window(4, 1)); }
  SUBCASE("several pipelines") {
    check_alike(ls::interleave({numbers(90).map(noise), numbers(60)}, {.block_length = 4}));
  }
  SUBCASE("a cache, which all threads share") {
    std::atomic<int> calls = 0;
    const auto pipeline = numbers(150).map([&calls](auto&) { ++calls; }).cache().parallel_read(4);
    (void)values<float>(pipeline.batch(70));
    CHECK(calls == 150);
  }
}

TEST_CASE("parallel_read: random numbers behind it are those without it") {
  const auto samples = numbers(90);
  CHECK(values<float>(samples.map(noise).parallel_read(3).map(noise).batch(40)) ==
        values<float>(samples.map(noise).map(noise).batch(40)));
}

TEST_CASE("parallel_read: threads read at once") {
  std::atomic<int> there = 0;
  const auto together = [&there](auto& sample) {
    if (sample.index % 16 != 0) return;  // the first sample of a thread waits for the other's
    ++there;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (there < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    sample.x[0] = static_cast<float>(there.load());
  };
  auto dataset = numbers(32).map(together).parallel_read(2).batch(32);
  dataset.begin({});
  REQUIRE(dataset.next() == 32);
  const Read<float> batch(dataset);
  CHECK(batch.x(0, 0) == 2);
  CHECK(batch.x(16, 0) == 2);
}

TEST_CASE("parallel_read: what a thread throws is thrown, and reading goes on") {
  const auto bad = [](auto& sample) {
    if (sample.index == 40 || sample.index == 70)
      throw std::runtime_error("sample " + std::to_string(sample.index));
  };
  auto dataset = numbers(160).map(bad).parallel_read(4).batch(80);
  dataset.begin({});
  REQUIRE(dataset.next() == 80);
  const auto read = [&] { (void)Read<float>(dataset); };
  CHECK_THROWS_WITH_AS(read(), "sample 40", std::runtime_error);
  REQUIRE(dataset.next() == 80);
  CHECK(Read<float>(dataset).x(79, 0) == 159);
}

TEST_CASE("parallel_read: copies are independent, and used in different threads") {
  auto dataset = numbers(200).map(noise).parallel_read(3).batch(64);
  const auto expected = values<float>(dataset);
  dataset.begin({});
  REQUIRE(dataset.next() == 64);
  (void)Read<float>(dataset);  // has threads now
  std::vector<std::vector<float>> results(3);
  std::vector<std::jthread> threads;
  for (auto& result : results)
    threads.emplace_back([&result, copy = dataset] { result = values<float>(copy); });
  threads.clear();
  for (const auto& result : results) CHECK(result == expected);
  dataset = numbers(200).map(noise).parallel_read(3).batch(64);
  CHECK(values<float>(dataset) == expected);
}

TEST_CASE("parallel_read: numbers of threads") {
  CHECK_THROWS_WITH_AS((void)numbers(3).parallel_read(0),
                       "parallel_read: num_threads must be autotune (-1) or in [1, 256], got 0",
                       ls::ConfigurationError);
  CHECK_THROWS_AS((void)numbers(3).parallel_read(257), ls::ConfigurationError);
  CHECK(samples_of(numbers(3).parallel_read()) == Indices{0, 1, 2});
}
