#include "lockstep/network/parallel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "golden/merges.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/masking.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/repeat.hpp"
#include "support/layer_rig.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using namespace lockstep_test;

namespace {

using Names = std::vector<std::string>;

template <class Merge>
using Merged = ls::Sequential<
    ls::Input<4>, ls::Dense<3, ls::Tanh>,
    ls::Parallel<Merge, ls::Dense<3>, ls::Identity, ls::Sequential<ls::Dense<5>, ls::Dense<3>>>,
    ls::Dense<2>>;
using Tokens =
    ls::Sequential<ls::Input<5, 3>, ls::ToSequence,
                   ls::Parallel<ls::Concatenate, ls::Dense<2>, ls::Identity>,
                   ls::Residual<ls::Dense<4, ls::Tanh>, ls::Dense<5>>, ls::Flatten, ls::Dense<2>>;
using Block = ls::Residual<ls::Dense<6, ls::Tanh>, ls::Dense<4>>;
using Deep =
    ls::Sequential<ls::Input<4>, ls::Repeat<3, Block>,
                   ls::Residual<ls::Sequential<ls::Dense<3>>, ls::Sequential<ls::Dense<3>>>>;
using Cosine = ls::Dot<ls::DotOptions{.normalize = true}>;
template <class Merge>
using Pair = ls::Sequential<ls::Input<4>, ls::Dense<3, ls::Tanh>,
                            ls::Parallel<Merge, ls::Dense<3>, ls::Identity>, ls::Dense<2>>;
template <class Branches>
using Between = ls::Sequential<ls::Input<5>, ls::Dense<16, ls::Tanh>, Branches, ls::Dense<1>>;
// Images: blocks of channels, pixel by pixel.
using Images = ls::Sequential<ls::Input<2, 2, 3>,
                              ls::Parallel<ls::Concatenate, ls::Activation<ls::Tanh>, ls::Identity>,
                              ls::Flatten, ls::Dense<2>>;
static_assert(std::is_same_v<Merged<ls::Concatenate>::Output<ls::Shape<4>>, ls::Shape<2>>);
static_assert(std::is_same_v<
              ls::Parallel<ls::Concatenate, ls::Dense<2>, ls::Identity>::Output<ls::Sequence<5, 3>>,
              ls::Sequence<5, 5>>);
static_assert(std::is_same_v<
              ls::Parallel<ls::Concatenate, ls::Identity, ls::Identity>::Output<ls::Shape<2, 2, 3>>,
              ls::Shape<2, 2, 6>>);

// Blocks as ResNet has them. The layers of the second kind inherit from the first, and so promise
// nothing: they neither write sums nor add to gradients, and no layer does the work of another.
template <std::size_t Filters, std::size_t Kernel, std::size_t Stride>
using Convolution = ls::Conv2D<Filters, Kernel, ls::Linear,
                               ls::Conv2DOptions{.stride = Stride, .padding = ls::Padding::same}>;
struct Fused {
  template <std::size_t Filters, std::size_t Kernel, std::size_t Stride>
  using Convolve = Convolution<Filters, Kernel, Stride>;
  using Normalize = ls::BatchNormalization<>;
  using Activate = ls::Activation<ls::ReLU>;
};
template <std::size_t Filters, std::size_t Kernel, std::size_t Stride>
struct PlainConvolution : Convolution<Filters, Kernel, Stride> {};
struct PlainNormalization : ls::BatchNormalization<> {};
struct PlainActivation : ls::Parallel<ls::Concatenate, ls::Activation<ls::ReLU>> {};
struct Plain {
  template <std::size_t Filters, std::size_t Kernel, std::size_t Stride>
  using Convolve = PlainConvolution<Filters, Kernel, Stride>;
  using Normalize = PlainNormalization;
  using Activate = PlainActivation;
};
template <class L, std::size_t Channels>
using ResidualNet = ls::Sequential<
    ls::Input<4, 5, Channels>, typename L::template Convolve<Channels, 3, 1>,
    ls::Sequential<
        ls::Residual<typename L::template Convolve<Channels, 3, 1>, typename L::Normalize,
                     typename L::Activate, typename L::template Convolve<Channels, 3, 1>,
                     typename L::Normalize>,
        typename L::Activate>,
    ls::Residual<typename L::template Convolve<Channels, 3, 1>, typename L::Activate>,
    ls::Residual<ls::Sequential<typename L::template Convolve<5, 3, 2>, typename L::Normalize,
                                typename L::Activate, typename L::template Convolve<5, 3, 1>,
                                typename L::Normalize>,
                 ls::Sequential<typename L::template Convolve<5, 1, 2>, typename L::Normalize>>,
    typename L::Activate, ls::Residual<typename L::template Convolve<5, 1, 1>>,
    typename L::Activate, ls::Flatten, ls::Dense<2>>;

}  // namespace

TEST_CASE("Parallel: gradients equal finite differences, wherever what computes stands") {
  using F = ls::Sequential<ls::Dense<32, ls::Tanh>, ls::Dense<16>>;
  check_gradients<Between<ls::Parallel<ls::Add, ls::Identity, F>>>(7);
  check_gradients<Between<ls::Parallel<ls::Add, F, ls::Identity>>>(7);
  check_gradients<Between<ls::Parallel<ls::Add, F, ls::Identity, ls::Identity>>>(7);
  // An input that is wider than all that its branch has.
  check_gradients<Between<ls::Parallel<ls::Concatenate, ls::Dense<1>, ls::Identity>>>(7);
}

TEST_CASE("Parallel: gradients equal finite differences, for each merge") {
  for (const std::size_t samples : {1U, 7U, 17U}) {
    check_gradients<Merged<ls::Add>>(samples);
    check_gradients<Merged<ls::Multiply>>(samples);
    check_gradients<Merged<ls::Average>>(samples);
    check_gradients<Merged<ls::Maximum>>(samples);
    check_gradients<Merged<ls::Minimum>>(samples);
    check_gradients<Pair<ls::Subtract>>(samples);
    check_gradients<Pair<ls::Dot<>>>(samples);
    check_gradients<Pair<Cosine>>(samples);
    check_gradients<Merged<ls::Concatenate>>(samples);
    check_gradients<Tokens>(samples);
    check_gradients<Images>(samples);
  }
}

TEST_CASE_TEMPLATE("Parallel: what is not a number stays so, whichever branch it is in", Merge,
                   ls::Maximum, ls::Minimum) {
  for (const std::size_t broken : {0U, 1U}) {
    LayerRig<ls::Parallel<Merge, ls::Slice<0, 1>, ls::Slice<1, 1>>, ls::Shape<2>, float> rig(1);
    rig.x[0] = rig.x[rig.stride] = 1;
    rig.x[broken * rig.stride] = std::numeric_limits<float>::quiet_NaN();
    rig.forward();
    CHECK(std::isnan(rig.y[0]));
  }
}

TEST_CASE("Parallel: Keras's values and gradients of Subtract, Maximum, Minimum and Dot") {
  const auto check = []<class Golden, class Merge>(Golden, Merge) {
    using L = ls::Parallel<Merge, ls::Slice<0, 3>, ls::Slice<3, 3>>;
    constexpr std::size_t samples = 4, outputs = L::template Output<ls::Shape<6>>::size;
    LayerRig<L, ls::Shape<6>, double> rig(samples);
    for (std::size_t s = 0; s < samples; ++s) {
      for (std::size_t f = 0; f < 6; ++f) rig.x[f * rig.stride + s] = Golden::x[s * 6 + f];
      for (std::size_t f = 0; f < outputs; ++f)
        rig.dy[f * rig.out_stride + s] = Golden::dy[s * outputs + f];
    }
    rig.forward();
    rig.backward();
    const auto compare = [](double a, double b) {
      CHECK(std::abs(a - b) <= 1e-12 * (1 + std::abs(b)));
    };
    for (std::size_t s = 0; s < samples; ++s) {
      for (std::size_t f = 0; f < outputs; ++f)
        compare(rig.y[f * rig.out_stride + s], Golden::y[s * outputs + f]);
      for (std::size_t f = 0; f < 6; ++f)
        compare(rig.dx[f * rig.stride + s], Golden::dx[s * 6 + f]);
    }
  };
  check(golden::merge_subtract{}, ls::Subtract{});
  check(golden::merge_maximum{}, ls::Maximum{});
  check(golden::merge_minimum{}, ls::Minimum{});
  check(golden::merge_dot{}, ls::Dot<>{});
  check(golden::merge_cosine{}, Cosine{});
}

TEST_CASE("Residual and Repeat: gradients equal finite differences") { check_gradients<Deep>(7); }

TEST_CASE("Residual: adds its input") {
  using Net = ls::Sequential<ls::Input<3>, ls::Residual<ls::Dense<3>>>;
  using Inner = ls::Sequential<ls::Input<3>, ls::Dense<3>>;
  NetRunner<Net> residual(5);
  NetRunner<Inner> inner(5);
  residual.run(4);
  inner.run(4);
  const auto& x = residual.workspace().x();
  std::size_t next = 0;
  for (std::size_t f = 0; f < 3; ++f)
    for (std::size_t i = 0; i < 4; ++i, ++next)
      CHECK(residual.outputs()[next] ==
            doctest::Approx(inner.outputs()[next] + x(i, f)).epsilon(1e-15));
}

TEST_CASE("Parallel: each variable and each layer has a name of its own") {
  using Net = Deep;
  CHECK(Net::variable_names<ls::Shape<4>>().front() == "repeat/residual/dense/kernel");
  CHECK(Net::variable_names<ls::Shape<4>>()[7] == "repeat/residual_1/dense_1/bias");
  CHECK(Net::variable_names<ls::Shape<4>>().back() == "residual/sequential_1/dense/bias");
  CHECK(Net::layer_names<ls::Shape<4>>().size() == Net::layer_count);
  CHECK(Merged<ls::Add>::layer_names<ls::Shape<4>>() ==
        Names{"input", "dense", "parallel/dense", "parallel/identity", "parallel/sequential/dense",
              "parallel/sequential/dense_1", "dense_1"});
}

TEST_CASE("Parallel: every layer inside has random numbers of its own") {
  using Net = ls::Sequential<ls::Input<64>,
                             ls::Parallel<ls::Concatenate, ls::Dropout<0.5>, ls::Dropout<0.5>>,
                             ls::Repeat<2, ls::Residual<ls::Dropout<0.5>>>>;
  NetRunner<Net> net;
  net.run(1);
  std::size_t equal = 0;
  const std::vector<double> y = net.outputs();
  for (std::size_t f = 0; f < 64; ++f) equal += y[f] == y[64 + f];
  CHECK(equal < 40);  // of 64; as many differ as do not when the masks are independent
}

TEST_CASE("Parallel: the outputs of the layers inside are shown, each at its position") {
  NetRunner<Merged<ls::Add>> net;
  net.run(3);
  std::vector<std::size_t> positions;
  net.workspace().each_output([&](std::size_t position, const ls::TensorView<const double>& y) {
    positions.push_back(position);
    CHECK(y.samples() == 3);
  });
  CHECK(positions == std::vector<std::size_t>{1, 2, 4, 5, 6});
}

TEST_CASE("Parallel: without a wanted input gradient, branches that train nothing are left alone") {
  using Net = ls::Sequential<ls::Input<4>,
                             ls::Parallel<ls::Concatenate, ls::Frozen<ls::Dense<2>>, ls::Dense<2>>>;
  check_gradients<Net>(5);
}

namespace {

/// The mask of L's output for five tokens of two numbers, some of them 0; empty: none.
template <class L>
std::vector<double> mask_after(const double* mask = nullptr) {
  LayerRig<L, ls::Sequence<5, 2>, double> rig(1);
  const double x[2][5] = {{0, 1, 0, 1, 0}, {0, 0, 1, 1, 0}};
  for (std::size_t f = 0; f < 2; ++f) std::copy_n(x[f], 5, rig.x.data() + f * rig.stride);
  rig.mask = mask;
  rig.forward();
  if (rig.mask_of_y == nullptr) return {};
  return {rig.mask_of_y, rig.mask_of_y + 5};
}

using FirstCounts = ls::Sequential<ls::Slice<0, 1>, ls::Masking<>>;
using SecondCounts = ls::Sequential<ls::Slice<1, 1>, ls::Masking<>>;

}  // namespace

// Keras: BaseMerge.compute_mask and Concatenate.compute_mask.
TEST_CASE("Parallel: a token counts where it does in one branch, as in Keras") {
  const std::vector<double> one_of_both = {0, 1, 1, 1, 0};
  CHECK(mask_after<ls::Parallel<ls::Add, FirstCounts, SecondCounts>>() == one_of_both);
  CHECK(mask_after<ls::Parallel<ls::Multiply, SecondCounts, FirstCounts, FirstCounts>>() ==
        one_of_both);
  CHECK(mask_after<ls::Parallel<ls::Concatenate, FirstCounts, SecondCounts>>() == one_of_both);
  CHECK(mask_after<ls::Residual<FirstCounts, SecondCounts>>() == one_of_both);
}

TEST_CASE("Parallel: with a branch that has no mask all tokens count, as in Keras") {
  CHECK(mask_after<ls::Parallel<ls::Add, FirstCounts, ls::Slice<1, 1>>>().empty());
  CHECK(mask_after<ls::Parallel<ls::Concatenate, ls::Identity, SecondCounts>>().empty());
  const double mask[5] = {1, 0, 1, 1, 0};
  CHECK(mask_after<ls::Residual<ls::Dense<2>>>(mask) == std::vector<double>(mask, mask + 5));
  CHECK(
      mask_after<ls::Residual<ls::Flatten, ls::Dense<10>, ls::Reshape<5, 2>, ls::ToSequence>>(mask)
          .empty());
}

TEST_CASE_TEMPLATE("Residual: what is done in one pass equals what is done layer by layer",
                   Channels, ls::Shape<3>, ls::Shape<17>) {
  // (17 channels: by Winograd's algorithm.)
  for (const std::size_t samples : {1U, 9U, 17U}) {
    NetRunner<ResidualNet<Fused, Channels::size>> fused(5);
    NetRunner<ResidualNet<Plain, Channels::size>> plain(5);
    CHECK(fused.run(samples) == doctest::Approx(plain.run(samples)).epsilon(1e-12));
    const auto compare = [](const std::vector<double>& got, const std::vector<double>& expected) {
      REQUIRE(got.size() == expected.size());
      double worst = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        worst = std::max(worst, std::abs(got[i] - expected[i]) / (1 + std::abs(expected[i])));
      CHECK(worst < 1e-11);
      return worst;
    };
    compare(fused.outputs(), plain.outputs());
    compare(fused.gradients(), plain.gradients());
    compare(fused.input_gradient(), plain.input_gradient());
  }
}

TEST_CASE("Residual: gradients through a sum and its activation equal finite differences") {
  check_gradients<ResidualNet<Fused, 3>>(5);
}

TEST_CASE("Residual: a sum that the last layer writes has no array of its own") {
  using In = ls::Shape<4, 5, 3>;
  CHECK(ResidualNet<Fused, 3>::scratch<In>(16) < ResidualNet<Plain, 3>::scratch<In>(16));
}
