// Layers of volumes, of video and of attention, spectral normalisation and CTC: the same bits on
// threads and on workers over TCP, equal variables on all ranks (those that no gradient changes,
// too), close to one device, and resumed at a random step to the same bits.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/ctc.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/tcp_workers.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr std::size_t rows = 40, features = 60, classes = 3;

using Volumes =
    ls::Sequential<ls::Input<3, 5, 4, 1>,
                   ls::Conv3D<3, 3, ls::Tanh, ls::Conv3DOptions{.padding = ls::Padding::same}>,
                   ls::AveragePooling3D<ls::Extent3D{1, 2, 2}>, ls::Flatten, ls::Dense<classes>>;
using Films =
    ls::Sequential<ls::Input<3, 5, 4, 1>, ls::ToSequence,
                   ls::ConvLSTM2D<2, 3, ls::ConvLSTM2DOptions{.padding = ls::Padding::same}>,
                   ls::Dropout<0.2>, ls::Flatten, ls::Dense<classes>>;
using Frames = ls::Sequential<
    ls::Input<3, 5, 4, 1>,
    ls::TimeDistributed<ls::Sequential<ls::Conv2D<2, 3, ls::Tanh>, ls::Flatten, ls::Dropout<0.2>>>,
    ls::LSTM<4>, ls::Dense<classes>>;
using Critic =
    ls::Sequential<ls::Input<15, 4, 1>, ls::SpectralNormalization<ls::Conv2D<3, 3, ls::Tanh>>,
                   ls::Flatten,
                   ls::SpectralNormalization<ls::Dense<classes>, ls::SpectralNormalizationOptions{
                                                                     .power_iterations = 2}>>;
template <std::size_t First>
using Tokens =
    ls::Sequential<ls::Slice<First, 30>, ls::Reshape<6, 5>, ls::ToSequence, ls::Dense<4, ls::Tanh>>;
using Dots = ls::Sequential<
    ls::Input<features>,
    ls::Attention<Tokens<0>, Tokens<30>, ls::AttentionOptions{.use_scale = true, .dropout = 0.2}>,
    ls::GlobalAveragePooling1D, ls::Dense<classes>>;
using Sums = ls::Sequential<ls::Input<features>, ls::AdditiveAttention<Tokens<0>, Tokens<30>>,
                            ls::GlobalAveragePooling1D, ls::Dense<classes>>;
using Speech = ls::Sequential<ls::Input<6, 10>, ls::ToSequence,
                              ls::GRU<5, ls::GRUOptions{.return_sequences = true}>,
                              ls::Dense<classes>, ls::Flatten, ls::Reshape<6, classes>>;

/// Noise, with a class in every third number; for CTC, up to three labels and zeros behind them.
ls::AnyDataset data(bool of_labels) {
  const std::size_t width = of_labels ? 6 : 1;
  std::vector<double> x(rows * features), y(rows * width);
  ls::RandomStream random{ls::RandomKey(4)};
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t label = random.below(classes);
    for (std::size_t f = 0; f < features; ++f)
      x[row * features + f] = random.uniform(-0.5, 0.5) + (f % classes == label ? 1 : 0);
    if (!of_labels) y[row] = static_cast<double>(label);
    for (std::size_t i = 0; of_labels && i <= label; ++i)
      y[row * width + i] = static_cast<double>(1 + (label + i) % (classes - 1));
  }
  return ls::AnyDataset(ls::zip(ls::from_tensor_slices(ls::Tensor<double>(x, {rows, features})),
                                ls::from_tensor_slices(ls::Tensor<double>(y, {rows, width})))
                            .shuffle(rows)
                            .batch(14));
}

struct Result {
  std::vector<double> losses = {};
  std::vector<double> weights = {};  ///< and what is not trained
  std::int64_t iterations = 0;
};

struct PowerFailure {
  std::optional<std::int64_t> before_update;
  void on_train_batch_begin(ls::Training& training, std::int64_t) const {
    if (before_update && training.iterations() == *before_update)
      throw std::runtime_error("power failure");
  }
};

struct Run {
  std::string folder = {};
  std::optional<std::int64_t> fail_before = {};
  std::uint64_t seed = 5;
};

template <class Net, class Loss, class Strategy>
Result train(Strategy& strategy, const Loss& loss, const Run& run) {
  auto model =
      ls::compile<Net, double>(strategy, {.seed = run.seed}, loss, ls::Adam{.learning_rate = 0.03});
  const PowerFailure failure{run.fail_before};
  std::optional<ls::BackupAndRestore> backup;
  if (!run.folder.empty())
    backup.emplace(
        ls::BackupAndRestore{.backup_dir = run.folder + std::to_string(strategy.worker_index()),
                             .save_freq = 1,
                             .asynchronous = false});
  const ls::History history =
      model.fit(data(std::is_same_v<Loss, ls::CTC>), {.epochs = 4, .verbose = 0}, failure, backup);
  Result result{.losses = history["loss"], .iterations = model.iterations()};
  for (const auto& weight : model.get_weights())
    result.weights.insert(result.weights.end(), weight.values.begin(), weight.values.end());
  return result;
}

void check_equal(const std::vector<Result>& ranks, const Result& expected) {
  for (const Result& rank : ranks) {
    CHECK(rank.weights == expected.weights);
    CHECK(rank.losses == expected.losses);
    CHECK(rank.iterations == expected.iterations);
  }
}

template <class Net, class Loss = ls::SparseCategoricalCrossentropy>
void check_everywhere(const Loss& loss = {.from_logits = true}) {
  const auto on_threads = [&](int replicas, const Run& run) {
    ls::MirroredStrategy strategy({.replicas = replicas});
    return train<Net>(strategy, loss, run);
  };
  const auto on_workers = [&](int workers, int replicas, const Run& run) {
    return on_tcp_workers<Result>(
        workers, replicas, run.fail_before ? "power failure" : "",
        [&](TcpStrategy& strategy) { return train<Net>(strategy, loss, run); });
  };
  const Result one = on_threads(1, {}), two = on_threads(2, {}), three = on_threads(3, {});
  CHECK(one.iterations == 12);
  CHECK(one.losses.back() < 0.97 * one.losses.front());
  for (const Result* const other : {&two, &three}) {
    REQUIRE(other->weights.size() == one.weights.size());
    for (std::size_t i = 0; i < one.weights.size(); ++i)
      CHECK(other->weights[i] == doctest::Approx(one.weights[i]).epsilon(1e-6));
    for (std::size_t i = 0; i < one.losses.size(); ++i)
      CHECK(other->losses[i] == doctest::Approx(one.losses[i]).epsilon(1e-8));
  }
  check_equal(on_workers(2, 1, {}), two);
  check_equal(on_workers(3, 1, {}), three);

  const TemporaryFolder folder;
  ls::RandomStream random{ls::RandomKey(2026)};
  struct Place {
    int workers, replicas;
    const Result& whole;
  };
  for (const Place& place :
       {Place{1, 1, one}, Place{1, 2, two}, Place{2, 1, two}, Place{3, 1, three}}) {
    CAPTURE(place.workers);
    CAPTURE(place.replicas);
    Run run{.folder = folder.path(std::to_string(10 * place.workers + place.replicas) + "-"),
            .fail_before = 1 + static_cast<std::int64_t>(random.below(11))};
    CAPTURE(*run.fail_before);
    (void)on_workers(place.workers, place.replicas, run);
    run.fail_before.reset();
    run.seed = 99;  // (The saved seed wins.)
    const auto resumed = on_workers(place.workers, place.replicas, run);
    for (const Result& rank : resumed) {
      CHECK(rank.weights == place.whole.weights);
      CHECK(rank.losses.back() == place.whole.losses.back());
      CHECK(rank.iterations == place.whole.iterations);
    }
  }
}

}  // namespace

TEST_CASE("everywhere: Conv3D") { check_everywhere<Volumes>(); }

TEST_CASE("everywhere: ConvLSTM2D") { check_everywhere<Films>(); }

TEST_CASE("everywhere: TimeDistributed") { check_everywhere<Frames>(); }

TEST_CASE("everywhere: SpectralNormalization, with a vector that is equal on all ranks") {
  check_everywhere<Critic>();
}

TEST_CASE("everywhere: Attention, with dropout") { check_everywhere<Dots>(); }

TEST_CASE("everywhere: AdditiveAttention") { check_everywhere<Sums>(); }

TEST_CASE("everywhere: CTC") { check_everywhere<Speech>(ls::CTC{}); }
