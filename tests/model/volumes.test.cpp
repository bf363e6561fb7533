// Models of volumes and video, and one with spectral normalisation: on one replica and on two,
// saved and resumed, in files, predicted sample by sample.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/budget.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/saving/predictor.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr ls::Conv3DOptions same{.padding = ls::Padding::same};
using Volumes =
    ls::Sequential<ls::Input<4, 6, 5, 1>, ls::Conv3D<4, 3, ls::ReLU, same>, ls::MaxPooling3D<>,
                   ls::Conv3D<6, 2, ls::ReLU>, ls::GlobalAveragePooling3D, ls::Dense<3>>;
using Frames =
    ls::Sequential<ls::Conv2D<3, 3, ls::ReLU>, ls::MaxPooling2D<>, ls::Flatten, ls::Dropout<0.2>>;
using Video =
    ls::Sequential<ls::Input<4, 6, 5, 1>, ls::TimeDistributed<Frames>, ls::LSTM<5>, ls::Dense<3>>;
constexpr ls::ConvLSTM2DOptions all_states{.padding = ls::Padding::same, .return_sequences = true};
using ConvLSTM =
    ls::Sequential<ls::Input<4, 6, 5, 1>, ls::ToSequence, ls::ConvLSTM2D<2, 3, all_states>,
                   ls::ConvLSTM2D<3, 3>, ls::GlobalAveragePooling2D, ls::Dense<3>>;
using Critic = ls::Sequential<ls::Input<4, 6, 5, 1>, ls::Reshape<24, 5, 1>,
                              ls::SpectralNormalization<ls::Conv2D<4, 3, ls::ReLU>>,
                              ls::GlobalMaxPooling2D, ls::SpectralNormalization<ls::Dense<3>>>;

static_assert(ls::budget<Volumes>(16, ls::SGD{}).uncounted_layer.empty());
static_assert(ls::budget<Video>(16, ls::SGD{}).uncounted_layer.empty());
static_assert(ls::budget<ConvLSTM>(16, ls::SGD{}).uncounted_layer.empty());
static_assert(ls::budget<Critic>(16, ls::SGD{}).parameters == Critic::parameter_count);

/// Noise, with a bright plane for each class.
struct Samples {
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> x;
  std::vector<int> y;

  explicit Samples(int count) : x(count, 120), y(static_cast<std::size_t>(count)) {
    ls::RandomStream random{ls::RandomKey(3)};
    for (int i = 0; i < count; ++i) {
      const int label = static_cast<int>(random.below(3));
      y[static_cast<std::size_t>(i)] = label;
      for (int f = 0; f < 120; ++f)
        x(i, f) = static_cast<float>(random.uniform(0, 1) + (f / 30 == label ? 1 : 0));
    }
  }
};

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("power failure") {}
};

struct Run {
  int replicas = 1;
  std::uint64_t seed = 5;
  std::string backup_dir = {};  ///< saved every second step
  std::int64_t fail_before = -1;
};

struct Result {
  std::vector<double> losses;  ///< of every step
  std::vector<float> predictions;
  std::vector<ls::Weight<float>> weights;
};

template <class Net>
auto compiled(ls::MirroredStrategy& strategy, std::uint64_t seed) {
  return ls::compile<Net>(strategy, {.seed = seed},
                          ls::SparseCategoricalCrossentropy{.from_logits = true},
                          ls::SGD{.learning_rate = 0.1, .momentum = 0.5});
}

template <class Net>
Result train(const Run& run) {
  const Samples samples(50);
  ls::MirroredStrategy strategy({.replicas = run.replicas});
  auto model = compiled<Net>(strategy, run.seed);
  Recorder recorder;
  recorder.at_batch_begin = [&](ls::Training& training, std::int64_t) {
    if (training.iterations() == run.fail_before) throw Interrupted();
  };
  const auto data = ls::from_tensor_slices(samples.x, samples.y).shuffle(50).batch(18);
  const ls::FitOptions options{.epochs = 4, .verbose = 0};
  if (run.backup_dir.empty()) {
    model.fit(data, options, recorder);
  } else {
    ls::BackupAndRestore backup{
        .backup_dir = run.backup_dir, .save_freq = 2, .asynchronous = false};
    model.fit(data, options, recorder, backup);
  }
  Result result;
  for (const ls::Logs& logs : recorder.batch_logs) result.losses.push_back(logs.at("loss"));
  const auto rows = model.predict(samples.x, {.batch_size = 7});
  result.predictions.assign(rows.data(), rows.data() + rows.size());
  result.weights = model.get_weights();

  // Files of weights hold all that predict needs.
  const TemporaryFolder folder;
  model.save_weights(folder.path("weights.npz"));
  ls::MirroredStrategy alone({.replicas = 1});
  auto other = compiled<Net>(alone, run.seed + 1);
  other.load_weights(folder.path("weights.npz"));
  CHECK(other.predict(samples.x, {.batch_size = 7}) == rows);
  const ls::Predictor<Net> predictor(other);
  for (const Eigen::Index i : {0, 7}) {
    const std::vector<float> row = predictor.predict_row({samples.x.row(i).data(), 120});
    for (Eigen::Index c = 0; c < 3; ++c) CHECK(row[static_cast<std::size_t>(c)] == rows(i, c));
  }
  return result;
}

template <class Net>
void check_model() {
  const Result one = train<Net>({}), again = train<Net>({.replicas = 2}),
               two = train<Net>({.replicas = 2});
  CHECK(one.losses.back() < one.losses.front());
  CHECK(two.losses == again.losses);
  CHECK(two.predictions == again.predictions);
  REQUIRE(one.losses.size() == two.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i)
    CHECK(std::abs(one.losses[i] - two.losses[i]) < 1e-5);
  for (std::size_t i = 0; i < one.predictions.size(); ++i)
    CHECK(std::abs(one.predictions[i] - two.predictions[i]) < 1e-4F);
  for (const int replicas : {1, 2}) {
    const TemporaryFolder folder;
    Run cut{.replicas = replicas, .backup_dir = folder.path()};
    cut.fail_before = 7;
    CHECK_THROWS_WITH_AS((void)train<Net>(cut), doctest::Contains("power failure"), ls::Error);
    cut.fail_before = -1;
    cut.seed = 99;
    const Result resumed = train<Net>(cut);
    CHECK(resumed.losses.size() == 6);
    CHECK(resumed.predictions == (replicas == 1 ? one : two).predictions);
  }
}

}  // namespace

TEST_CASE("Conv3D and 3-D pooling: N replicas equal one, resumed to the same bits, in files") {
  check_model<Volumes>();
}

TEST_CASE("TimeDistributed: N replicas equal one, resumed to the same bits, in files") {
  check_model<Video>();
}

TEST_CASE("ConvLSTM2D: N replicas equal one, resumed to the same bits, in files") {
  check_model<ConvLSTM>();
}

TEST_CASE("SpectralNormalization: N replicas equal one, resumed to the same bits, in files") {
  check_model<Critic>();
}
