#include "lockstep/layers/category_encoding.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>
#include <vector>

#include "golden/categories.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/discretization.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/layer_rig.hpp"
#include "support/messages.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
namespace known = lockstep_test::golden::categories;

namespace {

template <ls::CategoryOutput Output>
using Five = ls::CategoryEncoding<5, ls::CategoryEncodingOptions{.output_mode = Output}>;

template <class Layer, std::size_t Ids, class T>
void compare(const known::Rows& expected) {
  lockstep_test::LayerRig<Layer, ls::Shape<Ids>, T> rig(known::ids.size());
  std::fill(rig.y.begin(), rig.y.end(), T(7));
  std::fill(rig.dx.begin(), rig.dx.end(), T(7));
  for (std::size_t sample = 0; sample < known::ids.size(); ++sample)
    for (std::size_t i = 0; i < Ids; ++i)
      rig.x[i * rig.stride + sample] = static_cast<T>(known::ids[sample][i]);
  rig.forward();
  rig.backward();
  for (std::size_t sample = 0; sample < known::ids.size(); ++sample) {
    for (std::size_t f = 0; f < expected[sample].size(); ++f)
      CHECK(rig.y[f * rig.out_stride + sample] == static_cast<T>(expected[sample][f]));
    for (std::size_t i = 0; i < Ids; ++i) CHECK(rig.dx[i * rig.stride + sample] == T(0));
  }
}

}  // namespace

TEST_CASE("Keras: CategoryEncoding") {
  using enum ls::CategoryOutput;
  static_assert(std::is_same_v<ls::CategoryEncoding<4>::Output<ls::Shape<2>>, ls::Shape<4>>);
  static_assert(std::is_same_v<Five<one_hot>::Output<ls::Shape<3>>, ls::Shape<3, 5>>);
  static_assert(std::is_same_v<Five<one_hot>::Output<ls::Shape<1>>, ls::Shape<5>>);
  const auto all = []<class T>(T) {
    compare<Five<multi_hot>, 3, T>(known::encoded_multi_hot);
    compare<Five<count>, 3, T>(known::encoded_count);
    compare<Five<one_hot>, 3, T>(known::encoded_one_hot);
    compare<Five<one_hot>, 1, T>(known::encoded_one_hot_single);
  };
  all(float{});
  all(double{});
}

TEST_CASE("CategoryEncoding: a number that is no category is named") {
  for (const float wrong : {-1.0F, 0.5F, 5.0F}) {
    lockstep_test::LayerRig<Five<ls::CategoryOutput::count>, ls::Shape<2>, float> rig(3);
    rig.x[rig.stride + 2] = wrong;
    CHECK_THROWS_AS(rig.forward(), ls::BadSample);
  }
}

TEST_CASE("CategoryEncoding: a Dense of the bins of a Discretization is trained") {
  lockstep_test::check_gradients<
      ls::Sequential<ls::Input<3>, ls::Discretization<ls::Bins{-0.5, 0.5}>,
                     Five<ls::CategoryOutput::one_hot>, ls::Flatten, ls::Dense<2>>>(7);
}
