#include "lockstep/step/workspace.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Counts the batches that it has seen in training.
struct Moving : UserReLU {
  template <class In>
  static constexpr std::array state_variables{ls::Variable{"moving", {2}, nullptr}};
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    UserReLU::forward<In, T>(pass);
    if (pass.context.training) pass.state[0][0] += 1;
  }
};

using Workspace = ls::detail::Workspace<float>;
using ls::detail::StatusBlock;

template <class Net>
using Program =
    ls::detail::Compiled<Net, float, ls::SparseCategoricalCrossentropy, ls::SGD, ls::Accuracy>;

const Program<TinyNet> tiny({}, {}, {});
/// Its state has gaps between the slices.
const Program<ls::Sequential<ls::Input<4>, UserDense<3>, Moving, Moving>> moving({}, {}, {});

constexpr auto allocate = [](std::size_t bytes) { return ls::Buffer(bytes); };

template <class T>
void check_view(const ls::TensorView<T>& view, std::size_t samples, std::size_t features,
                std::size_t stride) {
  CHECK(view.samples() == samples);
  CHECK(view.features() == features);
  CHECK(view.stride() == stride);
  CHECK(reinterpret_cast<std::uintptr_t>(view.data()) % 64 == 0);
}

}  // namespace

TEST_CASE("Workspace: views have the sizes of model and batch, do not overlap, and are aligned") {
  Workspace workspace(tiny, allocate);
  for (const std::size_t samples : {5u, 16u, 17u, 3u}) {
    CAPTURE(samples);
    const std::size_t stride = ls::padded_batch(samples);
    workspace.resize(samples);
    check_view(workspace.x(), samples, 4, stride);
    check_view(workspace.targets(), samples, 1, stride);
    check_view(workspace.predictions(), samples, 3, stride);
    check_view(workspace.prediction_gradient(), samples, 3, stride);
    CHECK(workspace.x().data() + 4 * stride <= workspace.targets().data());
    CHECK(workspace.targets().data() + stride <= workspace.predictions().data());
    CHECK(workspace.predictions().data() + 3 * stride <= workspace.prediction_gradient().data());
  }
}

TEST_CASE("Workspace: a batch that is no larger than one before takes no new memory") {
  Workspace workspace(tiny, allocate);
  workspace.resize(40);
  const float* const data = workspace.x().data();
  for (const std::size_t samples : {1u, 40u, 0u, 33u, 48u}) {
    workspace.resize(samples);
    CHECK(workspace.x().data() == data);
  }
  CHECK(workspace.x().samples() == 48);  // the same padded batch
}

TEST_CASE("Workspace: the first batch may be empty") {
  Workspace workspace(tiny, allocate);
  workspace.resize(0);
  CHECK(workspace.x().samples() == 0);
  const ls::StepContext context{.training = true};
  const std::array<std::vector<float>, 4> values{std::vector<float>(24), std::vector<float>(6),
                                                 std::vector<float>(18), std::vector<float>(3)};
  std::vector<std::span<float>> weights;
  for (const auto& value : values)
    weights.emplace_back(const_cast<float*>(value.data()), value.size());
  for (const auto slice : workspace.gradients().slices())
    for (float& value : slice) value = 9;
  workspace.forward(context, weights);
  workspace.backward(context, weights);
  for (const auto slice : workspace.gradients().slices())
    for (const float value : slice) CHECK(value == 0);
}

TEST_CASE("Workspace: the gradients' memory comes from the function that is given, once") {
  std::vector<std::size_t> asked;
  Workspace workspace(tiny, [&](std::size_t bytes) {
    asked.push_back(bytes);
    return ls::Buffer(bytes);
  });
  workspace.resize(100);
  CHECK(asked == std::vector<std::size_t>{workspace.gradients().values().size_bytes()});
  CHECK(workspace.gradients().slices().size() == 4);
  CHECK(workspace.state().values().empty());
}

TEST_CASE(
    "Workspace: a step that is undone leaves the untrained state as it was, one that has ended "
    "does not") {
  Workspace workspace(moving, allocate);
  const ls::Arena<float> weights(moving.layout().variables);
  workspace.resize(3);
  const auto step = [&] {
    workspace.begin_step();
    workspace.forward({.training = true}, weights.slices());
  };
  workspace.state().slices()[1][1] = 0.1F;
  step();
  CHECK(workspace.state().slices()[0][0] == 1);
  workspace.undo_step();
  CHECK(workspace.state().slices()[0][0] == 0);
  CHECK(workspace.state().slices()[1][1] == 0.1F);
  step();
  workspace.end_step();
  workspace.undo_step();  // of a peer's loss between two steps
  CHECK(workspace.state().slices()[0][0] == 1);
  CHECK(workspace.state().slices()[1][0] == 1);
}

TEST_CASE(
    "Workspace: status and untrained state are reduced together, the state weighted with samples") {
  Workspace workspace(moving, allocate);
  const auto slices = workspace.state().slices();
  slices[0][0] = 1;
  slices[1][1] = 0.1F;
  StatusBlock& status = workspace.status();
  const std::size_t size = status.values().size();
  status[StatusBlock::samples] = 3;
  status.metrics()[0] = 2;
  const std::span<double> packed = workspace.pack_status();
  REQUIRE(packed.size() == size + 4);  // without the gaps
  CHECK(packed[StatusBlock::samples] == 3);
  CHECK(packed[size] == 3);
  CHECK(packed[size + 3] == 3.0 * 0.1F);

  packed[StatusBlock::samples] = 4;  // with another rank, of one sample and a state of 5
  packed[size] += 5;
  packed[size + 3] += 0.1F;
  workspace.take_status(2);
  CHECK(status[StatusBlock::samples] == 4);
  CHECK(status.metrics()[0] == 2);
  CHECK(slices[0][0] == 2);
  CHECK(slices[1][1] == 0.1F);
}

TEST_CASE(
    "Workspace: a rank without samples does not count, nor does its state; alone the bits stay") {
  Workspace workspace(moving, allocate);
  workspace.state().slices()[0][0] = std::numeric_limits<float>::infinity();
  const std::size_t size = workspace.status().values().size();
  CHECK(workspace.pack_status()[size] == 0);
  workspace.take_status(2);
  CHECK(workspace.state().slices()[0][0] ==
        std::numeric_limits<float>::infinity());  // no rank had samples
  workspace.status()[StatusBlock::samples] = 3;
  workspace.state().slices()[0][0] = 0.1F;
  workspace.pack_status()[size] = 77;
  workspace.take_status(1);
  CHECK(workspace.state().slices()[0][0] == 0.1F);
}

namespace {

constexpr ls::Variable plain{"kernel", {5, 7}, nullptr};
constexpr std::array variables{plain.with(ls::L2{0.5}), plain, plain.with(ls::L1{0.25})};

void fill(const ls::Arena<double>& arena, double step) {
  double value = -10;
  for (const auto slice : arena.slices())
    for (double& element : slice) element = value += step;
}

}  // namespace

TEST_CASE("Regularization: the penalties of all variables") {
  const ls::Arena<double> parameters(variables);
  fill(parameters, 0.25);
  double expected = 0;
  for (const double w : parameters.slices()[0]) expected += 0.5 * w * w;
  for (const double w : parameters.slices()[2]) expected += 0.25 * std::abs(w);
  CHECK(ls::detail::Regularization<double>(variables).penalty(parameters) ==
        doctest::Approx(expected));
}

TEST_CASE("Regularization: gradients times rows, once, however backward's progress is told") {
  const ls::Arena<double> parameters(variables);
  fill(parameters, 0.25);
  const auto run = [&](const std::vector<std::size_t>& ends, double rows) {
    const ls::Arena<double> gradients(variables);
    fill(gradients, 0.125);
    ls::detail::Regularization<double> regularization(variables);
    for (int step = 0; step < 2; ++step) {
      regularization.begin_step(rows);
      for (const std::size_t end : ends) regularization.add_gradients(parameters, gradients, end);
      regularization.add_gradients(parameters, gradients, gradients.values().size());
    }
    return std::vector<double>(gradients.values().begin(), gradients.values().end());
  };
  const std::vector<double> whole = run({}, 3);
  const ls::Arena<double> expected(variables);
  fill(expected, 0.125);
  for (std::size_t i = 0; i < 35; ++i) {
    const double w = parameters.slices()[0][i], v = parameters.slices()[2][i];
    expected.slices()[0][i] += 2 * 3 * w;
    expected.slices()[2][i] += 2 * 3 * 0.25 * (v > 0 ? 1 : v < 0 ? -1 : 0);
  }
  CHECK(std::equal(whole.begin(), whole.end(), expected.values().begin()));
  CHECK(whole == run({1, 40, 40, 77, 110}, 3));
  CHECK(whole == run({113}, 3));
  fill(expected, 0.125);
  const std::vector<double> without = run({}, 0);
  CHECK(std::equal(without.begin(), without.end(), expected.values().begin()));
}
