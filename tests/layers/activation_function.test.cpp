#include "lockstep/layers/activation_function.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "lockstep/layers/activations.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;

namespace {

/// Tells its derivative from x, and counts on nothing else.
struct Cubic {
  static constexpr std::string_view name = "cubic";
  static constexpr bool gradient_from_input = true;
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return x * x * x;
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& x) {
    return dy * (P(3) * x * x);
  }
};
static_assert(ls::ActivationFunction<Cubic> && ls::ActivationFunction<Cubic, double>);

}  // namespace

TEST_CASE("activation functions: which ones the products do by themselves") {
  static_assert(ls::detail::is_fused<ls::Linear, float> && ls::detail::is_fused<ls::ReLU, float>);
  static_assert(!ls::detail::is_fused<ls::Tanh, float>);
  CHECK(ls::detail::fused_minimum<ls::ReLU, float>() == 0);
  CHECK(std::isinf(ls::detail::fused_minimum<ls::Tanh, float>()));
}

TEST_CASE("activation functions: the derivative is kept if y does not tell it, and only then") {
  CHECK(ls::detail::slope_size<Cubic>(16) == 16);
  CHECK(ls::detail::slope_size<ls::Tanh>(16) == 0);
  lockstep_test::for_each_instruction_set([] {
    const std::vector<double> x{1, -2, 3, -4, 5}, dy{1, 1, 0, -1, 2};
    std::vector<double> y = x, slope(5), dx = dy;
    ls::detail::activate<Cubic>(5, static_cast<const double*>(y.data()), y.data(), slope.data());
    CHECK(y == std::vector<double>{1, -8, 27, -64, 125});
    CHECK(slope == std::vector<double>{3, 12, 27, 48, 75});
    const auto delta =
        ls::detail::activation_delta<Cubic>(5, dx.data(), static_cast<const double*>(y.data()),
                                            static_cast<const double*>(slope.data()), false);
    CHECK(delta.dy == dx.data());
    CHECK(dx == std::vector<double>{3, 12, 0, -48, 150});
  });
}
