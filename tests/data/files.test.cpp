#include "lockstep/data/files.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <memory>
#include <thread>

#include "data/support.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

struct Loads {
  std::mutex mutex;
  std::map<std::string, int> count;
};

/// File "a3" holds 3 samples: 'a' * 100, 'a' * 100 + 1, ...; their targets are the negative of
/// them.
auto reader(const std::shared_ptr<Loads>& loads) {
  return [loads](const std::string& name) {
    {
      const std::lock_guard lock(loads->mutex);
      ++loads->count[name];
    }
    const int n = std::stoi(name.substr(1));
    std::vector<int> x;
    std::vector<int> y;
    for (int i = 0; i < n; ++i) {
      x.push_back(name[0] * 100 + i);
      y.push_back(-x.back());
    }
    return std::pair(ls::Tensor<int>(x), ls::Tensor<int>(y));
  };
}

}  // namespace

TEST_SUITE("from_files") {
  TEST_CASE("the samples of all files, in order") {
    const auto loads = std::make_shared<Loads>();
    auto dataset = ls::from_files({"a2", "b0", "c3"}, reader(loads)).batch(10);
    static_assert(ls::Dataset<decltype(dataset)>);
    CHECK(dataset.num_files() == 3);
    dataset.begin({});
    CHECK(dataset.next() == 5);
    const Read<float> read(dataset);
    CHECK(read.x(0, 0) == 9700.0f);
    CHECK(read.x(1, 0) == 9701.0f);
    CHECK(read.x(2, 0) == 9900.0f);
    CHECK(read.x(4, 0) == 9902.0f);
    CHECK(read.y(3, 0) == -9901.0f);
    CHECK(read.x.padding_is(0.0f));
    const std::int64_t third_file = std::int64_t{2} << 40;
    CHECK(to_indices(dataset.sample_indices()) ==
          Indices{0, 1, third_file, third_file + 1, third_file + 2});
  }

  TEST_CASE("shuffled over files, and read without targets") {
    const auto loads = std::make_shared<Loads>();
    auto dataset =
        ls::from_files({"a20", "b20", "c20"}, reader(loads)).shuffle(60).repeat(2).batch(50);
    dataset.begin({});
    while (dataset.next() > 0) {
      const Read<double> read(dataset);
      const Tensor<double> x(read.x.samples(), 1);
      dataset.read(std::span<const std::size_t>(all_positions(dataset)), x.view(),
                   ls::TensorView<double>{});
      for (std::size_t i = 0; i < read.x.samples(); ++i) {
        const std::int64_t index = dataset.sample_indices()[i];
        const double expected =
            9700 + 100 * static_cast<double>(index >> 40) + static_cast<double>(index & 0xFF);
        REQUIRE(read.x(i, 0) == expected);
        REQUIRE(read.y(i, 0) == -expected);
        REQUIRE(x(i, 0) == expected);
      }
    }
    CHECK(loads->count == std::map<std::string, int>{{"a20", 1}, {"b20", 1}, {"c20", 1}});
  }

  TEST_CASE("files are loaded when they are needed first, once for all copies") {
    const auto loads = std::make_shared<Loads>();
    const auto dataset = ls::from_files({"a2", "b3", "c4"}, reader(loads)).batch(2);
    CHECK(loads->count.empty());
    auto shard = dataset;
    shard.shard_files(2, 0);
    CHECK(loads->count.empty());
    CHECK(shard.num_files() == 2);
    CHECK(shard.sample_size() == 1);
    CHECK(loads->count == std::map<std::string, int>{{"a2", 1}});
    CHECK(shard.cardinality() == 6);  // 6 samples in batches of 1
    CHECK(loads->count == std::map<std::string, int>{{"a2", 1}, {"c4", 1}});
    auto copy = dataset;
    copy.shard_files(2, 0);
    CHECK(batches_of(copy).size() == 6);
    CHECK(loads->count == std::map<std::string, int>{{"a2", 1}, {"c4", 1}});
  }

  TEST_CASE("a sample is named by its file and its row there, and a list by its length") {
    const auto loads = std::make_shared<Loads>();
    const auto dataset = ls::from_files({"a2", "b3", "c4"}, reader(loads)).batch(2);
    CHECK(dataset.sample_name((std::int64_t{2} << 40) + 3) == "sample 3 of c4");
    ls::PipelineDescription description;
    dataset.describe(description);
    CHECK(description.text == "from_files(3) -> batch(2)");
    CHECK(loads->count.empty());
  }

  TEST_CASE("copies may be used in different threads") {
    const auto loads = std::make_shared<Loads>();
    const auto dataset = ls::from_files({"a20", "b20"}, reader(loads)).batch(40);
    std::atomic<int> right = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&right, copy = dataset]() mutable {
        copy.begin({});
        copy.next();
        right += Read<float>(copy).x(39, 0) == 9819.0f ? 1 : 0;
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(right == 4);
    CHECK(loads->count == std::map<std::string, int>{{"a20", 1}, {"b20", 1}});
  }

  TEST_CASE("a reader may return a tensor or a source") {
    auto tensors = ls::from_files({"x"}, [](const std::string&) {
      return ls::Tensor<float>({1, 2, 3, 4}, {2, 2});
    });
    CHECK(tensors.sample_size() == 2);
    CHECK(tensors.target_size() == 0);
    auto sources = ls::from_files({"x", "y"}, [](const std::string& name) {
      return ls::TensorSlices<float>(ls::Tensor<float>(std::vector<float>(name == "x" ? 1 : 2)));
    });
    CHECK(sources.cardinality() == 3);
  }

  TEST_CASE("errors") {
    const auto loads = std::make_shared<Loads>();
    CHECK_THROWS_AS((void)ls::from_files({}, reader(loads)), ls::ConfigurationError);

    const auto different = ls::from_files({"1", "2"}, [](const std::string& name) {
      const auto n = static_cast<std::size_t>(std::stoi(name));
      return ls::Tensor<float>(std::vector<float>(n), {1, n});
    });
    const std::string message = message_of<ls::DataError>([&] { (void)different.cardinality(); });
    CHECK(message ==
          "from_files: the files differ: 2 has samples of (2) without targets, 1 has samples of "
          "(1) without targets");
    const auto turned = ls::from_files({"a", "b"}, [](const std::string& name) {
      const bool first = name == "a";
      return std::pair(
          ls::Tensor<float>(std::vector<float>(6), {1, first ? 2u : 3u, first ? 3u : 2u}),
          ls::Tensor<float>(std::vector<float>(1)));
    });
    CHECK(contains(message_of<ls::DataError>([&] { (void)turned.cardinality(); }),
                   "b has samples of (3, 2) with targets of (1), a has samples of (2, 3) with "
                   "targets of (1)"));

    const auto broken = ls::from_files({"x"}, [](const std::string& name) -> ls::Tensor<float> {
      throw ls::DataError("cannot read " + name);
    });
    CHECK(message_of<ls::DataError>([&] { (void)broken.cardinality(); }) == "cannot read x");
  }
}
