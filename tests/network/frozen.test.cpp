#include "lockstep/network/frozen.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/flatten.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Names = std::vector<std::string>;
using Inner = ls::Sequential<ls::Dense<3, ls::Tanh>, ls::BatchNormalization<>>;
using Trained = ls::Sequential<ls::Input<4>, Inner, ls::Dense<5>, ls::Dense<2>>;
using Tuned =
    ls::Sequential<ls::Input<4>, ls::Frozen<Inner>, ls::Frozen<ls::Dense<5>>, ls::Dense<2>>;
using FrozenAbove =
    ls::Sequential<ls::Input<4>, ls::Dense<3, ls::Tanh>, ls::Frozen<ls::Dense<5, ls::Tanh>>,
                   ls::Frozen<ls::Sequential<ls::Dense<2>>>>;
using In = ls::Shape<4>;

/// A user's container, which has no each_output.
template <class Layer>
struct Wrapped : Layer {
  static constexpr std::string_view name = "wrapped";
  static constexpr bool takes_sequences = true;
  static constexpr std::size_t layer_count = 1;
  template <class Sample>
  static constexpr std::array layers{
      ls::LayerInfo{.name = Layer::name,
                    .output_extents = Layer::template Output<Sample>::extents,
                    .variables = Layer::template variables<Sample>}};
};

}  // namespace

TEST_CASE("Frozen: the variables are none that is trained, under the names of the layer") {
  CHECK(Tuned::variable_names<In>() == Names{"dense_1/kernel", "dense_1/bias"});
  CHECK(Tuned::state_variable_names<In>() ==
        Names{"sequential/dense/kernel", "sequential/dense/bias",
              "sequential/batch_normalization/gamma", "sequential/batch_normalization/beta",
              "sequential/batch_normalization/moving_mean",
              "sequential/batch_normalization/moving_variance", "dense/kernel", "dense/bias"});
  CHECK(Tuned::layer_names<In>() == Trained::layer_names<In>());
  CHECK(Tuned::variable_order<In>() ==
        std::vector<bool>{false, false, false, false, false, false, false, false, true, true});
  CHECK(Tuned::parameter_count == 5 * 2 + 2);
  for (const ls::Variable& variable : Tuned::state_variables<In>) CHECK(variable.is_constant);
  for (const ls::Variable& variable : Trained::state_variables<In>)
    CHECK_FALSE(variable.is_constant);
}

TEST_CASE("Frozen: gradients go through it") { check_gradients<FrozenAbove>(7); }

TEST_CASE(
    "Frozen: a training step leaves its variables and moving statistics alone, and reduces none of "
    "them") {
  NetRunner<Tuned> net;
  std::vector<std::vector<double>> before;
  for (const auto slice : net.workspace().state().slices())
    before.emplace_back(slice.begin(), slice.end());
  net.run(6);
  std::size_t i = 0;
  for (const auto slice : net.workspace().state().slices())
    CHECK(std::vector<double>(slice.begin(), slice.end()) == before[i++]);
  CHECK(net.workspace().pack_status().size() == net.workspace().status().values().size());
}

TEST_CASE("Frozen: a Dropout inside stays active in training") {
  using Net = ls::Sequential<ls::Input<64>, ls::Frozen<ls::Dropout<0.5>>>;
  NetRunner<Net> net;
  net.run(1);
  std::size_t zeros = 0;
  for (const double y : net.outputs()) zeros += y == 0;
  CHECK(zeros > 10);
}

TEST_CASE("Frozen: around a container that shows one output") {
  NetRunner<ls::Sequential<ls::Input<4>, ls::Frozen<Wrapped<ls::Dense<3>>>, ls::Dense<2>>> net;
  net.run(3);
  std::vector<std::size_t> positions;
  net.workspace().each_output([&](std::size_t position, const ls::TensorView<const double>&) {
    positions.push_back(position);
  });
  CHECK(positions == std::vector<std::size_t>{1, 2});
}

TEST_CASE("Frozen: around a layer that only sees its input with another shape") {
  using Flat = ls::Sequential<ls::Input<2, 2>, ls::Frozen<ls::Flatten>, ls::Dense<2>>;
  check_gradients<Flat>(5);
}
