// GlobalBatch::follows_world: a fit whose world changes, in one process. The strategy is one worker
// of a cluster whose size changes, so that its part of the global batch does, as if others had been
// lost or had come. (Real processes: tests/integration/elastic.test.cpp.)
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

class ChangingWorld final : public ls::ElasticWorld {
 public:
  explicit ChangingWorld(std::vector<int> sizes) : sizes_(std::move(sizes)) {}
  void change() {
    calls = false;
    ++number_;
  }
  [[nodiscard]] bool has_newcomer() const noexcept override { return calls; }
  [[nodiscard]] bool is_successor() const noexcept override { return number_ > 0; }
  [[nodiscard]] std::string description() const override {
    return "world " + std::to_string(number_ + 1);
  }
  [[nodiscard]] int workers_of_batch() const noexcept override { return sizes_[number_]; }
  [[nodiscard]] EncodeState encode_state() const noexcept override {
    return &ls::encode_checkpoint;
  }
  [[nodiscard]] DecodeState decode_state() const noexcept override {
    return &ls::decode_checkpoint;
  }

  bool calls = false;

 private:
  std::vector<int> sizes_;
  std::size_t number_ = 0;
};

class ElasticDevice : public ls::OneDeviceStrategy {
 public:
  explicit ElasticDevice(std::vector<int> sizes) : world(std::move(sizes)) {}
  void reconnect() { world.change(); }
  [[nodiscard]] const ls::ElasticWorld* elastic_world() const noexcept { return &world; }

  ChangingWorld world;
};
static_assert(ls::Strategy<ElasticDevice>);

constexpr std::uint64_t seed = 11;
constexpr std::int64_t samples = 22, batch = 6;

auto pipeline() {
  const TinyData data(samples);
  return ls::from_tensor_slices(data.x, data.y).shuffle(samples);
}

template <class Strategy>
auto tiny(Strategy& strategy, const ls::Synchronization& synchronization = {}) {
  return ls::compile<TinyNet>(strategy, {.seed = seed, .synchronization = synchronization},
                              ls::SparseCategoricalCrossentropy{.from_logits = true},
                              ls::SGD{.learning_rate = 0.1, .momentum = 0.9}, ls::Accuracy{});
}

/// The same steps made by hand: `sizes` of the batches of each pass over the data.
std::uint32_t by_hand(const std::vector<std::vector<std::size_t>>& sizes, bool endless = false) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  ls::OneDeviceStrategy strategy;
  auto model = tiny(strategy);
  const TinyData data(samples);
  for (std::size_t pass = 0; pass < sizes.size(); ++pass) {
    ls::AnyDataset order = endless ? ls::AnyDataset(pipeline().repeat().batch(1))
                                   : ls::AnyDataset(pipeline().batch(1));
    order.begin({.seed = seed, .number = static_cast<std::int64_t>(pass)});
    for (const std::size_t size : sizes[pass]) {
      Matrix x(static_cast<Eigen::Index>(size), 4);
      std::vector<int> y;
      for (std::size_t i = 0; i < size; ++i) {
        REQUIRE(order.next() == 1);
        const std::int64_t sample = order.sample_indices()[0];
        x.row(static_cast<Eigen::Index>(i)) = data.x.row(sample);
        y.push_back(data.y[static_cast<std::size_t>(sample)]);
      }
      (void)model.train_on_batch(x, y);
    }
    if (!endless) REQUIRE(order.next() == 0);
  }
  return model.parameters_crc32c();
}

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("power failure") {}
};

/// After these updates, another world begins.
Recorder changes_after(ElasticDevice& strategy, std::vector<std::int64_t> updates) {
  Recorder recorder;
  recorder.at_batch_begin = [&strategy, updates](ls::Training& training, std::int64_t) {
    for (const std::int64_t at : updates)
      if (training.iterations() == at - 1) strategy.world.calls = true;
  };
  return recorder;
}

}  // namespace

TEST_CASE("follows_world: passes over the data have each sample once, whatever the worlds") {
  ElasticDevice strategy({1, 3, 2, 1});
  auto model = tiny(strategy);
  Recorder recorder = changes_after(strategy, {2, 6, 7});
  const ls::History history =
      model.fit(pipeline().batch(batch), {.epochs = 3, .verbose = 0}, recorder);
  // Batches of 6; after update 2, of 2; after update 6, of 3, of which there are but 2 left; after
  // the last step of the pass, of 6 again.
  CHECK(model.iterations() == 15);
  CHECK(model.parameters_crc32c() == by_hand({{6, 6, 2, 2, 2, 2, 2}, {6, 6, 6, 4}, {6, 6, 6, 4}}));
  CHECK(history.epoch == std::vector<int>{0, 1, 2});
}

TEST_CASE("follows_world: with steps_per_epoch, the steps stay, and the stream goes on") {
  ElasticDevice strategy({1, 2, 1});
  auto model = tiny(strategy);
  Recorder recorder = changes_after(strategy, {3, 8});
  (void)model.fit(pipeline().repeat().batch(batch),
                  {.epochs = 3, .verbose = 0, .steps_per_epoch = 4}, recorder);
  CHECK(model.iterations() == 12);
  CHECK(model.parameters_crc32c() == by_hand({{6, 6, 6, 3, 3, 3, 3, 3, 6, 6, 6, 6}}, true));
}

TEST_CASE("follows_world: a backup goes on at the very sample, in this world or another one") {
  const TemporaryFolder folder;
  const auto train = [&](int all, std::int64_t fail_before) {
    ElasticDevice strategy({all});
    auto model = tiny(strategy);
    Recorder recorder;
    recorder.at_batch_begin = [&](ls::Training& training, std::int64_t) {
      if (training.iterations() == fail_before) throw Interrupted();
    };
    ls::BackupAndRestore backup{.backup_dir = folder.path(), .save_freq = 1, .asynchronous = false};
    model.fit(pipeline().batch(batch), {.epochs = 2, .verbose = 0}, recorder, backup);
    return model.parameters_crc32c();
  };
  CHECK_THROWS_AS((void)train(2, 3), ls::Error);  // 9 samples, in batches of 3
  CHECK_THROWS_AS((void)train(3, 5), ls::Error);  // 4 more, in batches of 2
  CHECK(train(1, -1) == by_hand({{3, 3, 3, 2, 2, 6, 3}, {6, 6, 6, 4}}));
}

TEST_CASE("follows_world: in rounds, another world begins at a meeting, at the very sample") {
  ElasticDevice strategy({1, 3, 2});
  auto model = tiny(strategy, ls::LocalSGD{.steps = 3});  // alone: the same as without
  Recorder recorder = changes_after(strategy, {2, 7});
  (void)model.fit(pipeline().batch(batch), {.epochs = 2, .verbose = 0}, recorder);
  CHECK(model.iterations() == 14);
  CHECK(model.parameters_crc32c() == by_hand({{6, 6, 6, 2, 2}, {2, 2, 2, 3, 3, 3, 3, 3, 1}}));
}

TEST_CASE("follows_world: in rounds, a backup goes on at the sample of the last meeting") {
  const TemporaryFolder folder;
  const auto train = [&](int all, std::int64_t fail_before) {
    ElasticDevice strategy({all});
    auto model = tiny(strategy, ls::LocalSGD{.steps = 2});
    Recorder recorder;
    recorder.at_batch_begin = [&](ls::Training& training, std::int64_t) {
      if (training.iterations() == fail_before) throw Interrupted();
    };
    ls::BackupAndRestore backup{.backup_dir = folder.path(), .save_freq = 1, .asynchronous = false};
    model.fit(pipeline().batch(batch), {.epochs = 2, .verbose = 0}, recorder, backup);
    return model.parameters_crc32c();
  };
  CHECK_THROWS_AS((void)train(2, 3), ls::Error);  // two steps count: 6 samples
  CHECK_THROWS_AS((void)train(3, 5), ls::Error);  // two more: 4 samples
  CHECK(train(1, -1) == by_hand({{3, 3, 2, 2, 6, 6}, {6, 6, 6, 4}}));
}

TEST_CASE("follows_world: a program with fixed batches goes on from its backup, and says where") {
  const TemporaryFolder folder;
  const auto train = [&](auto& strategy, std::int64_t fail_before) {
    auto model = tiny(strategy);
    Recorder recorder;
    recorder.at_batch_begin = [&](ls::Training& training, std::int64_t) {
      if (training.iterations() == fail_before) throw Interrupted();
    };
    ls::BackupAndRestore backup{.backup_dir = folder.path(), .save_freq = 1, .asynchronous = false};
    model.fit(pipeline().batch(batch), {.epochs = 1, .verbose = 0}, recorder, backup);
    return model.iterations();
  };
  for (const std::int64_t updates : {2, 3}) {
    ElasticDevice halves({2});
    CHECK_THROWS_AS((void)train(halves, updates), ls::Error);
    lockstep_test::CapturedStderr captured;
    ls::OneDeviceStrategy fixed;
    CHECK(train(fixed, -1) == updates + 3);  // 6 of the 22 are used, or 9 of which 3 come again
    CHECK(contains(captured.text(),
                   "is in the middle of a global batch, this program asks for 6 "
                   "and goes on with them, from sample 6 of the data (of 9 ") == (updates == 3));
  }
}

TEST_CASE("follows_world: data that workers do not share are refused") {
  ElasticDevice strategy({2});
  auto model = tiny(strategy);
  const auto data =
      pipeline().batch(batch).with_options({.auto_shard_policy = ls::AutoShardPolicy::off});
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { model.fit(data, {.epochs = 1, .verbose = 0}); }),
      "(AutoShardPolicy::off): take AutoShardPolicy::data, or GlobalBatch::fixed"));
}
