// The three models that are measured, as types. The programs under peers/ build the same ones.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/sequential.hpp"

namespace benchmarks {

namespace ls = lockstep;

/// The tutorial's.
struct Cnn {
  static constexpr std::string_view name = "cnn";
  static constexpr std::size_t batch = 64;
  using Net = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 1>, ls::Conv2D<32, 3, ls::ReLU>,
                             ls::Flatten, ls::Dense<128, ls::ReLU>, ls::Dense<10>>;
};

struct Mlp {
  static constexpr std::string_view name = "mlp";
  static constexpr std::size_t batch = 128;
  using Net = ls::Sequential<ls::Input<784>, ls::Dense<512, ls::ReLU>, ls::Dense<512, ls::ReLU>,
                             ls::Dense<10>>;
};

struct Cifar {
  static constexpr std::string_view name = "cifar";
  static constexpr std::size_t batch = 64;
  template <std::size_t Filters>
  using Conv = ls::Conv2D<Filters, 3, ls::Linear, ls::Conv2DOptions{.padding = ls::Padding::same}>;
  using Normalization = ls::BatchNormalization<>;
  using ReLU = ls::Activation<ls::ReLU>;
  using Pooling = ls::MaxPooling2D<2>;
  using Net = ls::Sequential<ls::Input<32, 32, 3>, Conv<32>, Normalization, ReLU, Pooling, Conv<64>,
                             Normalization, ReLU, Pooling, Conv<128>, Normalization, ReLU, Pooling,
                             ls::Flatten, ls::Dense<10>>;
};

/// Calls f.template operator()<Subject>() for each of them.
template <class F>
void for_each_model(const F& f) {
  f.template operator()<Cnn>();
  f.template operator()<Mlp>();
  f.template operator()<Cifar>();
}

}  // namespace benchmarks
