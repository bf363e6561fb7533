// Layers against PyTorch.
#include "golden/layers.hpp"

#include <doctest/doctest.h>

#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/pooling.hpp"
#include "support/golden_layer.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::check_golden;

TEST_CASE("Dense: PyTorch's values and gradients") {
  namespace relu = golden::dense_relu;
  check_golden<ls::Dense<5, ls::ReLU>, ls::Shape<7>>(
      {relu::x,
       relu::y,
       relu::dy,
       relu::dx,
       {{relu::kernel, relu::kernel_gradient}, {relu::bias, relu::bias_gradient}}});
  namespace tanh = golden::dense_tanh;
  check_golden<ls::Dense<3, ls::Tanh>, ls::Shape<4>>(
      {tanh::x,
       tanh::y,
       tanh::dy,
       tanh::dx,
       {{tanh::kernel, tanh::kernel_gradient}, {tanh::bias, tanh::bias_gradient}}});
}

TEST_CASE("Conv2D: PyTorch's values and gradients") {
  using ls::Conv2DOptions, ls::Extent2D, ls::Padding;
  namespace valid = golden::conv_valid;
  check_golden<ls::Conv2D<3, 3, ls::ReLU>, ls::Shape<5, 4, 1>>(
      {valid::x,
       valid::y,
       valid::dy,
       valid::dx,
       {{valid::kernel, valid::kernel_gradient}, {valid::bias, valid::bias_gradient}}});
  namespace same = golden::conv_same_stride;
  check_golden<ls::Conv2D<3, Extent2D{2, 3}, ls::Linear,
                          Conv2DOptions{.stride = {2, 1}, .padding = Padding::same}>,
               ls::Shape<5, 4, 2>>(
      {same::x,
       same::y,
       same::dy,
       same::dx,
       {{same::kernel, same::kernel_gradient}, {same::bias, same::bias_gradient}}});
  namespace many = golden::conv_many_weights;
  check_golden<ls::Conv2D<10, 3, ls::Sigmoid, Conv2DOptions{.stride = 2, .padding = Padding::same}>,
               ls::Shape<3, 4, 23>>(
      {many::x,
       many::y,
       many::dy,
       many::dx,
       {{many::kernel, many::kernel_gradient}, {many::bias, many::bias_gradient}}});
}

TEST_CASE("Softmax: PyTorch's values and gradients") {
  namespace softmax = golden::softmax;
  check_golden<ls::Softmax, ls::Shape<2, 4>>(
      {softmax::x, softmax::y, softmax::dy, softmax::dx, {}});
}

TEST_CASE("pooling: PyTorch's values and gradients") {
  using ls::Extent2D, ls::Padding, ls::PoolingOptions;
  constexpr PoolingOptions overlapping{.stride = {2, 1}, .padding = Padding::same};
  namespace max = golden::max_pooling;
  check_golden<ls::MaxPooling2D<>, ls::Shape<5, 4, 3>>({max::x, max::y, max::dy, max::dx, {}});
  namespace max_same = golden::max_pooling_same;
  check_golden<ls::MaxPooling2D<Extent2D{3, 2}, overlapping>, ls::Shape<4, 3, 2>>(
      {max_same::x, max_same::y, max_same::dy, max_same::dx, {}});
  namespace average = golden::average_pooling;
  check_golden<ls::AveragePooling2D<Extent2D{2, 3}>, ls::Shape<5, 6, 3>>(
      {average::x, average::y, average::dy, average::dx, {}});
  namespace average_same = golden::average_pooling_same;
  check_golden<ls::AveragePooling2D<Extent2D{3, 2}, overlapping>, ls::Shape<4, 3, 2>>(
      {average_same::x, average_same::y, average_same::dy, average_same::dx, {}});
  namespace global_max = golden::global_max_pooling;
  check_golden<ls::GlobalMaxPooling2D, ls::Shape<3, 4, 5>>(
      {global_max::x, global_max::y, global_max::dy, global_max::dx, {}});
  namespace global_average = golden::global_average_pooling;
  check_golden<ls::GlobalAveragePooling2D, ls::Shape<3, 4, 5>>(
      {global_average::x, global_average::y, global_average::dy, global_average::dx, {}});
}

TEST_CASE("BatchNormalization: PyTorch's values and gradients, Keras's moving statistics") {
  using BatchNormalization =
      ls::BatchNormalization<ls::Linear, ls::BatchNormalizationOptions{.momentum = 0.9}>;
  namespace image = golden::batch_normalization_image;
  check_golden<BatchNormalization, ls::Shape<3, 2, 4>>(
      {image::x,
       image::y,
       image::dy,
       image::dx,
       {{image::gamma, image::gamma_gradient}, {image::beta, image::beta_gradient}},
       {image::moving_mean, image::moving_variance}});
  namespace flat = golden::batch_normalization_flat;
  check_golden<BatchNormalization, ls::Shape<3>>(
      {flat::x,
       flat::y,
       flat::dy,
       flat::dx,
       {{flat::gamma, flat::gamma_gradient}, {flat::beta, flat::beta_gradient}},
       {flat::moving_mean, flat::moving_variance}});
}

TEST_CASE("LayerNormalization: PyTorch's values and gradients") {
  namespace layer = golden::layer_normalization;
  check_golden<ls::LayerNormalization<>, ls::Shape<3, 4>>(
      {layer::x,
       layer::y,
       layer::dy,
       layer::dx,
       {{layer::gamma, layer::gamma_gradient}, {layer::beta, layer::beta_gradient}}});
}
