#include "lockstep/data/batch_loader.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "data/support.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// One batch of a rank: what the training loop would see of it.
struct Loaded {
  std::vector<std::int64_t> indices;
  std::vector<float> x, targets;  ///< with their padding
  std::size_t batch_size = 0;
  bool has_next = false;
  friend bool operator==(const Loaded&, const Loaded&) = default;
};

/// The next batches, at most `most`. Memory that is not the loader's is filled with rubbish before.
std::vector<Loaded> load_all(ls::BatchLoader<float>& loader, std::size_t features,
                             std::size_t most) {
  std::vector<Loaded> all;
  while (all.size() < most && loader.next()) {
    const std::size_t samples = loader.samples(), stride = ls::padded_batch(samples);
    std::vector<float> x(features * stride, -7), targets(stride, -7);
    const auto views = loader.load({ls::TensorView<float>(x.data(), samples, features, stride),
                                    ls::TensorView<float>(targets.data(), samples, 1, stride)});
    Loaded batch;
    batch.batch_size = loader.batch_size();
    batch.has_next = loader.has_next();
    batch.indices.assign(loader.sample_indices().begin(), loader.sample_indices().end());
    batch.x.assign(views.x.data(), views.x.data() + features * stride);
    batch.targets.assign(views.targets.data(), views.targets.data() + stride);
    all.push_back(std::move(batch));
  }
  return all;
}

ls::Tensor<float> rows(std::size_t count) {
  std::vector<float> values(count * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return {std::move(values), {count, 3}};
}
ls::Tensor<std::int32_t> labels(std::size_t count) { return std::vector<std::int32_t>(count, 4); }

}  // namespace

TEST_SUITE("Keras: dataset pipeline: prefetch") {
  TEST_CASE("reading ahead changes nothing but the time") {
    const auto pipeline =
        ls::from_tensor_slices(rows(23), labels(23)).shuffle(9, 4).repeat(2).batch(5);
    for (const int ranks : {1, 3, 7})  // (with 7, some have an empty part)
      for (const std::int64_t ahead : {1, 3, 40})
        for (int rank = 0; rank < ranks; ++rank) {
          CAPTURE(ranks);
          CAPTURE(ahead);
          const ls::DistributionContext context{.num_workers = ranks, .worker = rank};
          ls::BatchLoader<float> plain({pipeline, context}),
              prefetched({pipeline.prefetch(ahead), context});
          for (const std::int64_t pass : {0, 1}) {
            plain.begin({.seed = 1, .number = pass});
            prefetched.begin({.seed = 1, .number = pass});
            CHECK(prefetched.has_next());
            const auto expected = load_all(plain, 3, 100);
            CHECK(load_all(prefetched, 3, 100) == expected);
            CHECK(expected.size() == 10);
            CHECK(!prefetched.next());
            CHECK(!prefetched.has_next());
            plain.seek(4);
            prefetched.seek(4);
            CHECK(load_all(prefetched, 3, 2) == load_all(plain, 3, 2));
          }
        }
  }

  TEST_CASE("without targets, none are read") {
    ls::BatchLoader<float> loader(
        {ls::from_tensor_slices(rows(8), labels(8)).batch(4).prefetch(2), {}}, false);
    loader.begin({});
    REQUIRE(loader.next());
    CHECK(loader.load({}).targets.features() == 0);
    CHECK(loader.load({}).x.features() == 3);
  }

  TEST_CASE("a thread reads batches while the one before is in use, and no more than asked for") {
    const auto reads = std::make_shared<std::atomic<int>>(0);
    const auto pipeline =
        ls::from_tensor_slices(rows(40), labels(40)).map([reads](auto&) { ++*reads; }).batch(2);
    ls::BatchLoader<float> loader({pipeline.prefetch(3), {}});
    loader.begin({});
    CHECK(*reads == 0);
    REQUIRE(loader.next());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (*reads < 8 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    CHECK(*reads == 8);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(*reads == 8);
    loader.begin({.number = 1});  // while more could be read
    CHECK(load_all(loader, 3, 100).size() == 20);
  }

  TEST_CASE("what the reading thread throws, next throws; after begin all is well again") {
    const auto damaged = std::make_shared<std::atomic<bool>>(true);
    const auto pipeline = ls::from_tensor_slices(rows(9), labels(9)).map([damaged](auto& sample) {
      if (*damaged && sample.x[0] == 12) throw ls::DataError("sample 4 is damaged");
    });
    ls::BatchLoader<float> loader({pipeline.batch(2).prefetch(4), {}});
    loader.begin({});
    CHECK(load_all(loader, 3, 2).size() == 2);
    CHECK_THROWS_WITH_AS(loader.next(), "sample 4 is damaged", ls::DataError);
    CHECK(!loader.next());
    *damaged = false;
    loader.begin({});
    CHECK(load_all(loader, 3, 100).size() == 5);
  }

  TEST_CASE("prefetch: its size goes along with the pipeline; wrong sizes are refused") {
    const auto pipeline = ls::from_tensor_slices(rows(9), labels(9)).batch(2);
    CHECK(pipeline.prefetch_size() == 0);
    CHECK(pipeline.prefetch().prefetch_size() == 2);
    CHECK(pipeline.prefetch(ls::autotune).prefetch_size() == 2);
    CHECK(pipeline.prefetch(5).take(3).with_options({}).prefetch_size() == 5);
    CHECK(ls::AnyDataset(pipeline.prefetch(5)).prefetch_size() == 5);
    CHECK_THROWS_WITH_AS((void)pipeline.prefetch(-2),
                         "prefetch: buffer_size must be autotune (-1) or in [0, 1024], got -2",
                         ls::ConfigurationError);
    CHECK_THROWS_AS((void)pipeline.prefetch(1025), ls::ConfigurationError);
  }
}
