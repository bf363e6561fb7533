#include "lockstep/kernels/bilinear.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::random_array;

TEST_CASE("bilinear kernels: a ramp stays a ramp, and the gradient is the transposed map") {
  lockstep_test::for_each_instruction_set([] {
    const kernels::BilinearSize size{
        .height = 3, .width = 4, .factor_down = 2, .factor_across = 3, .pixel = 32};
    const std::size_t small = 12 * 32, large = 72 * 32;
    Array<double> x(small), y(large), back(small);
    for (std::size_t i = 0; i < small; ++i) x[i] = static_cast<double>(i / 32 % 4);  // the column
    kernels::dispatch(kernels::Bilinear<double>{size, x.data(), y.data()});
    for (std::size_t i = 0; i < large; ++i) {
      const double column = (static_cast<double>(i / 32 % 12) + 0.5) / 3 - 0.5;
      CHECK(std::abs(y[i] - std::fmin(std::fmax(column, 0), 3)) < 1e-14);
    }
    std::mt19937 random(1);
    const Array<double> any = random_array<double>(small, random),
                        dy = random_array<double>(large, random);
    kernels::dispatch(kernels::Bilinear<double>{size, any.data(), y.data()});
    kernels::dispatch(kernels::BilinearGradient<double>{size, dy.data(), back.data()});
    double forward = 0, backward = 0;
    for (std::size_t i = 0; i < large; ++i) forward += y[i] * dy[i];
    for (std::size_t i = 0; i < small; ++i) backward += any[i] * back[i];
    CHECK(std::abs(forward - backward) < 1e-11);
  });
}
