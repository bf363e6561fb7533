#include "lockstep/network/time_distributed.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "golden/volumes.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/golden_layer.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::Shape, ls::TimeDistributed, ls::ToSequence;

namespace {

using Conv = ls::Conv2D<2, 2, ls::Tanh>;
using Frames = ls::Sequential<Conv, ls::BatchNormalization<>, ls::Dropout<0.25>, ls::Flatten>;
/// A step is a sequence of rows.
using Rows = ls::Sequential<ToSequence, ls::Dropout<0.25>, ls::LSTM<3>>;

static_assert(
    std::is_same_v<TimeDistributed<Conv>::Output<Shape<5, 3, 4, 1>>, ls::Sequence<5, 2, 3, 2>>);
static_assert(
    std::is_same_v<TimeDistributed<Frames>::Output<ls::Sequence<5, 3, 4, 1>>, ls::Sequence<5, 12>>);
static_assert(TimeDistributed<Conv>::flop<Shape<5, 3, 4, 1>> == 5 * Conv::flop<Shape<3, 4, 1>>);
static_assert(TimeDistributed<Frames>::layer_count == 4);

}  // namespace

TEST_CASE("TimeDistributed: Keras's values and gradients") {
  namespace c = golden::time_distributed;
  check_golden<ls::Sequential<TimeDistributed<Conv>, ls::Flatten>, Shape<3, 3, 4, 2>>(
      {c::x, c::y, c::dy, c::dx, {{c::kernel, c::kernel_gradient}, {c::bias, c::bias_gradient}}});
}

TEST_CASE("TimeDistributed: gradients, of a Shape, of a Sequence, with sequences inside") {
  check_gradients<ls::Sequential<ls::Input<3, 3, 4, 1>, TimeDistributed<Frames>, ls::LSTM<2>>>(5);
  check_gradients<ls::Sequential<ls::Input<2, 4, 3>, ls::Reshape<2, 4, 3>, TimeDistributed<Rows>,
                                 ls::Dense<2>>>(3);
  check_gradients<
      ls::Sequential<ls::Input<3, 4>, ToSequence, TimeDistributed<ls::Dense<2>>, ls::Flatten>>(17);
}

TEST_CASE("TimeDistributed: does what a Sequence does to layers that know nothing of positions") {
  using Written = ls::Sequential<ls::Input<3, 3, 4, 1>, ToSequence, Conv, ls::Dropout<0.5>,
                                 ls::BatchNormalization<>, ls::Flatten>;
  using OfShape = ls::Sequential<
      ls::Input<3, 3, 4, 1>,
      TimeDistributed<ls::Sequential<Conv, ls::Dropout<0.5>, ls::BatchNormalization<>>>,
      ls::Flatten>;
  using OfSequence = ls::Sequential<
      ls::Input<3, 3, 4, 1>, ToSequence,
      TimeDistributed<ls::Sequential<Conv, ls::Dropout<0.5>, ls::BatchNormalization<>>>,
      ls::Flatten>;
  NetRunner<Written> written(3);
  NetRunner<OfShape> of_shape(3);
  NetRunner<OfSequence> of_sequence(3);
  // (The number of a layer is part of its random numbers: those of OfShape are others.)
  CHECK(of_shape.run(7, 0, false) == written.run(7, 0, false));
  CHECK(of_sequence.run(7) == written.run(7));
  CHECK(of_sequence.gradients() == written.gradients());
  CHECK(of_sequence.input_gradient() == written.input_gradient());
}

TEST_CASE("TimeDistributed: names of variables are Keras's") {
  using Net = ls::Sequential<ls::Input<3, 3, 4, 1>, TimeDistributed<Frames>,
                             TimeDistributed<ls::Dense<2>>, ls::Flatten, ls::Dense<3>>;
  CHECK(Net::variable_names<Net::InputShape>() ==
        std::vector<std::string>{"time_distributed/sequential/conv2d/kernel",
                                 "time_distributed/sequential/conv2d/bias",
                                 "time_distributed/sequential/batch_normalization/gamma",
                                 "time_distributed/sequential/batch_normalization/beta",
                                 "time_distributed_1/dense/kernel", "time_distributed_1/dense/bias",
                                 "dense/kernel", "dense/bias"});
}
