#include "lockstep/network/repeat.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Block = ls::Sequential<ls::Dense<3, ls::Tanh>, ls::Dense<3>>;
using Repeated = ls::Sequential<ls::Input<3>, ls::Repeat<3, Block>>;
using Written = ls::Sequential<ls::Input<3>, ls::Sequential<Block, Block, Block>>;
static_assert(Repeated::parameter_count == Written::parameter_count);
static_assert(Repeated::layer_count == Written::layer_count);
static_assert(std::is_same_v<Repeated::Output<ls::Shape<3>>, ls::Shape<3>>);

}  // namespace

TEST_CASE("Repeat: does what its layer does when it is written several times") {
  NetRunner<Repeated> repeated(3);
  NetRunner<Written> written(3);
  CHECK(repeated.run(7) == written.run(7));
  CHECK(repeated.outputs() == written.outputs());
  CHECK(repeated.gradients() == written.gradients());
  CHECK(repeated.input_gradient() == written.input_gradient());
}

TEST_CASE("Repeat: state variables and tokens") {
  using Net = ls::Sequential<ls::Input<4, 3>, ls::ToSequence,
                             ls::Repeat<2, ls::BatchNormalization<>>, ls::Dense<2>>;
  check_gradients<Net>(5);
  CHECK(Net::state_variable_names<ls::Shape<4, 3>>().size() == 4);
}
