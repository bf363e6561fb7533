#include "lockstep/network/frozen.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "golden/variable_names.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
namespace variable_names = lockstep_test::golden::variable_names;
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

/// All variables of a model of these layers and a Dense and a BatchNormalization, in order.
template <class... Layers>
Names all_names() {
  using Net = ls::Sequential<ls::Input<4>, Layers..., ls::Dense<2>, ls::BatchNormalization<>>;
  const Names trained = Net::template variable_names<In>(),
              others = Net::template state_variable_names<In>();
  Names all;
  for (const ls::VariablePlace& place : Net::template variable_order<In>())
    all.push_back((place.is_trained ? trained : others).at(place.index));
  CHECK(all.size() == trained.size() + others.size());
  return all;
}

Names names_of(std::span<const std::string_view> names) { return {names.begin(), names.end()}; }

}  // namespace

TEST_CASE("Frozen: the variables are none that is trained, under the names of the layer") {
  CHECK(Tuned::variable_names<In>() == Names{"dense_1/kernel", "dense_1/bias"});
  CHECK(Tuned::state_variable_names<In>() ==
        Names{"sequential/dense/kernel", "sequential/dense/bias",
              "sequential/batch_normalization/gamma", "sequential/batch_normalization/beta",
              "sequential/batch_normalization/moving_mean",
              "sequential/batch_normalization/moving_variance", "dense/kernel", "dense/bias"});
  CHECK(Tuned::layer_names<In>() == Trained::layer_names<In>());
  CHECK(Tuned::variable_order<In>() == std::vector<ls::VariablePlace>{{false, 0},
                                                                      {false, 1},
                                                                      {false, 2},
                                                                      {false, 3},
                                                                      {false, 4},
                                                                      {false, 5},
                                                                      {false, 6},
                                                                      {false, 7},
                                                                      {true, 0},
                                                                      {true, 1}});
  CHECK(Tuned::parameter_count == 5 * 2 + 2);
  for (const ls::Variable& variable : Tuned::state_variables<In>) CHECK(variable.is_constant);
  for (const ls::Variable& variable : Trained::state_variables<In>)
    CHECK_FALSE(variable.is_constant);
}

TEST_CASE("Frozen: all variables stand in the order of Keras's get_weights" *
          doctest::test_suite("Keras: numerics")) {
  using Block = ls::Sequential<ls::BatchNormalization<>, ls::Dense<4>, ls::BatchNormalization<>>;
  using Inside = ls::Sequential<ls::Frozen<Block>, ls::BatchNormalization<>, Block>;
  CHECK(all_names<ls::Frozen<Block>>() == names_of(variable_names::frozen_block));
  CHECK(all_names<Inside>() == names_of(variable_names::frozen_inside));
  CHECK(all_names<ls::Frozen<Inside>>() == names_of(variable_names::frozen_around));
  CHECK(all_names<Block, ls::Frozen<Block>>() == names_of(variable_names::after_trained));
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
