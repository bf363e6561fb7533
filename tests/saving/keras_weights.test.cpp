// Keras's .weights.h5 files, which HDF5's own library reads and writes. This file alone is compiled
// with it, where it is there.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/bidirectional.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/conv2d_transpose.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/model_testing.hpp"
#include "support/python.hpp"
#include "support/source_path.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using Names = std::vector<std::string>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace {

using Body = ls::Parallel<ls::Add, ls::Dense<4>, ls::Sequential<ls::Dense<1>, ls::Dense<4>>>;
using Small = ls::Sequential<ls::Input<3>, ls::Embedding<5, 2>, ls::LSTM<2>, Body, ls::Dense<3>>;
using WiderHead =
    ls::Sequential<ls::Input<3>, ls::Embedding<5, 2>, ls::LSTM<2>, Body, ls::Dense<5>>;

template <class Net>
auto compiled(ls::OneDeviceStrategy& alone, std::uint64_t seed) {
  return ls::compile<Net>(alone, {.seed = seed}, ls::MeanSquaredError{}, ls::SGD{});
}

/// Takes HDF5's library away for a while.
class WithoutLibrary {
 public:
  WithoutLibrary() : kept_(std::exchange(ls::detail::hdf5_codec, nullptr)) {}
  WithoutLibrary(const WithoutLibrary&) = delete;
  WithoutLibrary& operator=(const WithoutLibrary&) = delete;
  ~WithoutLibrary() { ls::detail::hdf5_codec = kept_; }

 private:
  const ls::detail::Hdf5Codec* kept_;
};

}  // namespace

TEST_CASE(
    "Keras's files: without lockstep::hdf5, an error says what to link; other names are "
    "refused") {
  const TemporaryFolder folder;
  ls::OneDeviceStrategy alone;
  auto model = compiled<Small>(alone, 1);
  const auto refusal = [&](const std::function<void(const std::string&)>& f, const char* name) {
    return message_of<ls::ConfigurationError>([&] { f(folder.path(name)); });
  };
  const auto save = [&](const std::string& path) { model.save_weights(path); };
  const auto load = [&](const std::string& path) { model.load_weights(path); };
  const auto load_by_name = [&](const std::string& path) {
    (void)model.load_weights(path, {.by_name = true});
  };
  const auto checkpoint = [](const std::string& path) {
    const ls::ModelCheckpoint callback({.filepath = path, .save_weights_only = true});
  };
  {
    const WithoutLibrary none;
    for (const auto& f : {std::function<void(const std::string&)>(save),
                          std::function<void(const std::string&)>(load),
                          std::function<void(const std::string&)>(load_by_name),
                          std::function<void(const std::string&)>(checkpoint)})
      CHECK(contains(refusal(f, "x.weights.h5"), "link the CMake target lockstep::hdf5"));
    CHECK(contains(refusal(load, "x.keras"), "link the CMake target lockstep::hdf5"));
  }
  for (const char* const name : {"x.h5", "x.hdf5", "x.keras"}) {
    CHECK(contains(refusal(save, name), ".weights.h5 is written"));
    CHECK(contains(refusal(checkpoint, name), "ModelCheckpoint: '"));
    CHECK(contains(message_of<ls::ConfigurationError>([&] { model.save(folder.path(name)); }),
                   "have weights alone"));
  }
  CHECK(contains(refusal(load, "x.h5"), ".weights.h5 and .keras, which Keras 3 writes, are read"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

#if defined(LOCKSTEP_HAS_HDF5)

namespace {

std::string sample() { return lockstep_test::source_path("tests/saving/samples/keras.weights.h5"); }

}  // namespace

TEST_SUITE("Keras's weights [needs library]") {
  TEST_CASE("Keras's files: what Keras 3 wrote is read, and comes back from a file of our own") {
    const TemporaryFolder folder;
    ls::OneDeviceStrategy alone;
    auto model = compiled<Small>(alone, 1);
    model.load_weights(sample());
    // In Keras's order; see make_golden_keras_weights.py.
    const Names order = {"embedding/embeddings",
                         "lstm/lstm_cell/kernel",
                         "lstm/lstm_cell/recurrent_kernel",
                         "lstm/lstm_cell/bias",
                         "parallel/sequential/dense/kernel",
                         "parallel/sequential/dense/bias",
                         "parallel/dense/kernel",
                         "parallel/dense/bias",
                         "parallel/sequential/dense_1/kernel",
                         "parallel/sequential/dense_1/bias",
                         "dense/kernel",
                         "dense/bias"};
    const auto weights = model.get_weights();
    REQUIRE(weights.size() == order.size());
    for (const auto& weight : weights) {
      CAPTURE(weight.name);
      const auto at = std::find(order.begin(), order.end(), weight.name);
      REQUIRE(at != order.end());
      const auto i = static_cast<float>(at - order.begin());
      for (std::size_t j = 0; j < weight.values.size(); ++j)
        CHECK(weight.values[j] == (static_cast<float>(j) - 3 * i) / 8);
    }

    // Also with the callback, and into double.
    model.save_weights(folder.path("ours.weights.h5"));
    model.save_weights(folder.path("again.weights.h5"));
    CHECK(ls::read_file(folder.path("ours.weights.h5")) ==
          ls::read_file(folder.path("again.weights.h5")));
    auto other =
        ls::compile<Small, double>(alone, {.seed = 2}, ls::MeanSquaredError{}, ls::SGD{0.0});
    (void)other.load_weights(folder.path("ours.weights.h5"), {.weights_only = true});
    for (std::size_t i = 0; i < weights.size(); ++i)
      CHECK(other.get_weights()[i].values ==
            std::vector<double>(weights[i].values.begin(), weights[i].values.end()));
    ls::ModelCheckpoint checkpoint(
        {.filepath = folder.path("{epoch}.weights.h5"), .save_weights_only = true});
    other.fit(Matrix(Matrix::Ones(4, 3)), Matrix(Matrix::Ones(4, 3)), {.verbose = 0}, checkpoint);
    auto third = compiled<Small>(alone, 3);
    third.load_weights(folder.path("1.weights.h5"));
    for (std::size_t i = 0; i < weights.size(); ++i)
      CHECK(third.get_weights()[i].values == weights[i].values);
  }

  TEST_CASE("Keras's files: by_name, skip_mismatch and rename as with other files") {
    ls::OneDeviceStrategy alone;
    auto wide = compiled<WiderHead>(alone, 1);
    const auto before = wide.get_weights();
    CHECK(contains(message_of<ls::ConfigurationError>([&] { wide.load_weights(sample()); }),
                   "expected 'dense/kernel' to be (4, 5), in the file it is (4, 3)"));
    CHECK(wide.get_weights()[0].values == before[0].values);
    const ls::LoadedWeights report = wide.load_weights(sample(), {.skip_mismatch = true});
    CHECK(report.mismatched == Names{"dense/kernel", "dense/bias"});
    CHECK(report.loaded.size() == before.size() - 2);

    using Tail = ls::Sequential<ls::Input<4>, ls::Dense<3>>;
    auto tail = compiled<Tail>(alone, 1);
    CHECK(contains(message_of<ls::ConfigurationError>([&] { tail.load_weights(sample()); }),
                   "expected 'dense/kernel' to be (4, 3), in the file it is (2, 1)"));
    const ls::LoadedWeights last = tail.load_weights(
        sample(), {.by_name = true, .rename = {{"dense", "x"}, {"dense_3", "dense"}}});
    CHECK(last.loaded == Names{"dense/kernel", "dense/bias"});
    CHECK(last.unused.size() == 10);
    CHECK(tail.get_weights()[0].values[0] == -30.0F / 8);
    CHECK(contains(message_of<ls::ConfigurationError>([&] {
                     auto model = compiled<ls::Sequential<ls::Input<4>, UserDense<3>>>(alone, 1);
                     model.load_weights(sample());
                   }),
                   "expected an array 'user_dense/0' (4, 3) for 'user_dense/kernel', the file has "
                   "none of that name"));
  }

  TEST_CASE("Keras's files: damaged ones are refused with the file's name, and change nothing") {
    const TemporaryFolder folder;
    const std::string path = folder.path("x.weights.h5");
    ls::OneDeviceStrategy alone;
    auto model = compiled<Small>(alone, 1);
    const auto before = model.get_weights();
    const auto refusal = [&] {
      const std::string message = message_of<ls::DataError>([&] { model.load_weights(path); });
      for (std::size_t i = 0; i < before.size(); ++i)
        CHECK(model.get_weights()[i].values == before[i].values);
      return message;
    };
    const auto bytes = ls::read_file(sample()).value();
    for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{95},
                                   bytes.size() / 3, bytes.size() / 2, bytes.size() - 1}) {
      CAPTURE(size);
      ls::write_file_atomically(path, std::span(bytes).first(size));
      CHECK(contains(refusal(), path));
    }
    ls::write_file_atomically(path, std::as_bytes(std::span("no file of HDF5")));
    CHECK(contains(refusal(), "does not begin like one"));
    ls::write_file_atomically(folder.path("x.keras"),
                              ls::encode_npz(std::vector<ls::SavedArray>{}));
    CHECK_THROWS_AS(model.load_weights(folder.path("x.keras")), ls::DataError);
  }
}

namespace {

using Images = ls::Sequential<
    ls::Input<6, 5, 2>, ls::Normalization<>, ls::Conv2D<4, 3, ls::ReLU>, ls::BatchNormalization<>,
    ls::Sequential<ls::DepthwiseConv2D<2>, ls::Flatten, ls::Dense<4, ls::Tanh>>, ls::Dense<3>>;
using Words =
    ls::Sequential<ls::Input<6>, ls::Embedding<11, 4>, ls::Residual<ls::MultiHeadAttention<2, 3>>,
                   ls::LayerNormalization<>,
                   ls::Bidirectional<ls::LSTM<3, ls::LSTMOptions{.return_sequences = true}>>,
                   ls::GRU<4>, ls::Dropout<0.1>,
                   ls::Parallel<ls::Concatenate, ls::Dense<5, ls::ReLU>,
                                ls::Sequential<ls::Dense<3>, ls::Dense<2>>>,
                   ls::Dense<3>>;

constexpr ls::GRUOptions reset_before{.return_sequences = true, .reset_after = false};
constexpr ls::GRUOptions reset_after{.return_sequences = true};
using Gates = ls::Sequential<
    ls::Input<5, 3>, ls::ToSequence, ls::Bidirectional<ls::GRU<3, reset_after>>,
    ls::GRU<4, reset_before>, ls::Bidirectional<ls::GRU<2, reset_before>, ls::MergeMode::sum>,
    ls::SimpleRNN<3, ls::SimpleRNNOptions{.return_sequences = true}>, ls::LSTM<4>, ls::Dense<2>>;
constexpr ls::Conv2DTransposeOptions doubles{.stride = 2, .padding = ls::Padding::same};
using Generator =
    ls::Sequential<ls::Input<3, 3, 2>, ls::Conv2DTranspose<4, 3, ls::ReLU, doubles>,
                   ls::GroupNormalization<2>, ls::SeparableConv2D<3, 3>, ls::Flatten, ls::Dense<3>>;

constexpr const char* keras_models = R"py(
import os, sys
os.environ["KERAS_BACKEND"] = "torch"
try:
    import keras
    assert keras.__version__.startswith("3.")
except Exception:  # Keras may not fit the NumPy or PyTorch that is there
    sys.exit(77)
import numpy as np
L = keras.layers
keras.utils.set_random_seed(4)
images = keras.Sequential([
    keras.Input((6, 5, 2)), L.Normalization(), L.Conv2D(4, 3, activation="relu"), L.BatchNormalization(),
    keras.Sequential([L.DepthwiseConv2D(2), L.Flatten(), L.Dense(4, activation="tanh")]), L.Dense(3)])
ids = keras.Input((6,), dtype="int32")
h = L.Embedding(11, 4)(ids)
h = L.LayerNormalization()(L.add([h, L.MultiHeadAttention(2, 3)(h, h)]))
h = L.Dropout(.1)(L.GRU(4)(L.Bidirectional(L.LSTM(3, return_sequences=True))(h)))
h = L.concatenate([L.Dense(5, activation="relu")(h), L.Dense(2)(L.Dense(3)(h))])
words = keras.Model(ids, L.Dense(3)(h))
gates = keras.Sequential([
    keras.Input((5, 3)), L.Bidirectional(L.GRU(3, return_sequences=True)), L.GRU(4, return_sequences=True, reset_after=False),
    L.Bidirectional(L.GRU(2, return_sequences=True, reset_after=False), merge_mode="sum"),
    L.SimpleRNN(3, return_sequences=True), L.LSTM(4), L.Dense(2)])
generator = keras.Sequential([
    keras.Input((3, 3, 2)), L.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu"), L.GroupNormalization(2),
    L.SeparableConv2D(3, 3), L.Flatten(), L.Dense(3)])
folder = sys.argv[1]
)py";

constexpr const char* keras_saves = R"py(
random = np.random.default_rng(5)
x, w = random.standard_normal((7, 6, 5, 2)).astype("float32"), random.integers(0, 11, (7, 6))
s, g = random.standard_normal((7, 5, 3)).astype("float32"), random.standard_normal((7, 3, 3, 2)).astype("float32")
optimizers = {"gates": keras.optimizers.SGD(0.01, momentum=0.9, use_ema=True), "generator": "rmsprop"}
for model, inputs, name in (images, x, "images"), (words, w, "words"), (gates, s, "gates"), (generator, g, "generator"):
    for variable in model.weights:
        if "int" not in str(variable.dtype) and "seed" not in variable.path:
            value = random.uniform(.2, 1, variable.shape)
            variable.assign(value if "variance" in variable.path else (value - .6) * 2)
    if name == "images":
        images.layers[0].finalize_state()
    model.compile(optimizers.get(name, "adam"), "mse", metrics=["mae"])
    model.fit(inputs, np.zeros((7, *model.output_shape[1:])), verbose=0)  # so that the file has the optimizer's state, too
    model.save_weights(folder + "/" + name + ".weights.h5")
    model.save(folder + "/" + name + ".keras")
np.savez(folder + "/keras.npz", x=x.reshape(7, -1), w=w.astype("float32"), s=s.reshape(7, -1), g=g.reshape(7, -1),
         images=images.predict(x, verbose=0), words=words.predict(w, verbose=0),
         gates=gates.predict(s, verbose=0), generator=generator.predict(g, verbose=0))
)py";

constexpr const char* keras_loads = R"py(
data, ours = np.load(folder + "/keras.npz"), np.load(folder + "/ours.npz")
for model, inputs, name in ((images, data["x"].reshape(-1, 6, 5, 2), "images"), (words, data["w"], "words"),
                            (gates, data["s"].reshape(-1, 5, 3), "gates"), (generator, data["g"].reshape(-1, 3, 3, 2), "generator")):
    model.load_weights(folder + "/our_" + name + ".weights.h5")
    error = np.abs(model.predict(inputs, verbose=0) - ours[name]).max()
    assert error < 1e-5, (name, error)
    assert np.abs(data[name] - ours[name]).max() > 1e-3
import h5py
# (ToSequence is no layer of Keras.)
names = lambda path: sorted(set(h5py.File(folder + path)["layers"]) - {"to_sequence"})
for name in "images", "gates", "generator":
    assert names(f"/our_{name}.weights.h5") == names(f"/{name}.weights.h5"), names(f"/our_{name}.weights.h5")
)py";

Matrix matrix_of(const std::vector<ls::SavedArray>& arrays, const char* name) {
  for (const ls::SavedArray& array : arrays)
    if (array.name == name)
      return Eigen::Map<const Matrix>(reinterpret_cast<const float*>(array.bytes.data()),
                                      static_cast<Eigen::Index>(array.extents[0]),
                                      static_cast<Eigen::Index>(array.extents[1]));
  FAIL("no array " << name);
  return {};
}

}  // namespace

TEST_SUITE("Keras's weights in Python [needs python]") {
  TEST_CASE("load_weights gives the outputs of Keras 3, and Keras 3 gives ours") {
    if (!has_python_modules("weights of Keras 3", "numpy, h5py, torch")) return;
    const TemporaryFolder folder;
    const Finished saved = run_python(std::string(keras_models) + keras_saves, {folder.path()});
    if (saved.exit_code == 77) return skip("weights of Keras 3", "Python with keras 3");
    REQUIRE_MESSAGE(saved.exit_code == 0, saved.output);
    const auto data = ls::decode_npz(*ls::read_file(folder.path("keras.npz")));
    std::vector<ls::SavedArray> ours;
    ls::OneDeviceStrategy alone;
    const auto check = [&](auto& model, const std::string& name, const char* inputs) {
      CAPTURE(name);
      const Matrix x = matrix_of(data, inputs), expected = matrix_of(data, name.c_str());
      for (const char* const extension : {".weights.h5", ".keras"}) {
        CAPTURE(extension);
        const auto begin = model.get_weights();
        model.load_weights(folder.path(name + extension));
        CHECK((Matrix(model.predict(x)) - expected).cwiseAbs().maxCoeff() < 1e-5F);
        if (extension == std::string(".weights.h5")) model.set_weights(begin);
      }
      auto weights = model.get_weights();
      for (auto& weight : weights)
        for (float& value : weight.values) value = 0.75F * value + 0.0625F;
      model.set_weights(weights);
      model.save_weights(folder.path("our_" + name + ".weights.h5"));
      const Matrix y = model.predict(x);
      const auto bytes = std::as_bytes(std::span(y.data(), static_cast<std::size_t>(y.size())));
      ours.push_back(
          {.name = name,
           .extents = {static_cast<std::uint64_t>(y.rows()), static_cast<std::uint64_t>(y.cols())},
           .bytes = {bytes.begin(), bytes.end()}});
    };
    auto images = compiled<Images>(alone, 1);
    check(images, "images", "x");
    auto words = compiled<Words>(alone, 2);
    check(words, "words", "w");
    auto gates = compiled<Gates>(alone, 3);
    check(gates, "gates", "s");
    auto generator = compiled<Generator>(alone, 4);
    check(generator, "generator", "g");
    ls::write_file_atomically(folder.path("ours.npz"), ls::encode_npz(ours));
    const Finished loaded = run_python(std::string(keras_models) + keras_loads, {folder.path()});
    CHECK_MESSAGE(loaded.exit_code == 0, loaded.output);
  }
}

#else

TEST_SUITE("Keras's weights [needs library]") {
  TEST_CASE("Keras's files, both ways") {
    skip("Keras's .weights.h5 files", "HDF5's library for C (Debian: libhdf5-dev)");
  }
}

#endif
