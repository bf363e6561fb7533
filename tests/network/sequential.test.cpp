#include "lockstep/network/sequential.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "support/model_testing.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using In = ls::Shape<4>;

using Flat =
    ls::Sequential<ls::Input<4>, UserDense<6>, UserReLU, UserDense<5>, UserReLU, UserDense<3>>;
using Nested = ls::Sequential<ls::Input<4>, ls::Sequential<UserDense<6>, UserReLU>,
                              ls::Sequential<ls::Sequential<UserDense<5>>, UserReLU, UserDense<3>>>;

// Shapes and counts are compile-time values.
static_assert(std::is_same_v<Flat::InputShape, In> &&
              std::is_void_v<ls::Sequential<UserDense<6>>::InputShape>);
static_assert(std::is_same_v<Flat::Output<In>, ls::Shape<3>>);
static_assert(
    std::is_same_v<ls::Sequential<UserReshape<2, 3>>::Output<ls::Shape<6>>, ls::Shape<2, 3>>);
static_assert(Flat::parameter_count == 4 * 6 + 6 + 6 * 5 + 5 + 5 * 3 + 3);
static_assert(Nested::parameter_count == Flat::parameter_count);
static_assert(ls::Sequential<UserDense<6>>::parameter_count == 0);
static_assert(ls::Sequential<ls::Input<3>, UserReLU>::parameter_count == 0);
static_assert(Flat::layer_count == 6 && Nested::layer_count == 6);

/// Adds a random number to every element, in training.
struct Noise {
  static constexpr std::string_view name = "noise";
  template <class I>
  using Output = I;
  template <class I, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    for (std::size_t i = 0; i < pass.x.samples(); ++i) {
      ls::RandomStream random(pass.context.random_key(i));
      for (std::size_t f = 0; f < I::size; ++f)
        pass.y(i, f) =
            pass.x(i, f) + (pass.context.training ? static_cast<T>(random.uniform()) : T(0));
    }
  }
  template <class I, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    pass.dx.matrix() = pass.dy.matrix();
  }
};

}  // namespace

TEST_CASE("Sequential: the gradient of the whole equals finite differences") {
  check_gradients<Flat>(7);
  check_gradients<Flat>(16);
}

TEST_CASE("Sequential: nested equals flat, to the bit") {
  NetRunner<Flat> flat;
  NetRunner<Nested> nested;
  CHECK(flat.parameters() == nested.parameters());
  CHECK(flat.run(19) == nested.run(19));
  CHECK(flat.outputs() == nested.outputs());
  CHECK(flat.gradients() == nested.gradients());
  CHECK(flat.input_gradient() == nested.input_gradient());
}

TEST_CASE("Sequential: what a layer draws depends on its position in the flattened model") {
  NetRunner<ls::Sequential<ls::Input<4>, Noise, UserReLU, Noise, UserDense<2>, Noise>> flat;
  NetRunner<ls::Sequential<ls::Input<4>, ls::Sequential<Noise, UserReLU>,
                           ls::Sequential<ls::Sequential<Noise>, UserDense<2>>, Noise>>
      nested;
  NetRunner<
      ls::Sequential<ls::Input<4>, UserReshape<4>, Noise, UserReLU, Noise, UserDense<2>, Noise>>
      moved;
  flat.run(5);
  nested.run(5);
  moved.run(5);
  CHECK(flat.outputs() == nested.outputs());
  CHECK(flat.outputs() != moved.outputs());
  const auto of_step_0 = flat.outputs();
  flat.context().step = 1;
  flat.run(5);
  CHECK(flat.outputs() != of_step_0);
  flat.run(5, 0, false);
  const auto inference = flat.outputs();
  flat.context().step = 0;
  flat.run(5, 0, false);
  CHECK(flat.outputs() == inference);
}

TEST_CASE("Sequential: random numbers follow the sample, whatever its row") {
  NetRunner<ls::Sequential<ls::Input<4>, Noise>> net;
  net.run(4, 10);
  const double of_12 = net.workspace().predictions()(2, 3);
  net.run(1, 12);
  CHECK(net.workspace().predictions()(0, 3) == of_12);
}

TEST_CASE("Sequential: any batch gives the rows of single samples and the sum of their gradients") {
  NetRunner<Flat> net;
  std::vector<double> sum(Flat::parameter_count), last_row;
  double loss = 0;
  for (std::size_t i = 0; i < 33; ++i) {
    loss += net.run(1, i);
    for (std::size_t p = 0; p < sum.size(); ++p) sum[p] += net.gradients()[p];
    last_row = net.outputs();
    const std::size_t samples = i + 1;
    if (samples != 1 && samples != 15 && samples != 16 && samples != 17 && samples != 33) continue;
    CAPTURE(samples);
    CHECK(net.run(samples) == doctest::Approx(loss).epsilon(1e-12));
    for (std::size_t p = 0; p < sum.size(); ++p)
      CHECK(net.gradients()[p] == doctest::Approx(sum[p]).epsilon(1e-9));
    for (std::size_t f = 0; f < 3; ++f)
      CHECK(net.workspace().predictions()(i, f) == doctest::Approx(last_row[f]));
  }
}

TEST_CASE("Sequential: a smaller batch after a larger one is as in a new workspace") {
  NetRunner<Flat> used, fresh;
  used.run(50);
  CHECK(used.run(5, 3) == fresh.run(5, 3));
  CHECK(used.outputs() == fresh.outputs());
  CHECK(used.gradients() == fresh.gradients());
}

TEST_CASE("Sequential: an empty batch has loss 0 and zero gradients") {
  NetRunner<Flat> net;
  CHECK(net.run(0) == 0.0);
  net.run(20);
  CHECK(net.run(0) == 0.0);
  CHECK(net.gradients() == std::vector<double>(Flat::parameter_count));
  CHECK(net.input_gradient().empty());
}

TEST_CASE("Sequential: a model without variables runs forward, and backward") {
  NetRunner<ls::Sequential<ls::Input<2, 2>, UserReLU>> net;
  CHECK(net.run(3) > 0);
  CHECK(net.gradients().empty());
  CHECK(net.input_gradient().size() == 12);
}

TEST_CASE(
    "Sequential: variables are those of the layers, first layer first, with their initial values") {
  CHECK(Flat::variables<In>.size() == 6);
  CHECK(Flat::variables<In>[0].extents[0] == 4);
  CHECK(Flat::variables<In>[4].extents[0] == 5);
  const std::vector<std::string> names{"user_dense/kernel",   "user_dense/bias",
                                       "user_dense_1/kernel", "user_dense_1/bias",
                                       "user_dense_2/kernel", "user_dense_2/bias"};
  CHECK(Flat::variable_names<In>() == names);
  CHECK(Nested::variable_names<In>() ==
        std::vector<std::string>{"sequential/user_dense/kernel", "sequential/user_dense/bias",
                                 "sequential_1/sequential/user_dense/kernel",
                                 "sequential_1/sequential/user_dense/bias",
                                 "sequential_1/user_dense/kernel", "sequential_1/user_dense/bias"});
}

TEST_CASE("Sequential: gradients lie in the order in which backward finishes them") {
  NetRunner<Flat> net;
  const auto slices = net.workspace().gradients().slices();
  for (std::size_t i = 1; i < slices.size(); ++i) CHECK(slices[i].data() < slices[i - 1].data());
}

TEST_CASE("Sequential: summary names layers, shapes and counts") {
  const std::string summary = TinyNet::summary();
  CHECK(contains(summary, " user_dense (UserDense)      (None, 6)                 30  "));
  CHECK(contains(summary, " user_re_lu (UserReLU)       (None, 6)                 0   "));
  CHECK(contains(summary, " user_dense_1 (UserDense)    (None, 3)                 21  "));
  CHECK(contains(summary, "Total params: 51\n"));
  CHECK_FALSE(contains(summary, "input"));
  CHECK(contains(Nested::summary(), " sequential_1 (Sequential)   (None, 3)                 53  "));
}
