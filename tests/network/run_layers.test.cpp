#include "lockstep/network/run_layers.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

#include "lockstep/network/frozen.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/model_testing.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

int backward_calls = 0;
int backward_weights_calls = 0;

/// Counts how its gradient is asked for; can leave out that of its input.
template <std::size_t Units>
struct CountingDense : UserDense<Units> {
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    ++backward_calls;
    CHECK_FALSE(pass.dx.empty());
    UserDense<Units>::template backward<In, T>(pass);
  }
  template <class In, class T>
  static void backward_weights(const ls::BackwardPass<T>& pass) {
    ++backward_weights_calls;
    CHECK(pass.dx.empty());
    const ls::Buffer unwanted(In::size * pass.x.stride() * sizeof(T));
    ls::BackwardPass<T> with_dx = pass;
    with_dx.dx = {reinterpret_cast<T*>(unwanted.data()), pass.x.samples(), In::size,
                  pass.x.stride()};
    UserDense<Units>::template backward<In, T>(with_dx);
  }
};

/// A layer without variables whose backward must not be asked for when nothing before it is
/// trained.
struct CountingReLU : UserReLU {
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    ++backward_calls;
    UserReLU::backward<In, T>(pass);
  }
};

/// Computes with whole padded columns, as fast kernels do, and relies on what Sequential says of
/// the padding: finite in activations and zero in gradients.
template <std::size_t Units>
struct PaddedDense : UserDense<Units> {
  static constexpr bool keeps_padding = true;
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    UserDense<Units>::template forward<In, T>({.context = pass.context,
                                               .weights = pass.weights,
                                               .state = pass.state,
                                               .x = padded(pass.x),
                                               .y = padded(pass.y),
                                               .scratch = pass.scratch});
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    for (std::size_t f = 0; f < Units; ++f)
      for (std::size_t i = pass.dy.samples(); i < pass.dy.stride(); ++i)
        CHECK(pass.dy(i, f) == T(0));
    ls::BackwardPass<T> whole = pass;
    whole.x = padded(pass.x);
    whole.y = padded(pass.y);
    whole.dy = padded(pass.dy);
    whole.dx = padded(pass.dx);
    UserDense<Units>::template backward<In, T>(whole);
  }

 private:
  template <class T>
  static ls::TensorView<T> padded(ls::TensorView<T> view) {
    return {view.data(), view.stride(), view.features(), view.stride()};
  }
};

/// Leaves a copy of its output in scratch, of an awkward size, and looks whether it is still there.
struct KeepsInScratch {
  static constexpr std::string_view name = "keeps_in_scratch";
  template <class In>
  using Output = In;
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return In::size * stride + 3;
  }
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    REQUIRE(pass.scratch.size() >= scratch<In>(pass.x.stride()));
    CHECK(reinterpret_cast<std::uintptr_t>(pass.scratch.data()) % 64 == 0);
    pass.y.matrix() = T(2) * pass.x.matrix();
    for (std::size_t i = 0; i < pass.scratch.size(); ++i) pass.scratch[i] = T(-1);
    for (std::size_t f = 0; f < In::size; ++f)
      for (std::size_t i = 0; i < pass.x.samples(); ++i)
        pass.scratch[f * pass.x.stride() + i] = pass.y(i, f);
    if (!pass.scratch.empty()) pass.scratch.back() = static_cast<T>(pass.context.layer);
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    for (std::size_t f = 0; f < In::size; ++f)
      for (std::size_t i = 0; i < pass.x.samples(); ++i)
        CHECK(pass.scratch[f * pass.x.stride() + i] == pass.y(i, f));
    CHECK(pass.scratch.back() == static_cast<T>(pass.context.layer));
    for (T& value : pass.scratch) value = T(-2);
    pass.dx.matrix() = T(2) * pass.dy.matrix();
  }
};

/// Writes all of its temporary memory, of an awkward size, which is that of all layers.
template <std::size_t Values>
struct NeedsTemporary {
  static constexpr std::string_view name = "needs_temporary";
  static inline std::set<const void*> places{};
  template <class In>
  using Output = In;
  template <class In>
  static constexpr std::size_t temporary(std::size_t stride) {
    return Values * stride + 3;
  }
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    use<In>(pass);
    pass.y.matrix() = T(3) * pass.x.matrix();
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    use<In>(pass);
    pass.dx.matrix() = T(3) * pass.dy.matrix();
  }

 private:
  template <class In, class Pass>
  static void use(const Pass& pass) {
    REQUIRE(pass.temporary.size() >= temporary<In>(pass.x.stride()));
    CHECK(reinterpret_cast<std::uintptr_t>(pass.temporary.data()) % 64 == 0);
    for (auto& value : pass.temporary) value = -3;
    places.insert(pass.temporary.data());
  }
};

double five(ls::RandomStream&, ls::Fans) { return 5; }

/// Counts its batches in untrained state.
struct CountsBatches {
  static constexpr std::string_view name = "counts_batches";
  template <class In>
  using Output = In;
  template <class In>
  static constexpr std::array state_variables{ls::Variable{"batches", {1}, five},
                                              ls::Variable{"largest", {In::size}, nullptr}};
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    CHECK(pass.state.size() == 2);
    if (pass.context.training) pass.state[0][0] += T(1);
    pass.y.matrix() = pass.x.matrix();
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    pass.dx.matrix() = pass.dy.matrix();
  }
};

/// How often backward and backward_weights are called in one step of Net.
template <class Net>
std::array<int, 2> calls_of_a_step() {
  NetRunner<Net> net;
  backward_calls = backward_weights_calls = 0;
  net.run(3);
  return {backward_calls, backward_weights_calls};
}

}  // namespace

TEST_CASE("aliases: first, in the middle, one after the other, last") {
  check_gradients<ls::Sequential<ls::Input<2, 2>, UserReshape<4>, UserDense<3>>>(5);
  check_gradients<ls::Sequential<ls::Input<4>, UserDense<6>, UserReshape<2, 3>, UserReshape<3, 2>,
                                 UserReLU, UserReshape<6>, UserDense<3>>>(5);
  check_gradients<ls::Sequential<ls::Input<4>, UserDense<6>, UserReshape<2, 3>, UserReshape<3, 2>>>(
      5);
  check_gradients<ls::Sequential<ls::Input<2, 2>, UserReshape<4>, UserReshape<1, 4>, UserDense<6>,
                                 UserReshape<2, 3>>>(5);
}

TEST_CASE("aliases: alone, and alone in a part") {
  NetRunner<ls::Sequential<ls::Input<4>, UserReshape<2, 2>>> alone;
  alone.run(5);
  for (std::size_t f = 0; f < 4; ++f)
    for (std::size_t i = 0; i < 5; ++i)
      CHECK(alone.workspace().predictions()(i, f) == alone.workspace().x()(i, f));
  check_gradients<ls::Sequential<ls::Input<4>, UserReshape<2, 2>>>(5);
  check_gradients<ls::Sequential<ls::Input<4>, ls::Sequential<UserReshape<2, 2>>, UserDense<3>,
                                 ls::Sequential<UserReshape<3>>>>(5);
}

TEST_CASE("aliases: the result is that of the model without them") {
  NetRunner<ls::Sequential<ls::Input<4>, UserDense<6>, UserReLU, UserDense<3>>> plain;
  NetRunner<ls::Sequential<ls::Input<2, 2>, UserReshape<4>, UserDense<6>, UserReshape<3, 2>,
                           UserReLU, UserReshape<6>, UserDense<3>, UserReshape<1, 3>>>
      reshaped;
  CHECK(plain.run(9) == reshaped.run(9));
  CHECK(plain.outputs() == reshaped.outputs());
  CHECK(plain.gradients() == reshaped.gradients());
  CHECK(plain.input_gradient() == reshaped.input_gradient());
}

TEST_CASE("an Input may stand in a part, where it says what the shape is") {
  check_gradients<
      ls::Sequential<ls::Input<4>, ls::Sequential<ls::Input<4>, UserDense<3>>, UserReLU>>(3);
}

TEST_CASE(
    "backward: the first trained layer need not compute its input gradient, the others must") {
  using Two = ls::Sequential<ls::Input<4>, CountingDense<6>, CountingDense<3>>;
  CHECK(calls_of_a_step<Two>() == std::array{1, 1});
  using Untrained =
      ls::Sequential<ls::Input<4>, CountingReLU, UserReshape<2, 2>, CountingReLU, CountingDense<3>>;
  CHECK(calls_of_a_step<Untrained>() == std::array{0, 1});
  using After = ls::Sequential<ls::Input<4>, CountingDense<3>, CountingReLU>;
  CHECK(calls_of_a_step<After>() == std::array{1, 1});
  using InPart =
      ls::Sequential<ls::Input<4>, ls::Sequential<CountingReLU, CountingDense<6>, CountingReLU>,
                     CountingDense<3>>;
  CHECK(calls_of_a_step<InPart>() == std::array{2, 1});
  using Nothing = ls::Sequential<ls::Input<4>, CountingReLU>;
  CHECK(calls_of_a_step<Nothing>() == std::array{0, 0});
}

TEST_CASE("backward: all layers compute their input gradient when that of the whole is wanted") {
  NetRunner<ls::Sequential<ls::Input<4>, CountingReLU, CountingDense<6>, CountingDense<3>>> net;
  net.load(3, 0);
  backward_calls = backward_weights_calls = 0;
  net.input_gradient();
  CHECK(backward_calls == 3);
  CHECK(backward_weights_calls == 0);
}

TEST_CASE("backward: with and without backward_weights the gradients are the same") {
  NetRunner<ls::Sequential<ls::Input<4>, CountingDense<6>, UserReLU, CountingDense<3>>> with;
  NetRunner<TinyNet> without;
  with.run(21);
  without.run(21);
  CHECK(with.gradients() == without.gradients());
  check_gradients<ls::Sequential<ls::Input<4>, CountingDense<6>, UserReLU, CountingDense<3>>>(5);
}

TEST_CASE("padding: what a careless layer leaves there does not reach gradients") {
  using Before = ls::Sequential<ls::Input<4>, UserReLU, PaddedDense<3>>;
  using Between = ls::Sequential<ls::Input<4>, PaddedDense<6>, UserReLU, PaddedDense<3>>;
  using InParts = ls::Sequential<ls::Input<4>, ls::Sequential<PaddedDense<6>, UserReLU>,
                                 ls::Sequential<PaddedDense<3>>>;
  for (const std::size_t samples : {1u, 5u, 15u, 16u, 17u}) {
    CAPTURE(samples);
    check_gradients<Before>(samples);
    check_gradients<Between>(samples);
    check_gradients<InParts>(samples);
  }
}

TEST_CASE("padding: a careless last layer, and its gradients equal those of single samples") {
  using Careless = ls::Sequential<ls::Input<4>, PaddedDense<6>, UserReLU>;
  NetRunner<Careless> net;
  std::vector<double> sum(Careless::parameter_count);
  for (std::size_t i = 0; i < 5; ++i) {
    net.run(1, i);
    for (std::size_t p = 0; p < sum.size(); ++p) sum[p] += net.gradients()[p];
  }
  net.run(5);
  for (std::size_t p = 0; p < sum.size(); ++p)
    CHECK(net.gradients()[p] == doctest::Approx(sum[p]).epsilon(1e-12));
}

TEST_CASE_TEMPLATE("scratch: each layer keeps its own from forward to backward", T, float, double) {
  using Part = ls::Sequential<KeepsInScratch, UserReLU, KeepsInScratch>;
  NetRunner<ls::Sequential<ls::Input<4>, KeepsInScratch, Part, UserReshape<2, 2>, KeepsInScratch,
                           UserReshape<4>, UserDense<3>, Part>,
            T>
      net;
  for (const std::size_t samples : {3u, 16u, 40u, 1u}) net.run(samples);
}

TEST_CASE("scratch: the gradient is right with it") {
  check_gradients<ls::Sequential<ls::Input<4>, KeepsInScratch, UserDense<3>, KeepsInScratch>>(3);
}

TEST_CASE_TEMPLATE("temporary memory: layers share it, and nothing else is written over", T, float,
                   double) {
  using Needs = NeedsTemporary<5>;
  using Part = ls::Sequential<KeepsInScratch, Needs, KeepsInScratch>;
  using Branches = ls::Parallel<ls::Add, Part, Needs, ls::Identity>;
  NetRunner<ls::Sequential<ls::Input<4>, Needs, Part, UserDense<3>, Branches, Part, Needs, Part>, T>
      net;
  for (const std::size_t samples : {3u, 16u, 40u, 1u}) {
    Needs::places.clear();
    net.run(samples);
    // One place for each depth of nesting: in the network, in a part, in branches, in their part.
    CHECK(Needs::places.size() == 4);
  }
}

TEST_CASE("temporary memory: the gradient is right with it") {
  using Needs = NeedsTemporary<2>;
  check_gradients<ls::Sequential<
      ls::Input<4>, Needs, UserDense<3>, ls::Residual<UserDense<3>, Needs, KeepsInScratch>,
      ls::Frozen<ls::Sequential<UserDense<3>, Needs, UserDense<3>>>, Needs>>(3);
}

TEST_CASE(
    "untrained state: starts from its initial values, is changed by its own layer alone, and is no "
    "parameter") {
  using Net =
      ls::Sequential<ls::Input<4>, CountsBatches, UserDense<3>, ls::Sequential<CountsBatches>>;
  static_assert(Net::parameter_count == 15);
  CHECK(Net::state_variable_names<ls::Shape<4>>() ==
        std::vector<std::string>{"counts_batches/batches", "counts_batches/largest",
                                 "sequential/counts_batches/batches",
                                 "sequential/counts_batches/largest"});
  NetRunner<Net> net;
  const auto state = net.workspace().state().slices();
  REQUIRE(state.size() == 4);
  CHECK(state[3].size() == 3);
  ls::detail::initialize<double>(Net::state_variables<ls::Shape<4>>, state, ls::RandomKey(1));
  net.run(3);
  net.run(3);
  net.run(3, 0, false);
  CHECK(state[0][0] == 7);
  CHECK(state[2][0] == 7);
  CHECK(state[1][0] == 0);
}
