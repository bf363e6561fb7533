// A model's files in Python: names and layouts mean there what they mean here.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/npz.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/flatten.hpp"
#include "lockstep/losses/mean_squared_error.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/python.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep::testing;

namespace {

using Net = ls::Sequential<ls::Input<5, 6, 2>, ls::Conv2D<4, 3, ls::ReLU>, ls::Flatten, ls::Dense<3>>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

ls::SavedArray array_of(const char* name, const Matrix& values) {
  const auto bytes = std::as_bytes(std::span(values.data(), static_cast<std::size_t>(values.size())));
  return {.name = name,
          .extents = {static_cast<std::uint64_t>(values.rows()), static_cast<std::uint64_t>(values.cols())},
          .bytes = {bytes.begin(), bytes.end()}};
}

}  // namespace

TEST_SUITE("model files in Python [needs python]") {
  TEST_CASE("model files: NumPy gets the model's outputs from its weights, and gives them back") {
    if (!has_python_modules("a model's weights in Python", "numpy, safetensors.numpy")) return;
    const lockstep_test::TemporaryFolder folder;
    ls::OneDeviceStrategy alone;
    auto model = ls::compile<Net>(alone, {.seed = 3}, ls::MeanSquaredError{}, ls::SGD{});
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
      auto other = ls::compile<Net>(alone, {.seed = 4}, ls::MeanSquaredError{}, ls::SGD{});
      CHECK(other.parameters_crc32c() != model.parameters_crc32c());
      other.load_weights(folder.path(name));
      CHECK(other.parameters_crc32c() == model.parameters_crc32c());
    }
  }
}
