// Models with Recompute and without: the same bits wherever they are trained, in the same files, and
// the memory that the budget says.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/budget.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/step/workspace.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/model_testing.hpp"
#include "support/tcp_workers.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

template <bool Synchronized>
using Block = ls::Residual<
    ls::Dense<6, ls::GELU>, ls::Dropout<0.3>,
    ls::BatchNormalization<ls::Linear, ls::BatchNormalizationOptions{.momentum = 0.9,
                                                                     .synchronized = Synchronized}>,
    ls::Dense<4>>;
template <class L>
struct Without {
  using Type = L;
};
template <class L>
struct With {
  using Type = ls::Recompute<L>;
};
template <template <class> class R, bool Synchronized>
using Net =
    ls::Sequential<ls::Input<4>,
                   typename R<ls::Sequential<
                       ls::Dense<4, ls::Tanh>,
                       typename R<ls::Sequential<ls::Dropout<0.2>, ls::Dense<4>>>::Type>>::Type,
                   ls::Repeat<3, typename R<Block<Synchronized>>::Type>, ls::Dense<3>>;

struct Run {
  std::int64_t fail_before = -1;
  std::string backup_dir = {};  ///< saved every second step
};

struct Result {
  std::vector<double> losses;  ///< of every step
  std::uint32_t crc = 0;
  std::vector<float> weights, predictions;

  bool operator==(const Result&) const = default;
};

template <class N, class Strategy>
Result train(Strategy& strategy, const Run& run = {}) {
  const TinyData data(30);
  auto model =
      ls::compile<N>(strategy, {.seed = 5}, ls::SparseCategoricalCrossentropy{.from_logits = true},
                     ls::Adam{.learning_rate = 0.01});
  Recorder recorder;
  recorder.at_batch_begin = [&](ls::Training& training, std::int64_t) {
    if (training.iterations() == run.fail_before) throw std::runtime_error("power failure");
  };
  const auto batches = ls::from_tensor_slices(data.x, data.y).shuffle(30).batch(8);
  const ls::FitOptions options{.epochs = 2, .verbose = 0};
  if (run.backup_dir.empty()) {
    model.fit(batches, options, recorder);
  } else {
    ls::BackupAndRestore backup{
        .backup_dir = run.backup_dir, .save_freq = 2, .asynchronous = false};
    model.fit(batches, options, recorder, backup);
  }
  Result result{.losses = {}, .crc = model.parameters_crc32c(), .weights = {}, .predictions = {}};
  for (const ls::Logs& logs : recorder.batch_logs) result.losses.push_back(logs.at("loss"));
  for (const auto& weight : model.get_weights())
    result.weights.insert(result.weights.end(), weight.values.begin(), weight.values.end());
  const auto rows = model.predict(data.x, {.batch_size = 7});
  result.predictions.assign(rows.data(), rows.data() + rows.size());
  return result;
}

template <bool Synchronized>
void check_strategies() {
  using Plain = Net<Without, Synchronized>;
  using Again = Net<With, Synchronized>;
  ls::OneDeviceStrategy one;
  CHECK(train<Again>(one) == train<Plain>(one));
  ls::MirroredStrategy threads({.replicas = 3});
  const Result on_threads = train<Again>(threads);
  CHECK(on_threads == train<Plain>(threads));
  for (const int replicas : {1, 2}) {
    const auto of = [&](auto net) {
      return on_tcp_workers<Result>(2, replicas, "", [&](TcpStrategy& strategy) {
        return train<typename decltype(net)::type>(strategy);
      });
    };
    const auto again = of(std::type_identity<Again>{});
    CHECK(again == of(std::type_identity<Plain>{}));
    CHECK(again[0] == again[1]);
  }
}

}  // namespace

TEST_SUITE("Recompute in models") {
  TEST_CASE("the same bits on one device, on threads, and on workers over TCP") {
    check_strategies<false>();
  }
  TEST_CASE("the same bits with statistics of all replicas") { check_strategies<true>(); }

  TEST_CASE("a run without is resumed with, and the other way round") {
    const auto check = [](auto first, auto second) {
      ls::MirroredStrategy strategy({.replicas = 2});
      const TemporaryFolder folder;
      const Result whole = train<Net<Without, false>>(strategy);
      CHECK_THROWS_WITH_AS((void)train<typename decltype(first)::type>(
                               strategy, {.fail_before = 5, .backup_dir = folder.path()}),
                           doctest::Contains("power failure"), ls::Error);
      const Result resumed =
          train<typename decltype(second)::type>(strategy, {.backup_dir = folder.path()});
      CHECK(resumed.losses.size() == 4);
      CHECK(resumed.crc == whole.crc);
      CHECK(resumed.weights == whole.weights);
    };
    const std::type_identity<Net<With, false>> with;
    const std::type_identity<Net<Without, false>> without;
    check(with, with);
    check(with, without);
    check(without, with);
  }

  TEST_CASE("files of weights and of models fit both") {
    ls::OneDeviceStrategy strategy;
    const auto compiled = [&](auto net, std::uint64_t seed) {
      return ls::compile<typename decltype(net)::type>(
          strategy, {.seed = seed}, ls::SparseCategoricalCrossentropy{.from_logits = true},
          ls::Adam{});
    };
    const TemporaryFolder folder;
    const TinyData data(9);
    const auto check = [&](auto first, auto second, const std::string& name) {
      auto model = compiled(first, 1);
      auto other = compiled(second, 2);
      model.fit(data.x, data.y, {.batch_size = 9, .verbose = 0});
      model.save_weights(folder.path(name));
      other.load_weights(folder.path(name));
      CHECK(other.predict(data.x) == model.predict(data.x));
    };
    const std::type_identity<Net<With, false>> with;
    const std::type_identity<Net<Without, false>> without;
    for (const std::string ending : {".npz", ".safetensors"}) {
      CAPTURE(ending);
      check(with, without, "a" + ending);
      check(without, with, "b" + ending);
    }
    auto model = compiled(with, 1);
    auto other = compiled(without, 2);
    model.save(folder.path("model"));
    other.load(folder.path("model"));
    CHECK(other.parameters_crc32c() == model.parameters_crc32c());
  }

  TEST_CASE("a step allocates what the budget says, which is less than without") {
    using Deep = ls::Sequential<
        ls::Input<12>,
        ls::TiedHead<
            ls::Embedding<40, 16>, ls::PositionEmbedding<12>,
            ls::Repeat<8, ls::Recompute<
                              ls::Residual<ls::LayerNormalization<>, ls::MultiHeadAttention<2, 8>>,
                              ls::Residual<ls::Dense<64, ls::GELU>, ls::Dense<16>>>>>>;
    using Loss = ls::SparseCategoricalCrossentropy;
    const ls::detail::Compiled<Deep, float, Loss, ls::Adam> program(Loss{.from_logits = true},
                                                                    ls::Adam{}, {});
    ls::detail::Workspace<float> workspace(program,
                                           [](std::size_t bytes) { return ls::Buffer(bytes); });
    for (const std::size_t samples : {1u, 7u, 64u}) {
      workspace.resize(samples);
      const ls::Budget budget = ls::budget<Deep>(samples, ls::Adam{});
      CHECK(budget.batch + budget.activations + budget.workspace == workspace.batch_bytes());
    }
    // Of each block: its output, and the mask of its input.
    constexpr std::size_t rows = 64 * 12, once = ls::budget<Deep>(64, ls::Adam{}).activations;
    static_assert(once < sizeof(float) * rows * (10 * 16 + 8 + 3 + 16));
  }
}
