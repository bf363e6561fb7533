// Weights of other models and of PyTorch.
#include "lockstep/saving/model_files.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/python.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::LoadWeightsOptions;
using ls::WeightsLayout;
using ls::detail::WantedArray;
using Names = std::vector<std::string>;

namespace {

ls::SavedArray array(std::string name, std::vector<std::uint64_t> extents,
                     std::vector<float> values = {}) {
  std::size_t size = 1;
  for (const std::uint64_t extent : extents) size *= static_cast<std::size_t>(extent);
  if (values.empty()) {
    values.resize(size);
    std::iota(values.begin(), values.end(), 0.0F);
  }
  const auto bytes = std::as_bytes(std::span(values));
  return {.name = std::move(name),
          .extents = std::move(extents),
          .bytes = {bytes.begin(), bytes.end()}};
}

struct Variable {
  std::string name;
  std::vector<std::size_t> shape;
};

ls::detail::TransferredArrays transfer(std::vector<ls::SavedArray> found,
                                       const std::vector<Variable>& variables,
                                       const LoadWeightsOptions& options) {
  std::vector<WantedArray> wanted;
  for (const Variable& variable : variables) wanted.push_back({variable.name, variable.shape});
  return ls::detail::transfer_arrays(std::move(found), wanted, "float32", options);
}

std::string refusal(std::vector<ls::SavedArray> found, const std::vector<Variable>& variables,
                    const LoadWeightsOptions& options) {
  return message_of<ls::ConfigurationError>(
      [&] { (void)transfer(std::move(found), variables, options); });
}

/// A single variable of PyTorch's layout.
std::vector<float> turned(ls::SavedArray from, const Variable& to,
                          std::vector<std::size_t> flattened = {}) {
  const std::string name = from.name;
  const auto got = transfer(
      {std::move(from)}, {to},
      {.rename = {{name, to.name, std::move(flattened)}}, .layout = WeightsLayout::pytorch});
  const auto& bytes = got.arrays.at(0)->bytes;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

using Old = ls::Sequential<ls::Input<4>, UserDense<6>, UserDense<3>>;
using New = ls::Sequential<ls::Input<4>, UserDense<6>, UserDense<5>>;

}  // namespace

TEST_CASE("transfer: by_name, skip_mismatch, and what is refused without them") {
  const std::vector<Variable> model = {
      {"dense/kernel", {2, 3}}, {"dense/bias", {3}}, {"head/kernel", {3, 4}}};
  const auto file = [] {
    return std::vector{array("dense/kernel", {2, 3}), array("head/kernel", {3, 5}),
                       array("old/kernel", {1})};
  };
  CHECK(contains(refusal(file(), model, {}),
                 "expected an array 'dense/bias' (3), the file has none of that name: it has "
                 "'dense/kernel' (2, 3), "
                 "'head/kernel' (3, 5), 'old/kernel' (1); rename"));
  CHECK(contains(refusal(file(), model, {.by_name = true}),
                 "expected 'head/kernel' to be (3, 4), in the file it is (3, 5); skip_mismatch"));
  CHECK(contains(refusal({array("a", {1}), array("b", {1})}, {{"a", {1}}}, {}),
                 "the file has an array 'b'"));
  CHECK(contains(refusal({array("b", {1})}, {{"a", {1}}}, {.by_name = true}),
                 "the file has no variable of this model"));

  const auto got = transfer(file(), model, {.by_name = true, .skip_mismatch = true});
  CHECK(got.report.loaded == Names{"dense/kernel"});
  CHECK(got.report.missing == Names{"dense/bias"});
  CHECK(got.report.mismatched == Names{"head/kernel"});
  CHECK(got.report.unused == Names{"old/kernel"});
  CHECK(got.arrays[0].has_value());
  CHECK_FALSE(got.arrays[2].has_value());
  CHECK(ls::detail::report_text(got.report) ==
        "1 of 3 variables loaded; not in the file: dense/bias; of another shape there: "
        "head/kernel; not in this "
        "model: old/kernel");
}

TEST_CASE("transfer: names of arrays and of modules are renamed, the longest that fits counts") {
  const auto got = transfer(
      {array("net.fc/kernel", {2, 2}), array("net.fc/bias", {2}), array("net.fcx/bias", {2})},
      {{"dense/kernel", {2, 2}}, {"other", {2}}, {"net.fcx/bias", {2}}},
      {.rename = {{"net.fc", "dense"}, {"net.fc/bias", "other"}}});
  CHECK(got.report.loaded.size() == 3);
  CHECK(
      contains(refusal({array("a", {1})}, {{"a", {1}}}, {.rename = {{"fc", "dense"}}}),
               "rename: the file has no array whose name is or begins with 'fc'; it has 'a' (1)"));
  CHECK_THROWS_AS(transfer({{.name = "a", .extents = {3}, .bytes = std::vector<std::byte>(8)}},
                           {{"a", {3}}}, {}),
                  ls::DataError);
}

TEST_CASE("transfer: PyTorch's kernels in Keras's layout") {
  CHECK(turned(array("w", {2, 3}), {"dense/kernel", {3, 2}}) ==
        std::vector<float>{0, 3, 1, 4, 2, 5});
  // Of attention: rows or columns are those of two heads.
  CHECK(turned(array("w", {4, 2}), {"query/kernel", {2, 2, 2}}) ==
        std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7});
  CHECK(turned(array("w", {3, 4}), {"attention_output/kernel", {2, 2, 3}}) ==
        std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(turned(array("b", {4}), {"query/bias", {2, 2}}) == std::vector<float>{0, 1, 2, 3});
  // Two channels of 1 x 2 made flat: PyTorch has c0x0 c0x1 c1x0 c1x1, Keras c0x0 c1x0 c0x1 c1x1.
  CHECK(turned(array("w", {1, 4}), {"dense/kernel", {4, 1}}, {2, 1, 2}) ==
        std::vector<float>{0, 2, 1, 3});
  CHECK(turned(array("w", {2, 1, 3}), {"conv1d/kernel", {3, 1, 2}}) ==
        std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(turned(array("w", {2, 1, 1, 2}), {"conv2d/kernel", {1, 2, 1, 2}}) ==
        std::vector<float>{0, 2, 1, 3});
  // Depthwise: two channels, two kernels each.
  CHECK(turned(array("w", {4, 1, 1, 2}), {"depthwise_conv2d/kernel", {1, 2, 2, 2}}) ==
        std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7});
  CHECK(contains(message_of<ls::ConfigurationError>([] {
                   (void)turned(array("w", {1, 4}), {"dense/kernel", {4, 1}}, {2, 3});
                 }),
                 "flattened must be [channels, height, width] with a product of 4, got (2, 3)"));
  CHECK(contains(refusal({array("w", {2, 3})}, {{"w/kernel", {2, 3}}},
                         {.rename = {{"w", "w/kernel"}}, .layout = WeightsLayout::pytorch}),
                 "in the file it is (3, 2) (in Keras's layout)"));
}

TEST_CASE("load_weights: a model takes over the body of another one, in every replica") {
  const TemporaryFolder folder;
  ls::MirroredStrategy threads({.replicas = 2});
  auto old = ls::compile<Old>(threads, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
  auto model = ls::compile<New>(threads, {.seed = 2}, ls::MeanSquaredError{}, ls::SGD{});
  const auto before = model.get_weights();
  for (const char* const name : {"w.npz", "w.safetensors", "w"}) {
    model.set_weights(before);
    old.save_weights(folder.path(name));
    CHECK_THROWS_AS(model.load_weights(folder.path(name)), ls::ConfigurationError);
    CHECK_THROWS_AS(model.load_weights(folder.path(name), {.by_name = true}),
                    ls::ConfigurationError);
    CHECK(model.get_weights()[0].values == before[0].values);  // nothing is changed then
    const CapturedStderr output;
    const ls::LoadedWeights report =
        model.load_weights(folder.path(name), {.by_name = true, .skip_mismatch = true});
    CHECK(contains(output.text(),
                   "2 of 4 variables loaded; of another shape there: user_dense_1/kernel"));
    CHECK(report.loaded == Names{"user_dense/kernel", "user_dense/bias"});
    const auto after = model.get_weights(), theirs = old.get_weights();
    for (std::size_t i : {0U, 1U}) CHECK(after[i].values == theirs[i].values);
    for (std::size_t i : {2U, 3U}) CHECK(after[i].values == before[i].values);
  }
}

TEST_SUITE("transfer from PyTorch [needs python]") {
  TEST_CASE("load_weights: a state_dict of PyTorch gives PyTorch's outputs") {
    if (!has_python_modules("weights of PyTorch", "torch, numpy, safetensors.torch")) return;
    using Images = ls::Sequential<ls::Input<6, 5, 2>, ls::Conv2D<4, 3, ls::ReLU>,
                                  ls::BatchNormalization<>, ls::Flatten, ls::Dense<3>>;
    using Words = ls::Sequential<ls::Input<7, 2>, ls::ToSequence,
                                 ls::LSTM<3, ls::LSTMOptions{.return_sequences = true}>, ls::GRU<4>,
                                 ls::Dense<2>>;
    const TemporaryFolder folder;
    const Finished finished = run_python(R"py(
import sys, numpy as np, torch
from safetensors.torch import save_file
torch.manual_seed(3)
class Images(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4, eps=1e-3)
        self.fc = torch.nn.Linear(4 * 4 * 3, 3)
    def forward(self, x):
        return self.fc(self.norm(self.conv(x).relu()).flatten(1))
class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(2, 3, batch_first=True)
        self.gru = torch.nn.GRU(3, 4, batch_first=True)
        self.out = torch.nn.Linear(4, 2)
    def forward(self, x):
        return self.out(self.gru(self.lstm(x)[0])[0][:, -1])
images, words = Images(), Words()
x = torch.randn(5, 2, 6, 5)
images(x)  # moves the averages
images.eval()
w = torch.randn(5, 7, 2)
save_file(images.state_dict(), sys.argv[1] + "/images.safetensors")
save_file(words.state_dict(), sys.argv[1] + "/words.safetensors")
with torch.no_grad():
    np.savez(sys.argv[1] + "/data.npz", x=x.permute(0, 2, 3, 1).reshape(5, -1).numpy().copy(), y=images(x).numpy(),
             w=w.reshape(5, -1).numpy(), v=words(w).numpy())
)py",
                                         {folder.path()});
    REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
    using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const auto data = ls::decode_npz(*ls::read_file(folder.path("data.npz")));
    const auto matrix = [&](const char* name) {
      for (const ls::SavedArray& found : data)
        if (found.name == name)
          return Matrix(Eigen::Map<const Matrix>(reinterpret_cast<const float*>(found.bytes.data()),
                                                 static_cast<Eigen::Index>(found.extents[0]),
                                                 static_cast<Eigen::Index>(found.extents[1])));
      return Matrix();
    };
    ls::OneDeviceStrategy alone;
    auto images = ls::compile<Images>(alone, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
    images.load_weights(folder.path("images.safetensors"),
                        {.rename = {{"conv", "conv2d"},
                                    {"norm", "batch_normalization"},
                                    {"fc", "dense", {4, 4, 3}}},
                         .layout = WeightsLayout::pytorch});
    CHECK((images.predict(matrix("x")) - matrix("y")).cwiseAbs().maxCoeff() < 1e-5F);
    auto words = ls::compile<Words>(alone, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
    words.load_weights(folder.path("words.safetensors"),
                       {.rename = {{"out", "dense"}}, .layout = WeightsLayout::pytorch});
    CHECK((words.predict(matrix("w")) - matrix("v")).cwiseAbs().maxCoeff() < 1e-5F);
  }
}
