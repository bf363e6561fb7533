#include "lockstep/network/few_samples.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/conv3d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/network/sequential.hpp"

namespace ls = lockstep;

namespace {

template <class... Layers>
constexpr bool computes =
    ls::detail::few_samples_of<ls::Sequential<Layers...>, float>().forward != nullptr;

static_assert(computes<ls::Input<6>, ls::Dense<3, ls::GELU>, ls::Activation<ls::Tanh>>);
static_assert(computes<ls::Input<6, 6, 1>, ls::Sequential<ls::Conv2D<4, 3>, ls::Flatten>>);
static_assert(computes<ls::Input<3, 6, 6, 16>, ls::Conv3D<16, ls::Extent3D{1, 3, 3}>>);
// It has a state; tokens are samples; Winograd's algorithm has other sums.
static_assert(!computes<ls::Input<6>, ls::Dense<3>, ls::BatchNormalization<>>);
static_assert(!computes<ls::Input<6, 2>, ls::ToSequence, ls::Dense<3>>);
static_assert(!computes<ls::Input<8, 8, 16>, ls::Conv2D<16, 3>>);

}  // namespace

TEST_CASE("few samples: layer by layer, each with its own variables") {
  using Net = ls::Sequential<ls::Input<2>, ls::Dense<3>, ls::Sequential<ls::Activation<ls::ReLU>>,
                             ls::Dense<1>>;
  constexpr ls::detail::FewSamples<float> few = ls::detail::few_samples_of<Net, float>();
  CHECK(few.widest == 3);
  std::vector<float> kernel{1, 2, 3, 4, 5, 6}, bias{0, -20, 0}, last{1, 10, 100}, constant{7};
  const std::array<std::span<float>, 4> weights{kernel, bias, last, constant};
  const std::array<float, 4> x{1, 2, -1, -2};
  std::vector<float> a(6), b(6), scratch(few.scratch(2));
  const float* const y = few.forward({2, weights, x.data(), a.data(), scratch.data()}, b.data());
  CHECK(y[0] == 9 + 1500 + 7);  // (9, 12 - 20, 15)
  CHECK(y[1] == 7);
}
