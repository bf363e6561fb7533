// The state of optimizers in Keras's .weights.h5 files, which HDF5's own library reads and writes.
// This file is compiled with it, where it is there.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "golden/keras_optimizers.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adafactor.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/ftrl.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/lion.hpp"
#include "lockstep/optimizers/muon.hpp"
#include "lockstep/optimizers/rmsprop.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/any_optimizer.hpp"
#include "support/captured_stderr.hpp"
#include "support/free_addresses.hpp"
#include "support/model_testing.hpp"
#include "support/python.hpp"
#include "support/source_path.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

#if defined(LOCKSTEP_HAS_HDF5)

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The data of make_golden_keras_optimizers.py: features of step `step` (of 6 samples).
Matrix features(int step) {
  Matrix x(6, 4);
  for (int i = 0; i < 24; ++i) x(i / 4, i % 4) = (step * 24 + i) * 37 % 64 / 32.0 - 1;
  return x;
}
Matrix targets(int step) {
  Matrix y(6, 1);
  for (int i = 0; i < 6; ++i) y(i, 0) = (step * 6 + i) * 23 % 16 / 8.0 - 1;
  return y;
}

template <class Model>
void train(Model& model, int from, int to) {
  for (int step = from; step < to; ++step) model.train_on_batch(features(step), targets(step));
}

using Small = ls::Sequential<ls::Input<4>, ls::Dense<3, ls::Tanh>, ls::Dense<1>>;

auto compiled(ls::OneDeviceStrategy& alone, const AnyOptimizer& optimizer) {
  return ls::compile<Small, double>(alone, {.seed = 1}, ls::MeanSquaredError{}, optimizer);
}

std::string sample(const std::string& optimizer) {
  return source_path("tests/saving/samples/keras_" + optimizer + ".weights.h5");
}

template <class Model>
std::vector<double> all_weights(const Model& model) {
  std::vector<double> all;
  for (const auto& weight : model.get_weights())
    all.insert(all.end(), weight.values.begin(), weight.values.end());
  return all;
}

double largest_difference(std::span<const double> a, std::span<const double> b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// What load_weights writes to the log.
template <class Model, class... Options>
std::string log_of_load(Model& model, const std::string& path, const Options&... options) {
  const CapturedStderr output;
  (void)model.load_weights(path, options...);
  return output.text();
}

}  // namespace

TEST_SUITE("Keras's optimizers [needs library]") {
  TEST_CASE("Keras's files: training goes on with the optimizer's state that Keras 3 wrote") {
    const TemporaryFolder folder;
    ls::OneDeviceStrategy alone;
    const auto check = [&](const std::string& name, const AnyOptimizer& optimizer, double rate,
                           std::span<const double> expected) {
      CAPTURE(name);
      auto model = compiled(alone, optimizer);
      CHECK(contains(log_of_load(model, sample(name)),
                     "with the state of the optimizer: 4 updates, learning rate "));
      CHECK(model.iterations() == 4);
      CHECK(model.learning_rate() == doctest::Approx(rate));
      train(model, 4, 5);
      model.save_weights(folder.path(name + ".weights.h5"));
      train(model, 5, 7);
      CHECK(largest_difference(all_weights(model), expected) < 1e-5);
      auto other = compiled(alone, optimizer);
      CHECK(other.load_weights(folder.path(name + ".weights.h5"), {}).optimizer_state);
      train(other, 5, 7);
      CHECK(largest_difference(all_weights(other), all_weights(model)) < 1e-12);
    };
    namespace golden = golden::keras_optimizers;
    // The rate is the file's.
    check("sgd", ls::SGD{.learning_rate = 1, .momentum = 0.9}, 0.05, golden::sgd);
    check("adam", ls::Adam{.amsgrad = true, .use_ema = true, .ema_momentum = 0.9}, 0.01,
          golden::adam);
    check("rmsprop", ls::RMSprop{.momentum = 0.5, .centered = true}, 0.01, golden::rmsprop);
    check("adafactor", ls::Adafactor{}, 0.05, golden::adafactor);
  }

  TEST_CASE("Keras's files: weights alone, and when the optimizer's state does not fit") {
    const TemporaryFolder folder;
    ls::OneDeviceStrategy alone;
    auto model = compiled(alone, ls::SGD{.learning_rate = 0.5, .momentum = 0.9});
    const auto is_untouched = [&] {
      return model.iterations() == 0 && model.learning_rate() == 0.5;
    };
    CHECK(log_of_load(model, sample("sgd"), ls::LoadWeightsOptions{.weights_only = true}).empty());
    CHECK(is_untouched());
    CHECK_FALSE(model.load_weights(sample("sgd"), {.by_name = true}).optimizer_state);
    CHECK(is_untouched());
    CHECK(contains(log_of_load(model, sample("adam")),
                   "the optimizer's state is not taken over: the file has that of 'adam', this "
                   "program has SGD"));
    CHECK(is_untouched());

    using Wide = ls::Sequential<ls::Input<4>, ls::Dense<3, ls::Tanh>, ls::Dense<2>>;
    auto wide = ls::compile<Wide, double>(alone, {.seed = 1}, ls::MeanSquaredError{},
                                          AnyOptimizer(ls::SGD{.momentum = 0.9}));
    CHECK(contains(log_of_load(wide, sample("sgd"), ls::LoadWeightsOptions{.skip_mismatch = true}),
                   "2 of 4 variables loaded; of another shape there: dense_1/kernel, dense_1/bias; "
                   "the optimizer's state is not taken over: the file is of another model"));
    CHECK(wide.iterations() == 0);

    // Keras has no LARS.
    auto lars = compiled(alone, ls::LARS{.learning_rate = 0.01});
    train(lars, 0, 2);
    lars.save_weights(folder.path("lars.weights.h5"));
    CHECK(log_of_load(model, folder.path("lars.weights.h5")).empty());
    CHECK(is_untouched());
  }

  TEST_CASE("Keras's files: ModelCheckpoint saves the optimizer, a callback loads weights alone") {
    const TemporaryFolder folder;
    ls::OneDeviceStrategy alone;
    const std::string path = folder.path("{epoch}.weights.h5");
    auto model = compiled(alone, ls::Adam{});
    model.fit(features(0), targets(0), {.batch_size = 2, .epochs = 2, .verbose = 0},
              ls::ModelCheckpoint({.filepath = path, .save_weights_only = true}));
    auto other = compiled(alone, ls::Adam{.learning_rate = 0.5});
    other.load_weights(folder.path("2.weights.h5"));
    CHECK(other.iterations() == 6);
    CHECK(other.learning_rate() == 0.001);
    train(model, 1, 4);
    train(other, 1, 4);
    CHECK(largest_difference(all_weights(model), all_weights(other)) < 1e-12);

    bool has_loaded = false;
    ls::LambdaCallback loads{.on_epoch_begin = [&](int epoch) {
      if (epoch != 1) return;
      has_loaded = true;
      CHECK(contains(log_of_load(model, folder.path("1.weights.h5")),
                     "the optimizer's state is not taken over: the model is in fit"));
    }};
    const std::int64_t before = model.iterations();
    model.fit(features(0), targets(0), {.batch_size = 6, .epochs = 2, .verbose = 0}, loads);
    CHECK(has_loaded);
    CHECK(model.iterations() == before + 2);
  }

  TEST_CASE("Keras's files: workers that share out updates save and load the whole state") {
    const TemporaryFolder folder;
    const auto addresses = free_addresses(2);
    const auto thrown = run_threads(2, [&](int rank) {
      ls::Cluster cluster;
      cluster.spec.worker = addresses;
      cluster.task.index = rank;
      ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>> strategy(
          cluster, {.communication_options = patient_options(), .sharded_updates = true});
      using Net = ls::Sequential<ls::Input<4>, ls::Dense<64, ls::Tanh>, ls::Dense<1>>;
      const auto compiled = [&](double rate) {
        return ls::compile<Net, double>(strategy, {.seed = 1}, ls::MeanSquaredError{},
                                        AnyOptimizer(ls::Adam{.learning_rate = rate}));
      };
      auto model = compiled(0.01);
      train(model, 0, 3);
      model.save_weights(folder.path("3.weights.h5"));
      train(model, 3, 5);
      model.save_weights(folder.path("5.weights.h5"));
      auto other = compiled(0.5);
      CHECK(other.load_weights(folder.path("3.weights.h5"), {}).optimizer_state);
      train(other, 3, 5);
      other.save_weights(folder.path("again.weights.h5"));
      CHECK(other.parameters_crc32c() == model.parameters_crc32c());
    });
    for (const auto& exception : thrown) CHECK(message_of(exception) == "");
    CHECK(ls::read_file(folder.path("again.weights.h5")) ==
          ls::read_file(folder.path("5.weights.h5")));
    const auto file =
        ls::decode_keras_file("x.weights.h5", *ls::read_file(folder.path("5.weights.h5")), {}, 100);
    REQUIRE(file.optimizer);
    CHECK(file.optimizer->count == 2 + 8);
    for (const ls::SavedArray& array : file.optimizer->variables)
      CHECK(std::ranges::any_of(array.bytes, [](std::byte byte) { return byte != std::byte{}; }));
  }

  TEST_CASE("Keras's files: an optimizer's state that is damaged is refused, and changes nothing") {
    const TemporaryFolder folder;
    const std::string path = folder.path("x.weights.h5");
    ls::OneDeviceStrategy alone;
    auto model = compiled(alone, ls::SGD{.momentum = 0.9});
    const auto before = all_weights(model);
    const auto refusal = [&](auto&& change) {
      std::filesystem::copy_file(sample("sgd"), path,
                                 std::filesystem::copy_options::overwrite_existing);
      const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      REQUIRE(file >= 0);
      change(file);
      REQUIRE(H5Fclose(file) >= 0);
      const std::string message = message_of<ls::DataError>([&] { model.load_weights(path); });
      CHECK(all_weights(model) == before);
      CHECK(model.iterations() == 0);
      return message;
    };
    CHECK(contains(refusal([](hid_t file) {
                     const std::int64_t steps = -1;
                     const hid_t set = H5Dopen2(file, "optimizer/vars/0", H5P_DEFAULT);
                     H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, &steps);
                     H5Dclose(set);
                   }),
                   "optimizer/vars/0: expected the number of steps"));
    CHECK(contains(refusal([](hid_t file) {
                     H5Ldelete(file, "optimizer", H5P_DEFAULT);
                     H5Lcreate_external("other.h5", "/x", file, "optimizer", H5P_DEFAULT,
                                        H5P_DEFAULT);
                   }),
                   "optimizer: it is a link to another place, which is not followed"));
  }

  TEST_CASE("Keras's files: a model with nothing to train has no optimizer's state") {
    const TemporaryFolder folder;
    const std::string path = folder.path("x.weights.h5");
    using Fixed = ls::Sequential<ls::Input<4>, ls::Frozen<ls::Dense<1>>>;
    ls::OneDeviceStrategy alone;
    auto model = ls::compile<Fixed>(alone, {.seed = 1}, ls::MeanSquaredError{}, ls::Nadam{});
    model.save_weights(path);
    auto other = ls::compile<Fixed>(alone, {.seed = 2}, ls::MeanSquaredError{}, ls::Nadam{});
    other.load_weights(path);
    CHECK(ls::read_file(path) != std::nullopt);
    other.save_weights(folder.path("y.weights.h5"));
    CHECK(ls::read_file(folder.path("y.weights.h5")) == ls::read_file(path));
  }

  TEST_CASE("Keras's files: an optimizer with other things than numbers is left out") {
    const TemporaryFolder folder;
    const std::string path = folder.path("x.weights.h5");
    ls::OneDeviceStrategy alone;
    for (const bool is_there : {true, false}) {
      auto model = compiled(alone, ls::SGD{.momentum = 0.9});
      const auto before = all_weights(model);
      std::filesystem::copy_file(sample("sgd"), path,
                                 std::filesystem::copy_options::overwrite_existing);
      const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      REQUIRE(file >= 0);
      H5Ldelete(file, "optimizer/vars/3", H5P_DEFAULT);
      const char* const other = is_there ? "optimizer/vars/3" : "optimizer/vars/momentum";
      H5Gclose(H5Gcreate2(file, other, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      REQUIRE(H5Fclose(file) >= 0);
      CHECK(contains(log_of_load(model, path), "has other things than arrays of numbers"));
      CHECK(all_weights(model) != before);
      CHECK(model.iterations() == 0);
    }
  }
}

namespace {

using Branches = ls::Sequential<
    ls::Input<4>,
    ls::Parallel<ls::Add, ls::Dense<3, ls::Tanh>, ls::Sequential<ls::Dense<2>, ls::Dense<3>>>,
    ls::Dense<1>>;

constexpr const char* keras_models = R"py(
import os, re, sys, warnings
os.environ["KERAS_BACKEND"] = "torch"
try:
    import keras
    assert keras.__version__.startswith("3.")
except Exception:  # Keras may not fit the NumPy or PyTorch that is there
    sys.exit(77)
import h5py
import numpy as np
keras.config.set_floatx("float64")
O = keras.optimizers
optimizers = {
    "sgd": lambda: O.SGD(0.05),
    "momentum": lambda: O.SGD(0.05, momentum=0.9),
    "nesterov": lambda: O.SGD(0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda: O.Adam(0.01),
    "amsgrad": lambda: O.Adam(0.01, amsgrad=True, weight_decay=0.01),
    "adamw": lambda: O.AdamW(0.01),
    "nadam": lambda: O.Nadam(0.01),
    "adamax": lambda: O.Adamax(0.01),
    "rmsprop": lambda: O.RMSprop(0.01),
    "momentum_rmsprop": lambda: O.RMSprop(0.01, momentum=0.5),
    "centered_rmsprop": lambda: O.RMSprop(0.01, momentum=0.5, centered=True),
    "adagrad": lambda: O.Adagrad(0.05),
    "adadelta": lambda: O.Adadelta(0.5),
    "lion": lambda: O.Lion(0.01),
    "ftrl": lambda: O.Ftrl(0.05, l1_regularization_strength=0.001),
    "adafactor": lambda: O.Adafactor(0.05),
    "averaged": lambda: O.Adam(0.01, use_ema=True, ema_momentum=0.9),
    "accumulated": lambda: O.SGD(0.05, momentum=0.9, gradient_accumulation_steps=2),
    "scheduled": lambda: O.Adam(keras.optimizers.schedules.ExponentialDecay(0.01, 3, 0.5)),
}
if hasattr(O, "Lamb"):
    optimizers["lamb"] = lambda: O.Lamb(0.01)
if hasattr(O, "Muon"):
    optimizers["muon"] = lambda: O.Muon(0.01)
numbers = np.arange(7 * 6 * 4)
x = ((numbers * 37 % 64) / 32 - 1).reshape(7, 6, 4)
y = ((numbers[: 7 * 6] * 23 % 16) / 8 - 1).reshape(7, 6, 1)

def compiled(name):
    keras.utils.set_random_seed(3)
    L = keras.layers
    inputs = keras.Input((4,))
    branch = L.Dense(3)(L.Dense(2)(inputs))
    model = keras.Model(inputs, L.Dense(1)(L.add([L.Dense(3, activation="tanh")(inputs), branch])))
    model.compile(optimizers[name](), "mse")
    model.optimizer.build(model.trainable_variables)
    return model

def train(model, begin, end):
    for step in range(begin, end):
        model.train_on_batch(x[step], y[step])
    return model

folder = sys.argv[1] + "/"
)py";

constexpr const char* keras_saves = R"py(
for name in optimizers:
    model = train(compiled(name), 0, 4)
    model.save_weights(folder + name + "_4.weights.h5")
    train(model, 4, 7).save_weights(folder + name + "_7.weights.h5")
)py";

constexpr const char* keras_loads = R"py(
warnings.filterwarnings("error", "Skipping variable loading")
def arrays(path):
    with h5py.File(path) as file:
        found = {}
        file.visititems(lambda at, item: found.update({at: item[()]}) if isinstance(item, h5py.Dataset) else None)
        return found, re.sub(r"_\d+$", "", file["optimizer/vars"].attrs["name"]).replace("_", "")  # "sgd_1"
for name in optimizers:
    model = compiled(name)
    model.load_weights(folder + name + "_ours_5.weights.h5")
    assert int(model.optimizer._iterations) == 5, (name, int(model.optimizer._iterations))
    train(model, 5, 7).save_weights(folder + name + "_again_7.weights.h5")
    expected, kind = arrays(folder + name + "_7.weights.h5")
    for other in "again", "ours":
        found, found_kind = arrays(f"{folder}{name}_{other}_7.weights.h5")
        assert found_kind == kind and found.keys() == expected.keys(), (name, other, found.keys() ^ expected.keys())
        for at, value in expected.items():
            if name == "adafactor" and at.startswith("optimizer") and value.ndim > 1 and other == "ours":
                continue  # what Keras computes anew in each step
            assert found[at].shape == value.shape, (name, other, at, found[at].shape, value.shape)
            error = np.abs(found[at] - value).max()
            assert error < 1e-5, (name, other, at, error)
)py";

}  // namespace

TEST_SUITE("Keras's optimizers in Python [needs python]") {
  TEST_CASE("training begun in Keras 3 goes on here, and there again, as it would have in Keras") {
    if (!has_python_modules("optimizers of Keras 3", "numpy, h5py, torch")) return;
    const TemporaryFolder folder;
    const Finished saved = run_python(std::string(keras_models) + keras_saves, {folder.path()});
    if (saved.exit_code == 77) return skip("optimizers of Keras 3", "Python with keras 3");
    REQUIRE_MESSAGE(saved.exit_code == 0, saved.output);
    using Optimizers = std::vector<std::pair<std::string, AnyOptimizer>>;
    const Optimizers optimizers{
        {"sgd", ls::SGD{}},
        {"momentum", ls::SGD{.momentum = 0.9}},
        {"nesterov", ls::SGD{.momentum = 0.9, .nesterov = true, .weight_decay = 0.01}},
        {"adam", ls::Adam{}},
        {"amsgrad", ls::Adam{.amsgrad = true, .weight_decay = 0.01}},
        {"adamw", ls::AdamW{}},
        {"nadam", ls::Nadam{}},
        {"adamax", ls::Adamax{}},
        {"rmsprop", ls::RMSprop{}},
        {"momentum_rmsprop", ls::RMSprop{.momentum = 0.5}},
        {"centered_rmsprop", ls::RMSprop{.momentum = 0.5, .centered = true}},
        {"adagrad", ls::Adagrad{}},
        {"adadelta", ls::Adadelta{}},
        {"lion", ls::Lion{}},
        {"ftrl", ls::Ftrl{.l1_regularization_strength = 0.001}},
        {"adafactor", ls::Adafactor{}},
        {"averaged", ls::Adam{.use_ema = true, .ema_momentum = 0.9}},
        {"accumulated", ls::SGD{.momentum = 0.9, .gradient_accumulation_steps = 2}},
        {"scheduled", ls::Adam{.learning_rate = ls::ExponentialDecay{.initial_learning_rate = 0.01,
                                                                     .decay_steps = 3,
                                                                     .decay_rate = 0.5}}},
        {"lamb", ls::Lamb{}},
        {"muon", ls::Muon{}}};
    ls::OneDeviceStrategy alone;
    for (const auto& entry : optimizers) {
      const std::string& name = entry.first;
      CAPTURE(name);
      const std::string begin = folder.path(name);
      if (!std::filesystem::exists(begin + "_4.weights.h5")) continue;  // not in this Keras
      auto model =
          ls::compile<Branches, double>(alone, {.seed = 1}, ls::MeanSquaredError{}, entry.second);
      CHECK(model.load_weights(begin + "_4.weights.h5", {}).optimizer_state);
      train(model, 4, 5);
      model.save_weights(begin + "_ours_5.weights.h5");
      train(model, 5, 7);
      model.save_weights(begin + "_ours_7.weights.h5");
    }
    const Finished loaded = run_python(std::string(keras_models) + keras_loads, {folder.path()});
    CHECK_MESSAGE(loaded.exit_code == 0, loaded.output);
  }
}

#else

TEST_SUITE("Keras's optimizers [needs library]") {
  TEST_CASE("optimizers in Keras's files, both ways") {
    skip("optimizers in Keras's .weights.h5 files", "HDF5's library for C (Debian: libhdf5-dev)");
  }
}

#endif
