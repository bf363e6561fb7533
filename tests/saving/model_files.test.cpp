// Models in files, alone and on several workers, each with a model of its own.
#include "lockstep/saving/model_files.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/model_testing.hpp"
#include "support/python.hpp"
#include "support/temporary_folder.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Net = ls::Sequential<ls::Input<4>, UserDense<6>, ls::BatchNormalization<>, UserDense<3>>;
using OtherNet = ls::Sequential<ls::Input<4>, UserDense<5>, ls::BatchNormalization<>, UserDense<3>>;
const ls::SparseCategoricalCrossentropy loss{.from_logits = true};
const ls::SGD sgd{.learning_rate = 0.2, .momentum = 0.5};

constexpr const char* weight_files[] = {"weights", "weights.npz", "weights.safetensors"};

ls::AnyDataset batches() {
  const TinyData data(20);
  return ls::AnyDataset(ls::from_tensor_slices(data.x, data.y).shuffle(20).batch(5));
}

template <class M>
bool same_weights(const M& a, const M& b) {
  const auto x = a.get_weights(), y = b.get_weights();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i].name != y[i].name || x[i].values != y[i].values) return false;
  return x.size() == y.size();
}

void truncate(const std::string& path) {
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
}

}  // namespace

TEST_CASE("model files: a saved model goes on to the same bits, on one worker and on two") {
  for (const int count : {1, 2}) {
    CAPTURE(count);
    const TemporaryFolder folder;
    const std::string path = folder.path("deep/model");
    const auto failures = run_workers(count, [&](WorkerStrategy& strategy) {
      auto model = ls::compile<Net>(strategy, {.seed = 3}, loss, sgd, ls::Accuracy{});
      model.fit(batches(), {.epochs = 2, .verbose = 0});
      model.save(path);
      strategy.run([](auto& replica) { replica.collective().barrier(); });
      auto loaded = ls::load_model<Net>(strategy, path, loss, sgd, ls::Accuracy{});
      CHECK(same_weights(model, loaded));
      CHECK(loaded.parameters_crc32c() == model.parameters_crc32c());
      CHECK(loaded.seed() == 3);
      CHECK(loaded.iterations() == 8);
      CHECK(loaded.learning_rate() == 0.2);
      model.fit(batches(), {.epochs = 3, .verbose = 0, .initial_epoch = 2});
      loaded.fit(batches(), {.epochs = 3, .verbose = 0, .initial_epoch = 2});
      CHECK(loaded.parameters_crc32c() ==
            model.parameters_crc32c());  // the momentum, too, was saved
      CHECK(loaded.iterations() == 12);
    });
    for (const std::string& failure : failures) CHECK(failure.empty());
  }
}

TEST_CASE("model files: weights come back by every format, moving statistics included") {
  const TemporaryFolder folder;
  ls::OneDeviceStrategy alone;
  auto model = ls::compile<Net>(alone, {.seed = 3}, loss, sgd, ls::Accuracy{});
  std::vector<ls::Weight<float>> weights = model.get_weights();
  float value = 0;
  for (auto& weight : weights)
    for (float& element : weight.values) element = value += 0.25F;
  model.set_weights(weights);
  for (const char* name : weight_files) {
    CAPTURE(name);
    const std::string path = folder.path(name);
    model.save_weights(path);
    auto loaded = ls::compile<Net>(alone, {.seed = 4}, loss, sgd, ls::Accuracy{});
    CHECK_FALSE(same_weights(model, loaded));
    loaded.load_weights(path);
    CHECK(same_weights(model, loaded));
    CHECK(loaded.seed() == 4);

    auto wide = ls::compile<Net, double>(alone, {.seed = 4}, loss, sgd, ls::Accuracy{});
    wide.load_weights(path);
    CHECK(wide.get_weights()[0].values[2] == 0.75);
    wide.save_weights(path);
    loaded.load_weights(path);
    CHECK(same_weights(model, loaded));

    ls::MirroredStrategy threads({.replicas = 2});
    auto mirrored = ls::compile<Net>(threads, {.seed = 5}, loss, sgd, ls::Accuracy{});
    mirrored.load_weights(path);
    CHECK(mirrored.get_weights()[3].values == weights[3].values);
    CHECK(mirrored.parameters_crc32c() == model.parameters_crc32c());
  }
  model.save(folder.path("model"));
  auto loaded = ls::compile<Net>(alone, {.seed = 4}, loss, sgd, ls::Accuracy{});
  loaded.load_weights(folder.path("model"));  // of a whole state, the weights alone
  CHECK(same_weights(model, loaded));
}

TEST_CASE("model files: names, order and shapes are Keras's") {
  const TemporaryFolder folder;
  ls::OneDeviceStrategy alone;
  const auto model = ls::compile<Net>(alone, {.seed = 3}, loss, sgd, ls::Accuracy{});
  model.save_weights(folder.path("w.safetensors"));
  const auto arrays = ls::decode_safetensors(*ls::read_file(folder.path("w.safetensors")));
  std::vector<std::string> names;
  for (const auto& array : arrays) names.push_back(array.name);
  CHECK(names == std::vector<std::string>{"user_dense/kernel", "user_dense/bias",
                                          "batch_normalization/gamma", "batch_normalization/beta",
                                          "batch_normalization/moving_mean",
                                          "batch_normalization/moving_variance",
                                          "user_dense_1/kernel", "user_dense_1/bias"});
  CHECK(arrays[0].extents == std::vector<std::uint64_t>{4, 6});
}

TEST_CASE("model files: only the chief reads and writes") {
  const TemporaryFolder folder;
  const auto failures = run_workers(2, [&](WorkerStrategy& strategy) {
    const std::string path = folder.path(std::to_string(strategy.worker_index()) + "/file");
    auto model = ls::compile<Net>(strategy, {.seed = 3}, loss, sgd, ls::Accuracy{});
    auto other = ls::compile<Net>(strategy, {.seed = 4}, loss, sgd, ls::Accuracy{});
    model.save(path);
    CHECK(std::filesystem::exists(path) == strategy.is_chief());
    other.load(path);
    CHECK(same_weights(model, other));
    CHECK(other.seed() == 3);
    for (const char* name : weight_files) {
      model.save_weights(path + name);
      CHECK(std::filesystem::exists(path + name) == strategy.is_chief());
      auto third = ls::compile<Net>(strategy, {.seed = 5}, loss, sgd, ls::Accuracy{});
      third.load_weights(path + name);
      CHECK(same_weights(model, third));
    }
  });
  for (const std::string& failure : failures) CHECK(failure.empty());
}

TEST_CASE(
    "model files: what the chief cannot read is the same error on every worker, and changes "
    "nothing") {
  const TemporaryFolder folder;
  const auto failures = run_workers(2, [&](WorkerStrategy& strategy) {
    auto model = ls::compile<Net>(strategy, {.seed = 3}, loss, sgd, ls::Accuracy{});
    const std::uint32_t before = model.parameters_crc32c();
    const auto refused = [&](const std::string& path) {
      const std::string weights = message_of<ls::DataError>([&] { model.load_weights(path); });
      return message_of<ls::DataError>([&] { model.load(path); }) + "; " + weights;
    };
    CHECK(contains(refused(folder.path("none")),
                   "cannot read '" + folder.path("none") + "': the chief has no such file"));
    CHECK(contains(refused(folder.path()),
                   "cannot read '" + folder.path() + "': it is no regular file"));
    for (const char* name : weight_files) {
      const std::string path = folder.path(name);
      model.save_weights(path);
      if (strategy.is_chief()) truncate(path);
      strategy.run([](auto& replica) { replica.collective().barrier(); });
      CHECK(contains(message_of<ls::DataError>([&] { model.load_weights(path); }),
                     "load_weights '" + path + "': "));
    }
    CHECK(contains(refused(folder.path("weights")), "the file is cut off"));
    CHECK(model.parameters_crc32c() == before);
  });
  for (const std::string& failure : failures) CHECK(failure.empty());
}

TEST_CASE("model files: what belongs to another model is refused, and the variable is named") {
  const TemporaryFolder folder;
  ls::OneDeviceStrategy alone;
  auto model = ls::compile<Net>(alone, {.seed = 3}, loss, sgd, ls::Accuracy{});
  const std::uint32_t before = model.parameters_crc32c();
  auto other = ls::compile<OtherNet>(alone, {.seed = 3}, loss, sgd, ls::Accuracy{});
  other.save(folder.path("other"));
  other.save_weights(folder.path("other.npz"));
  const auto refused = [&](const std::string& name) {
    return message_of<ls::ConfigurationError>([&] {
      name == "other" || name == "alone" ? model.load(folder.path(name))
                                         : model.load_weights(folder.path(name));
    });
  };
  CHECK(contains(refused("other"),
                 "'model layout: user_dense/kernel (4, 5)', this program has 'model layout: "
                 "user_dense/kernel (4, 6)'"));
  CHECK(
      contains(refused("other.npz"),
               "other.npz': expected 'user_dense/kernel' to be (4, 6), in the file it is (4, 5)"));
  model.save_weights(folder.path("alone"));
  CHECK(contains(refused("alone"),
                 "the file has weights alone, and no state of an optimizer: use load_weights"));

  auto arrays = ls::decode_weights("alone", *ls::read_file(folder.path("alone")));
  arrays.push_back({.name = "extra", .extents = {0}, .bytes = {}});
  ls::write_file_atomically(folder.path("more.npz"), ls::encode_weights("more.npz", arrays));
  CHECK(contains(refused("more.npz"),
                 "the file has an array 'extra' (0), which is no variable of this model"));
  arrays.erase(arrays.end() - 2, arrays.end());
  ls::write_file_atomically(folder.path("less.safetensors"),
                            ls::encode_weights("less.safetensors", arrays));
  CHECK(contains(refused("less.safetensors"),
                 "expected an array 'user_dense_1/bias' (3), the file has none of that name"));
  CHECK(model.parameters_crc32c() == before);

  auto without_momentum =
      ls::compile<Net>(alone, {.seed = 3}, loss, ls::SGD{.learning_rate = 0.2}, ls::Accuracy{});
  model.save(folder.path("model"));
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { without_momentum.load(folder.path("model")); }),
      "optimizer: "));
}

TEST_CASE("model files: a model compiled with another learning rate takes the file's") {
  const TemporaryFolder folder;
  ls::OneDeviceStrategy alone;
  auto model = ls::compile<Net>(alone, {.seed = 3}, loss, sgd, ls::Accuracy{});
  model.fit(batches(), {.epochs = 1, .verbose = 0});
  model.save(folder.path("model"));
  ls::SGD slower = sgd;
  slower.learning_rate = 0.01;
  auto loaded = ls::load_model<Net>(alone, folder.path("model"), loss, slower, ls::Accuracy{});
  CHECK(loaded.learning_rate() == 0.2);
  model.fit(batches(), {.epochs = 2, .verbose = 0, .initial_epoch = 1});
  loaded.fit(batches(), {.epochs = 2, .verbose = 0, .initial_epoch = 1});
  CHECK(same_weights(model, loaded));
}

TEST_CASE("model files: an array whose bytes do not fit its shape is refused") {
  const std::size_t shape[] = {2, 3};
  const ls::detail::WantedArray wanted[] = {{"kernel", shape}};
  const auto match = [&](std::size_t bytes) {
    return ls::detail::match_arrays(
        {{.name = "kernel", .extents = {2, 3}, .bytes = std::vector<std::byte>(bytes)}}, wanted,
        "float32");
  };
  CHECK(match(24).size() == 1);
  for (const std::size_t bytes : {0u, 20u, 28u})
    CHECK(contains(message_of<ls::DataError>([&] { (void)match(bytes); }),
                   "'kernel' (2, 3) of float32 cannot have"));
}

TEST_CASE("model files: what ModelCheckpoint saved loads, on one worker and on two") {
  for (const int count : {1, 2}) {
    CAPTURE(count);
    const TemporaryFolder folder;
    const auto failures = run_workers(count, [&](WorkerStrategy& strategy) {
      auto model = ls::compile<Net>(strategy, {.seed = 3}, loss, sgd, ls::Accuracy{});
      ls::ModelCheckpoint each({.filepath = folder.path("epoch-{epoch}")}),
          best({.filepath = folder.path("best.npz"),
                .save_best_only = true,
                .save_weights_only = true});
      const ls::History history = model.fit(
          batches(), {.epochs = 3, .verbose = 0, .validation_data = batches()}, each, best);
      strategy.run([](auto& replica) { replica.collective().barrier(); });
      const auto& losses = history["val_loss"];
      const auto lowest = std::min_element(losses.begin(), losses.end());
      CHECK(best.best() == *lowest);

      auto loaded =
          ls::load_model<Net>(strategy, folder.path("epoch-3"), loss, sgd, ls::Accuracy{});
      CHECK(same_weights(model, loaded));
      CHECK(loaded.iterations() == 12);
      loaded.load(folder.path("epoch-" + std::to_string(lowest - losses.begin() + 1)));
      auto best_weights = ls::compile<Net>(strategy, {.seed = 4}, loss, sgd, ls::Accuracy{});
      best_weights.load_weights(folder.path("best.npz"));
      CHECK(same_weights(best_weights, loaded));
      CHECK_THROWS_AS(model.save(folder.path("model.npz")), ls::ConfigurationError);
    });
    for (const std::string& failure : failures) CHECK(failure.empty());
  }
}

// In Python, names and layouts mean what they mean here.

namespace {

using ConvNet =
    ls::Sequential<ls::Input<5, 6, 2>, ls::Conv2D<4, 3, ls::ReLU>, ls::Flatten, ls::Dense<3>>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

ls::SavedArray array_of(const char* name, const Matrix& values) {
  const auto bytes =
      std::as_bytes(std::span(values.data(), static_cast<std::size_t>(values.size())));
  return {.name = name,
          .extents = {static_cast<std::uint64_t>(values.rows()),
                      static_cast<std::uint64_t>(values.cols())},
          .bytes = {bytes.begin(), bytes.end()}};
}

}  // namespace

TEST_SUITE("model files in Python [needs python]") {
  TEST_CASE("model files: NumPy gets the model's outputs from its weights, and gives them back") {
    if (!has_python_modules("a model's weights in Python", "numpy, safetensors.numpy")) return;
    const lockstep_test::TemporaryFolder folder;
    ls::OneDeviceStrategy alone;
    auto model = ls::compile<ConvNet>(alone, {.seed = 3}, ls::MeanSquaredError{}, ls::SGD{});
    Matrix x(7, 60);
    for (Eigen::Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i * 31 % 17) / 17;
    const std::vector<ls::SavedArray> data = {array_of("x", x), array_of("y", model.predict(x))};
    ls::write_file_atomically(folder.path("data.npz"), ls::encode_npz(data));
    model.save_weights(folder.path("ours.npz"));
    model.save_weights(folder.path("ours.safetensors"));

    const Finished finished = run_python(R"(
import sys, numpy as np
from safetensors.numpy import load_file, save_file
folder = sys.argv[1]
data = np.load(folder + "/data.npz")
for weights in (dict(np.load(folder + "/ours.npz")), load_file(folder + "/ours.safetensors")):
    assert list(sorted(weights)) == ["conv2d/bias", "conv2d/kernel", "dense/bias", "dense/kernel"], sorted(weights)
    kernel = weights["conv2d/kernel"]
    assert kernel.shape == (3, 3, 2, 4)
    x = data["x"].reshape(-1, 5, 6, 2)
    h = weights["conv2d/bias"] + sum(np.einsum("nijc,cf->nijf", x[:, a:a + 3, b:b + 4], kernel[a, b])
                                     for a in range(3) for b in range(3))
    y = np.maximum(h, 0).reshape(len(x), -1) @ weights["dense/kernel"] + weights["dense/bias"]
    assert abs(y - data["y"]).max() < 1e-5, abs(y - data["y"]).max()
backwards = {name: weights[name] for name in reversed(weights)}
np.savez(folder + "/theirs.npz", **{n: np.asfortranarray(a) for n, a in backwards.items()})
save_file({n: a.astype("float64") for n, a in backwards.items()}, folder + "/theirs.safetensors")
)",
                                         {folder.path()});
    REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
    for (const char* name : {"theirs.npz", "theirs.safetensors"}) {
      auto other = ls::compile<ConvNet>(alone, {.seed = 4}, ls::MeanSquaredError{}, ls::SGD{});
      CHECK(other.parameters_crc32c() != model.parameters_crc32c());
      other.load_weights(folder.path(name));
      CHECK(other.parameters_crc32c() == model.parameters_crc32c());
    }
  }
}
