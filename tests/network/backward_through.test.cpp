// Where a layer goes backward through the activation of the layer before it too, the gradients have the same bits.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>

#include "lockstep/layers/activation.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/flatten.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/instruction_sets.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Inherits all that L has, and so goes through nothing, nor lets the next layer through.
template <class L>
struct Apart : L {};

template <class L>
using Same = L;

template <template <class> class A, std::size_t Units, class Function>
using Net =
    ls::Sequential<ls::Input<5, 4, 2>, A<ls::Conv2D<6, 3, Function>>, ls::Flatten, A<ls::Dense<Units, Function>>,
                   A<ls::BatchNormalization<ls::BatchNormalizationOptions{}, Function>>, A<ls::Dense<7, Function>>,
                   A<ls::Dense<3>>>;

template <class N, std::size_t I, class Plan = typename N::template Plan<typename N::InputShape>>
constexpr bool passes_through = Plan::template passes_through<I, Plan::first_trained, float>;

template <std::size_t Units, class Function, template <class> class A = Same>
constexpr std::array through{passes_through<Net<A, Units, Function>, 1>, passes_through<Net<A, Units, Function>, 3>,
                             passes_through<Net<A, Units, Function>, 4>, passes_through<Net<A, Units, Function>, 5>,
                             passes_through<Net<A, Units, Function>, 6>};

static_assert(through<128, ls::ReLU> == std::array{false, true, false, true, true});
static_assert(through<129, ls::ReLU> ==
              std::array{false, false, false, true, true});  // more than one block of summands
static_assert(through<9, ls::Tanh> == std::array{false, false, false, false, false});
static_assert(through<9, ls::Linear> == std::array{false, false, false, false, false});
static_assert(through<9, ls::ReLU, Apart> == std::array{false, false, false, false, false});

template <std::size_t Units, class T, class Function>
void check_equal() {
  NetRunner<Net<Same, Units, Function>, T> fused;
  NetRunner<Net<Apart, Units, Function>, T> apart;
  for (const std::size_t samples : {1u, 5u, 16u, 37u, 64u}) {
    CAPTURE(samples);
    CHECK(fused.run(samples) == apart.run(samples));
    CHECK(fused.gradients() == apart.gradients());
    CHECK(fused.input_gradient() == apart.input_gradient());
  }
}

}  // namespace

TEST_CASE("backward through activations: the gradients have the same bits") {
  for_each_instruction_set([] {
    check_equal<128, float, ls::ReLU>();
    check_equal<9, float, ls::ReLU>();
    check_equal<130, float, ls::ReLU>();
    check_equal<9, double, ls::ReLU>();
    check_equal<9, float, ls::Tanh>();
  });
}
