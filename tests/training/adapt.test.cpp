#include "lockstep/training/adapt.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"

namespace ls = lockstep;

namespace {

using Net = ls::Sequential<ls::Input<2, 3>, ls::Normalization<>, ls::Flatten, ls::Normalization<>,
                           ls::Dense<1>>;
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Far from zero, and another deviation for each channel.
Rows rows(int samples) {
  Rows x(samples, 6);
  for (Eigen::Index i = 0; i < x.size(); ++i)
    x.data()[i] = 1000 + static_cast<float>((i * 37 % 101) * (i % 3 + 1));
  return x;
}

template <class F>
void with_model(int replicas, const F& f) {
  ls::MirroredStrategy strategy({.replicas = replicas});
  auto model = ls::compile<Net>(strategy, {.seed = 3}, ls::MeanSquaredError{}, ls::SGD{});
  f(model);
}

}  // namespace

TEST_CASE("adapt: mean and variance of the whole dataset, on any number of replicas") {
  const Rows x = rows(19);
  double mean[3] = {}, variance[3] = {};
  for (Eigen::Index i = 0; i < x.size(); ++i) mean[i % 3] += static_cast<double>(x.data()[i]) / 38;
  for (Eigen::Index i = 0; i < x.size(); ++i)
    variance[i % 3] += std::pow(static_cast<double>(x.data()[i]) - mean[i % 3], 2) / 38;
  for (const int replicas : {1, 2, 3}) {
    CAPTURE(replicas);
    with_model(replicas, [&](auto& model) {
      model.adapt(ls::from_tensor_slices(x).batch(5));
      const auto weights = model.get_weights();
      REQUIRE(weights[0].name == "normalization/mean");
      for (std::size_t c = 0; c < 3; ++c) {
        CHECK(std::abs(static_cast<double>(weights[0].values[c]) - mean[c]) < 1e-3);
        CHECK(std::abs(static_cast<double>(weights[1].values[c]) / variance[c] - 1) < 1e-6);
      }
      // The second layer sees what the first one has normalised.
      REQUIRE(weights[2].name == "normalization_1/mean");
      for (Eigen::Index f = 0; f < 6; ++f) {
        const auto c = static_cast<std::size_t>(f % 3);
        const double expected = (x.col(f).cast<double>().mean() - mean[c]) / std::sqrt(variance[c]);
        CHECK(std::abs(static_cast<double>(weights[2].values[static_cast<std::size_t>(f)]) -
                       expected) < 1e-4);
      }
    });
  }
}

TEST_CASE("adapt: plain arrays, and some of the batches") {
  with_model(1, [&](auto& model) {
    model.adapt(rows(7), {.batch_size = 3});
    const auto all = model.get_weights();
    model.adapt(ls::from_tensor_slices(rows(19)).batch(7), {.steps = 1});
    CHECK(std::abs(model.get_weights()[0].values[1] - all[0].values[1]) < 1e-3F);
  });
}

TEST_CASE("adapt: what cannot be is an error and changes nothing") {
  with_model(2, [&](auto& model) {
    CHECK_THROWS_AS(model.adapt(rows(0)), ls::DataError);
    CHECK(model.get_weights()[1].values[0] == 1);
    CHECK_THROWS_AS(model.adapt(ls::from_tensor_slices(rows(3)).batch(2), {.steps = 0}),
                    ls::ConfigurationError);
  });
  ls::OneDeviceStrategy strategy;
  auto bare = ls::compile<ls::Sequential<ls::Input<6>, ls::Dense<1>>>(
      strategy, ls::MeanSquaredError{}, ls::SGD{});
  CHECK_THROWS_WITH_AS(
      bare.adapt(rows(3)),
      "adapt: the model has no layer that is adapted to data, such as Normalization",
      ls::ConfigurationError);
}
