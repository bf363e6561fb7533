#include "lockstep/network/shared.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "golden/shared.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/signature.hpp"
#include "support/layer_rig.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Names = std::vector<std::string>;

template <std::size_t Number>
using Third = ls::Slice<4 * Number, 4>;
using Tower = ls::Sequential<ls::Dense<5, ls::Tanh>, ls::Dense<3>>;
template <class Merge, class L = Tower>
using Net = ls::Sequential<ls::Input<12>, ls::Dense<12, ls::Tanh>,
                           ls::Shared<Merge, L, Third<0>, Third<1>, Third<2>>, ls::Dense<2>>;
/// The same with a tower for each input.
template <class Merge, class L>
using Apart = ls::Sequential<ls::Input<12>, ls::Dense<12, ls::Tanh>,
                             ls::Parallel<Merge, ls::Sequential<Third<0>, L>,
                                          ls::Sequential<Third<1>, L>, ls::Sequential<Third<2>, L>>,
                             ls::Dense<2>>;

/// Parts with variables, one of them none; the layer goes backward through their activation.
using Stems = ls::Sequential<ls::Input<4>,
                             ls::Shared<ls::Add, ls::Dense<4, ls::Sigmoid>, ls::Dense<4, ls::Tanh>,
                                        ls::Identity, ls::Sequential<ls::Dense<3>, ls::Dense<4>>>,
                             ls::Dense<2>>;
using Deep = ls::Sequential<ls::Input<6>,
                            ls::Repeat<2, ls::Shared<ls::Concatenate, ls::Dense<3, ls::Tanh>,
                                                     ls::Slice<0, 3>, ls::Slice<3, 3>>>,
                            ls::Dense<2>>;
using Frozen =
    ls::Sequential<ls::Input<8>, ls::Dense<8, ls::Tanh>,
                   ls::Shared<ls::Multiply, ls::Frozen<Tower>, ls::Slice<0, 4>, ls::Slice<4, 4>>,
                   ls::Frozen<ls::Shared<ls::Add, ls::Dense<3>, ls::Identity, ls::Identity>>,
                   ls::Dense<2>>;
using Images = ls::Sequential<
    ls::Input<2, 18>, ls::Flatten,
    ls::Shared<ls::Average, ls::Sequential<ls::Conv2D<3, 2, ls::Tanh>, ls::Flatten, ls::Dense<2>>,
               ls::Sequential<ls::Slice<0, 18>, ls::Reshape<3, 3, 2>>,
               ls::Sequential<ls::Slice<18, 18>, ls::Reshape<3, 3, 2>>>>;
using Sentences =
    ls::Sequential<ls::Input<10>,
                   ls::Shared<ls::Concatenate, ls::Sequential<ls::ToSequence, ls::LSTM<3>>,
                              ls::Slice<0, 5>, ls::Slice<5, 5>>,
                   ls::Dense<2>>;
// In a Sequence, each token has two parts.
using Tokens = ls::Sequential<
    ls::Input<3, 4>, ls::ToSequence,
    ls::Shared<ls::Concatenate, ls::Dense<2, ls::Tanh>, ls::Slice<0, 2>, ls::Slice<2, 2>>,
    ls::Flatten, ls::Dense<2>>;

static_assert(std::is_same_v<Net<ls::Concatenate>::Output<ls::Shape<12>>, ls::Shape<2>>);
static_assert(Net<ls::Concatenate>::parameter_count == 12 * 13 + 4 * 5 + 5 + 5 * 3 + 3 + 9 * 2 + 2);
static_assert(Net<ls::Add>::flop<ls::Shape<12>>.forward ==
              Apart<ls::Add, Tower>::flop<ls::Shape<12>>.forward);
static_assert(ls::signature<Net<ls::Add>> != ls::signature<Net<ls::Multiply>>);
static_assert(ls::signature<Net<ls::Add>> != ls::signature<Apart<ls::Add, Tower>>);

/// Copies the parameters of the shared net to each tower.
template <class Shared, class Separate>
void copy_parameters(const Shared& from, const Separate& to, std::size_t of_tower) {
  const auto source = from.parameter_slices();
  const auto target = to.parameter_slices();
  const auto copy = [](auto a, auto b) { std::copy(a.begin(), a.end(), b.begin()); };
  for (std::size_t i = 0; i < 2; ++i) copy(source[i], target[i]);
  for (std::size_t tower = 0; tower < 3; ++tower)
    for (std::size_t i = 0; i < of_tower; ++i)
      copy(source[2 + i], target[2 + tower * of_tower + i]);
  for (std::size_t i = 0; i < 2; ++i) copy(source[2 + of_tower + i], target[2 + 3 * of_tower + i]);
}

}  // namespace

TEST_CASE("Shared: gradients equal finite differences") {
  for (const std::size_t samples : {1U, 7U, 17U}) {
    check_gradients<Net<ls::Add>>(samples);
    check_gradients<Net<ls::Multiply>>(samples);
    check_gradients<Net<ls::Average>>(samples);
    check_gradients<Net<ls::Concatenate>>(samples);
    check_gradients<Stems>(samples);
    check_gradients<Frozen>(samples);
  }
  check_gradients<Deep>(7);
  check_gradients<Images>(7);
  check_gradients<Sentences>(7);
  check_gradients<Tokens>(7);
}

TEST_CASE("Shared: the outputs are those of equal towers, the gradients their sum") {
  const auto compare = []<class Merge>(Merge) {
    NetRunner<Net<Merge>> shared(3);
    NetRunner<Apart<Merge, Tower>> apart(3);
    copy_parameters(shared, apart, 4);
    CHECK(shared.run(21) == apart.run(21));
    CHECK(shared.outputs() == apart.outputs());
    const auto sum = shared.workspace().gradients().slices();
    const auto parts = apart.workspace().gradients().slices();
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t k = 0; k < sum[2 + i].size(); ++k)
        CHECK(sum[2 + i][k] == (parts[10 + i][k] + parts[6 + i][k]) + parts[2 + i][k]);
    for (const std::size_t i : {0U, 1U})
      CHECK(std::equal(sum[i].begin(), sum[i].end(), parts[i].begin()));
    CHECK(shared.input_gradient() == apart.input_gradient());
  };
  compare(ls::Concatenate{});
  compare(ls::Add{});
  compare(ls::Multiply{});
}

TEST_CASE("Shared: Keras's values and gradients of a layer that is called twice") {
  namespace golden = lockstep_test::golden;
  using L = ls::Sequential<ls::Dense<4, ls::Tanh>, ls::BatchNormalization<>, ls::Dense<2>>;
  using Twice = ls::Shared<ls::Concatenate, L, ls::Slice<0, 3>, ls::Slice<3, 3>>;
  using Golden = golden::shared_tower;
  constexpr std::size_t samples = Golden::samples;
  LayerRig<Twice, ls::Shape<6>, double> rig(samples);
  const auto load = [](const auto& from, auto& to) {
    REQUIRE(std::size(from) == to.size());
    std::copy(std::begin(from), std::end(from), to.begin());
  };
  load(Golden::kernel, rig.weights[0]);
  load(Golden::bias, rig.weights[1]);
  load(Golden::gamma, rig.weights[2]);
  load(Golden::beta, rig.weights[3]);
  load(Golden::kernel_1, rig.weights[4]);
  load(Golden::bias_1, rig.weights[5]);
  for (std::size_t i = 0; i < samples; ++i) {
    for (std::size_t f = 0; f < 6; ++f) rig.x[f * rig.stride + i] = Golden::x[6 * i + f];
    for (std::size_t f = 0; f < 4; ++f) rig.dy[f * rig.out_stride + i] = Golden::dy[4 * i + f];
  }
  rig.forward();
  rig.backward();
  const auto check = [](double value, double expected) {
    CHECK(std::abs(value - expected) < 1e-7 * (1 + std::abs(expected)));
  };
  for (std::size_t i = 0; i < samples; ++i) {
    for (std::size_t f = 0; f < 4; ++f) check(rig.y[f * rig.out_stride + i], Golden::y[4 * i + f]);
    for (std::size_t f = 0; f < 6; ++f) check(rig.dx[f * rig.stride + i], Golden::dx[6 * i + f]);
  }
  const auto compare = [&](const auto& values, const auto& expected) {
    for (std::size_t k = 0; k < std::size(expected); ++k) check(values[k], expected[k]);
  };
  compare(rig.gradients[0], Golden::kernel_gradient);
  compare(rig.gradients[1], Golden::bias_gradient);
  compare(rig.gradients[2], Golden::gamma_gradient);
  compare(rig.gradients[3], Golden::beta_gradient);
  compare(rig.gradients[4], Golden::kernel_1_gradient);
  compare(rig.gradients[5], Golden::bias_1_gradient);
  // Moved by the first input, then by the second.
  compare(rig.state[0], Golden::moving_mean);
  compare(rig.state[1], Golden::moving_variance);
}

TEST_CASE("Shared: a name for each layer, once") {
  CHECK(Net<ls::Add>::variable_names<ls::Shape<12>>() ==
        Names{"dense/kernel", "dense/bias", "shared/sequential/dense/kernel",
              "shared/sequential/dense/bias", "shared/sequential/dense_1/kernel",
              "shared/sequential/dense_1/bias", "dense_1/kernel", "dense_1/bias"});
  CHECK(Stems::variable_names<ls::Shape<4>>() ==
        Names{"shared/dense/kernel", "shared/dense/bias", "shared/dense_1/kernel",
              "shared/dense_1/bias", "shared/sequential/dense/kernel",
              "shared/sequential/dense/bias", "shared/sequential/dense_1/kernel",
              "shared/sequential/dense_1/bias", "dense/kernel", "dense/bias"});
  CHECK(Net<ls::Add>::layer_names<ls::Shape<12>>().size() == Net<ls::Add>::layer_count);
}

TEST_CASE("Shared: each use has random numbers of its own, the first those of the layer alone") {
  using Twice =
      ls::Sequential<ls::Input<64>,
                     ls::Shared<ls::Concatenate, ls::Dropout<0.5>, ls::Identity, ls::Identity>>;
  NetRunner<Twice> net;
  net.run(1);
  const std::vector<double> y = net.outputs();
  std::size_t equal = 0;
  for (std::size_t f = 0; f < 64; ++f) equal += y[f] == y[64 + f];
  CHECK(equal > 15);  // about half: independent masks
  CHECK(equal < 49);
}

TEST_CASE("Shared: the outputs of each use are shown, at the layer's position") {
  NetRunner<Net<ls::Add>> net;
  net.run(3);
  std::vector<std::size_t> positions;
  net.workspace().each_output([&](std::size_t position, const ls::TensorView<const double>& y) {
    positions.push_back(position);
    CHECK(y.samples() == 3);
  });
  // Behind Input and Dense the tower's layers stand at 2 and 3, the slices at 4 to 6.
  CHECK(positions == std::vector<std::size_t>{1, 4, 2, 3, 5, 2, 3, 6, 2, 3, 7});
}
