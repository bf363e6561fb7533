// Layers against PyTorch.
#include "golden/layers.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/layers/activation.hpp"
#include "lockstep/layers/average_pooling2d.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/global_average_pooling2d.hpp"
#include "lockstep/layers/global_max_pooling2d.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/max_pooling2d.hpp"
#include "support/instruction_sets.hpp"
#include "support/layer_rig.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::Array;
using lockstep_test::LayerRig;

namespace {

using Golden = std::span<const double>;

struct GoldenVariable {
  Golden value;
  Golden gradient;
};

struct GoldenCase {
  Golden x, y, dy, dx;
  std::vector<GoldenVariable> variables;
  std::vector<Golden> state = {};  ///< after forward
};

template <class T>
double worst_error(Golden expected, auto got) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(got(i)) - expected[i]) / (1 + std::abs(expected[i])));
  return worst;
}

template <class L, class In, class T>
void check(const GoldenCase& c, double tolerance) {
  using Rig = LayerRig<L, In, T>;
  using Out = typename Rig::Out;
  Rig rig(c.x.size() / In::size);
  REQUIRE(c.y.size() == Out::size * rig.samples);
  // Sample by sample in the golden values, feature by feature here.
  const auto at = [&](const Array<T>& array, std::size_t features) {
    return [&, features](std::size_t i) -> T& { return array[i % features * rig.stride + i / features]; };
  };
  for (std::size_t i = 0; i < c.x.size(); ++i) at(rig.x, In::size)(i) = static_cast<T>(c.x[i]);
  for (std::size_t i = 0; i < c.dy.size(); ++i) at(rig.dy, Out::size)(i) = static_cast<T>(c.dy[i]);
  REQUIRE(rig.weights.size() == c.variables.size());
  for (std::size_t v = 0; v < rig.weights.size(); ++v) {
    REQUIRE(rig.weights[v].size() == c.variables[v].value.size());
    for (std::size_t i = 0; i < rig.weights[v].size(); ++i) rig.weights[v][i] = static_cast<T>(c.variables[v].value[i]);
  }
  rig.forward();
  CHECK(worst_error<T>(c.y, at(rig.y, Out::size)) < tolerance);
  REQUIRE(rig.state.size() == c.state.size());
  for (std::size_t v = 0; v < c.state.size(); ++v) {
    REQUIRE(rig.state[v].size() == c.state[v].size());
    CHECK(worst_error<T>(c.state[v], [&](std::size_t i) { return rig.state[v][i]; }) < tolerance);
  }
  rig.backward();
  CHECK(worst_error<T>(c.dx, at(rig.dx, In::size)) < tolerance);
  for (std::size_t v = 0; v < rig.weights.size(); ++v)
    CHECK(worst_error<T>(c.variables[v].gradient, [&](std::size_t i) { return rig.gradients[v][i]; }) < tolerance);
}

template <class L, class In>
void check(const GoldenCase& c) {
  lockstep_test::for_each_instruction_set([&] {
    check<L, In, float>(c, 3e-6);
    check<L, In, double>(c, 2e-8);  // the golden values have 9 digits
  });
}

}  // namespace

TEST_CASE("Dense: PyTorch's values and gradients") {
  namespace relu = golden::dense_relu;
  check<ls::Dense<5, ls::ReLU>, ls::Shape<7>>(
      {relu::x,
       relu::y,
       relu::dy,
       relu::dx,
       {{relu::kernel, relu::kernel_gradient}, {relu::bias, relu::bias_gradient}}});
  namespace tanh = golden::dense_tanh;
  check<ls::Dense<3, ls::Tanh>, ls::Shape<4>>(
      {tanh::x,
       tanh::y,
       tanh::dy,
       tanh::dx,
       {{tanh::kernel, tanh::kernel_gradient}, {tanh::bias, tanh::bias_gradient}}});
}

TEST_CASE("Conv2D: PyTorch's values and gradients") {
  using ls::Conv2DOptions, ls::Extent2D, ls::Padding;
  namespace valid = golden::conv_valid;
  check<ls::Conv2D<3, 3, ls::ReLU>, ls::Shape<5, 4, 1>>(
      {valid::x,
       valid::y,
       valid::dy,
       valid::dx,
       {{valid::kernel, valid::kernel_gradient}, {valid::bias, valid::bias_gradient}}});
  namespace same = golden::conv_same_stride;
  check<ls::Conv2D<3, Extent2D{2, 3}, ls::Linear, Conv2DOptions{.stride = {2, 1}, .padding = Padding::same}>,
        ls::Shape<5, 4, 2>>({same::x,
                             same::y,
                             same::dy,
                             same::dx,
                             {{same::kernel, same::kernel_gradient}, {same::bias, same::bias_gradient}}});
  namespace many = golden::conv_many_weights;
  check<ls::Conv2D<10, 3, ls::Sigmoid, Conv2DOptions{.stride = 2, .padding = Padding::same}>, ls::Shape<3, 4, 23>>(
      {many::x,
       many::y,
       many::dy,
       many::dx,
       {{many::kernel, many::kernel_gradient}, {many::bias, many::bias_gradient}}});
}

TEST_CASE("Softmax: PyTorch's values and gradients") {
  namespace softmax = golden::softmax;
  check<ls::Softmax, ls::Shape<2, 4>>({softmax::x, softmax::y, softmax::dy, softmax::dx, {}});
}

TEST_CASE("pooling: PyTorch's values and gradients") {
  using ls::Extent2D, ls::Padding, ls::PoolingOptions;
  constexpr PoolingOptions overlapping{.stride = {2, 1}, .padding = Padding::same};
  namespace max = golden::max_pooling;
  check<ls::MaxPooling2D<>, ls::Shape<5, 4, 3>>({max::x, max::y, max::dy, max::dx, {}});
  namespace max_same = golden::max_pooling_same;
  check<ls::MaxPooling2D<Extent2D{3, 2}, overlapping>, ls::Shape<4, 3, 2>>(
      {max_same::x, max_same::y, max_same::dy, max_same::dx, {}});
  namespace average = golden::average_pooling;
  check<ls::AveragePooling2D<Extent2D{2, 3}>, ls::Shape<5, 6, 3>>(
      {average::x, average::y, average::dy, average::dx, {}});
  namespace average_same = golden::average_pooling_same;
  check<ls::AveragePooling2D<Extent2D{3, 2}, overlapping>, ls::Shape<4, 3, 2>>(
      {average_same::x, average_same::y, average_same::dy, average_same::dx, {}});
  namespace global_max = golden::global_max_pooling;
  check<ls::GlobalMaxPooling2D, ls::Shape<3, 4, 5>>({global_max::x, global_max::y, global_max::dy, global_max::dx, {}});
  namespace global_average = golden::global_average_pooling;
  check<ls::GlobalAveragePooling2D, ls::Shape<3, 4, 5>>(
      {global_average::x, global_average::y, global_average::dy, global_average::dx, {}});
}

TEST_CASE("BatchNormalization: PyTorch's values and gradients, Keras's moving statistics") {
  using BatchNormalization = ls::BatchNormalization<ls::Linear, ls::BatchNormalizationOptions{.momentum = 0.9}>;
  namespace image = golden::batch_normalization_image;
  check<BatchNormalization, ls::Shape<3, 2, 4>>(
      {image::x,
       image::y,
       image::dy,
       image::dx,
       {{image::gamma, image::gamma_gradient}, {image::beta, image::beta_gradient}},
       {image::moving_mean, image::moving_variance}});
  namespace flat = golden::batch_normalization_flat;
  check<BatchNormalization, ls::Shape<3>>({flat::x,
                                           flat::y,
                                           flat::dy,
                                           flat::dx,
                                           {{flat::gamma, flat::gamma_gradient}, {flat::beta, flat::beta_gradient}},
                                           {flat::moving_mean, flat::moving_variance}});
}

TEST_CASE("LayerNormalization: PyTorch's values and gradients") {
  namespace layer = golden::layer_normalization;
  check<ls::LayerNormalization<>, ls::Shape<3, 4>>(
      {layer::x,
       layer::y,
       layer::dy,
       layer::dx,
       {{layer::gamma, layer::gamma_gradient}, {layer::beta, layer::beta_gradient}}});
}
