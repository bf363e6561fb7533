#include "lockstep/kernels/winograd.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>

#include "kernels/convolution_testing.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/vector.hpp"
#include "support/instruction_sets.hpp"

namespace kernels = lockstep::kernels;
using kernels::ConvolutionSize;
using kernels::uses_winograd;
using lockstep_test::Array;
using lockstep_test::convolution_size;
using lockstep_test::random_array;

namespace {

template <std::size_t Rows, std::size_t Columns>
using Matrix = std::array<std::array<double, Columns>, Rows>;

/// m * a * transpose of m
template <std::size_t Rows, std::size_t Inner>
Matrix<Rows, Rows> on_both_sides(const Matrix<Rows, Inner>& m, const Matrix<Inner, Inner>& a) {
  Matrix<Rows, Rows> result{};
  for (std::size_t i = 0; i < Rows; ++i)
    for (std::size_t j = 0; j < Rows; ++j)
      for (std::size_t k = 0; k < Inner; ++k)
        for (std::size_t l = 0; l < Inner; ++l) result[i][j] += m[i][k] * a[k][l] * m[j][l];
  return result;
}

// Lavin, Gray: equation (5).
constexpr Matrix<4, 4> input_matrix{{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}};
constexpr Matrix<4, 3> weight_matrix{{{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}}};

}  // namespace

TEST_CASE("Winograd: which convolutions") {
  constexpr std::size_t batch = 16;
  CHECK(uses_winograd(convolution_size(32, 32, 16, 16, 3, 1, 1, batch)));
  CHECK(uses_winograd(convolution_size(8, 8, 64, 128, 3, 1, 0, batch)));
  CHECK(uses_winograd(convolution_size(4, 4, 16, 16, 3, 1, 1, batch)));
  CHECK(uses_winograd(convolution_size(7, 7, 16, 16, 3, 1, 1, batch)));
  // Many taps lie outside, or half a tile does.
  CHECK_FALSE(uses_winograd(convolution_size(2, 2, 16, 16, 3, 1, 1, batch)));
  CHECK_FALSE(uses_winograd(convolution_size(3, 3, 256, 256, 3, 1, 1, batch)));
  CHECK_FALSE(uses_winograd(convolution_size(5, 5, 16, 16, 3, 1, 1, batch)));
  CHECK_FALSE(uses_winograd(convolution_size(28, 28, 1, 32, 3, 1, 0, batch)));
  CHECK_FALSE(uses_winograd(convolution_size(32, 32, 15, 16, 3, 1, 1, batch)));
  CHECK_FALSE(uses_winograd(convolution_size(32, 32, 16, 15, 3, 1, 1, batch)));
  CHECK_FALSE(uses_winograd(convolution_size(32, 32, 16, 16, 3, 2, 1, batch)));
  CHECK_FALSE(uses_winograd(convolution_size(32, 32, 16, 16, 5, 1, 2, batch)));
  CHECK_FALSE(uses_winograd(convolution_size(32, 32, 16, 16, 3, 1, 1, batch, 2)));
  CHECK_FALSE(uses_winograd(convolution_size(32, 32, 16, 16, 3, 1, 2, batch, 1, 2)));
}

TEST_CASE("Winograd: transformed inputs") {
  lockstep_test::for_each_instruction_set([] {
    const ConvolutionSize s = convolution_size(5, 6, 3, 2, 3, 1, 1, 16);
    std::mt19937 random(1);
    const Array<double> x = random_array<double>(s.height * s.width * s.channels * s.batch, random);
    for (std::size_t row = 0; row < s.out_height; row += 2)
      for (std::size_t column = 0; column < s.out_width; column += 2) {
        const Array<double> to(kernels::detail::winograd_inputs(s.channels), 7.0);
        double error = 0;
        kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
          constexpr std::size_t n = kernels::lanes<double, Isa>;
          const kernels::detail::WinogradInputs<double> inputs{s, x.data(), to.data()};
          inputs.template operator()<Isa, 1>(row, column, 16 - n);
          const std::size_t plane = inputs.template plane_size<n>();
          for (std::size_t channel = 0; channel < s.channels; ++channel)
            for (std::size_t lane = 0; lane < n; ++lane) {
              Matrix<4, 4> d{};
              for (std::size_t i = 0; i < 4; ++i)
                for (std::size_t j = 0; j < 4; ++j) {
                  const std::size_t r = row + i - 1, c = column + j - 1;  // wraps below 0
                  if (r < s.height && c < s.width)
                    d[i][j] =
                        x[((r * s.width + c) * s.channels + channel) * s.batch + 16 - n + lane];
                }
              const Matrix<4, 4> expected = on_both_sides(input_matrix, d);
              for (std::size_t i = 0; i < 16; ++i)
                error = std::max(
                    error, std::abs(to[i * plane + channel * n + lane] - expected[i / 4][i % 4]));
            }
        });
        CHECK(error < 1e-14);
      }
  });
}

TEST_CASE("Winograd: transformed weights") {
  lockstep_test::for_each_instruction_set([] {
    constexpr std::size_t channels = 5, filters = 11;
    std::mt19937 random(1);
    const Array<double> w = random_array<double>(9 * channels * filters, random);
    for (const bool turned : {false, true}) {
      const std::size_t rows = turned ? channels : filters, inner = turned ? filters : channels;
      const std::size_t room = kernels::detail::winograd_room(inner);
      const Array<double> to(kernels::detail::winograd_weights_size(rows, inner), 7.0);
      kernels::dispatch(
          kernels::detail::WinogradWeights<double>{channels, filters, turned, w.data(), to.data()});
      double error = 0;
      kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
        constexpr std::size_t block = kernels::detail::winograd_tile_rows<Isa>;
        for (std::size_t channel = 0; channel < channels; ++channel)
          for (std::size_t filter = 0; filter < filters; ++filter) {
            Matrix<3, 3> g{};
            for (std::size_t tap = 0; tap < 9; ++tap)
              g[tap / 3][tap % 3] =
                  w[((turned ? 8 - tap : tap) * channels + channel) * filters + filter];
            const Matrix<4, 4> expected = on_both_sides(weight_matrix, g);
            const std::size_t row = turned ? channel : filter, k = turned ? filter : channel;
            for (std::size_t i = 0; i < 16; ++i)
              error = std::max(
                  error, std::abs(to[((row / block * 16 + i) * room + k) * block + row % block] -
                                  expected[i / 4][i % 4]));
          }
      });
      CHECK(error < 1e-14);
    }
  });
}
