// What Winograd's algorithm makes of the inputs and the weights of a convolution.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/transpose.hpp"
#include "lockstep/kernels/vector.hpp"

// Lavin, Gray, "Fast algorithms for convolutional neural networks", CVPR 2016, F(2 x 2, 3 x 3):
// a tile of 2 x 2 outputs takes 16 multiplications for each channel and filter, where a plain sum
// takes 36. The 4 x 4 inputs that the tile sees, and the 3 x 3 weights, are each transformed to 16
// numbers (sums and differences). These are multiplied one by one, and the products summed over the
// channels; each of the four outputs is a sum of some of the 16 results. No factor in these
// transformations is larger than 1, so that rounding errors are about those of a plain sum.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Whether Winograd's algorithm is used: where it takes at most three quarters of the
/// multiplications, and there are enough channels and filters for the transformations to pay.
[[nodiscard]] constexpr bool uses_winograd(const ConvolutionSize& s) noexcept {
  const auto once = [](std::size_t a, std::size_t b) { return a == 1 && b == 1; };
  if (s.kernel_height != 3 || s.kernel_width != 3 || !once(s.stride_height, s.stride_width) ||
      !once(s.dilation_height, s.dilation_width) || s.groups != 1 || s.pad_top > 2 ||
      s.pad_left > 2 || s.channels < 16 || s.filters < 16)
    return false;
  std::size_t rows = 0, columns = 0;  // of the taps that lie inside
  for (std::size_t row = 0; row < s.out_height; ++row)
    rows += taps_inside(row, s.pad_top, 3, s.height).size();
  for (std::size_t column = 0; column < s.out_width; ++column)
    columns += taps_inside(column, s.pad_left, 3, s.width).size();
  const std::size_t tiles = (s.out_height + 1) / 2 * ((s.out_width + 1) / 2);
  return 4 * 16 * tiles <= 3 * rows * columns;
}

namespace detail {

/// The most samples of one tile: as many vectors as a register tile is wide.
inline constexpr std::size_t winograd_samples = 32;
/// Elements of the transformed input of a tile.
[[nodiscard]] constexpr std::size_t winograd_inputs(std::size_t channels) noexcept {
  return 16 * (channels + 1) * winograd_samples;
}
/// `inner` weights of each row take the room of so many. (Not a power of two: the 16 numbers of a
/// weight would all fall into one set of the first-level cache.)
[[nodiscard]] constexpr std::size_t winograd_room(std::size_t inner) noexcept { return inner + 4; }
/// Rows of transformed weights: padded to whole register tiles, whatever the instruction set.
[[nodiscard]] constexpr std::size_t winograd_rows(std::size_t rows) noexcept {
  return (rows + 7) / 8 * 8;
}
/// Elements of all transformed weights.
[[nodiscard]] constexpr std::size_t winograd_weights_size(std::size_t rows,
                                                          std::size_t inner) noexcept {
  return 16 * winograd_room(inner) * winograd_rows(rows);
}
template <class Isa>
inline constexpr std::size_t winograd_tile_rows = Isa::registers == 32 ? 8 : 4;

/// The input gradient is a convolution too: of the deltas, with the kernel turned round.
[[nodiscard]] constexpr ConvolutionSize turned_round(const ConvolutionSize& s) noexcept {
  ConvolutionSize turned = s;
  turned.height = s.out_height;
  turned.width = s.out_width;
  turned.channels = s.filters;
  turned.out_height = s.height;
  turned.out_width = s.width;
  turned.filters = s.channels;
  turned.pad_top = 2 - s.pad_top;
  turned.pad_left = 2 - s.pad_left;
  return turned;
}

/// t = B^T d of the four d along one dimension of the input.
template <class P>
LOCKSTEP_KERNEL void winograd_input(const P& d0, const P& d1, const P& d2, const P& d3, P& t0,
                                    P& t1, P& t2, P& t3) {
  t0 = d0 - d2;
  t1 = d1 + d2;
  t2 = d2 - d1;
  t3 = d1 - d3;
}

/// to[16][channel][samples] = the transformed inputs of a tile: of the 4 x 4 pixels that 2 x 2
/// outputs see, zero where these lie outside.
template <class T>
struct WinogradInputs {
  const ConvolutionSize& size;
  const T* x = nullptr;
  T* to = nullptr;  ///< winograd_inputs(channels)

  /// C vectors of samples from `sample` on; (row, column): the first of the outputs.
  template <class Isa, std::size_t C>
  LOCKSTEP_KERNEL void operator()(std::size_t row, std::size_t column, std::size_t sample) const {
    // (Below zero they wrap.)
    const std::size_t first_row = row - size.pad_top, first_column = column - size.pad_left;
    if (first_row < size.height && first_row + 4 <= size.height && first_column < size.width &&
        first_column + 4 <= size.width)
      transform<Isa, C, true>(first_row, first_column, sample);
    else
      transform<Isa, C, false>(first_row, first_column, sample);
  }

  /// From one of the 16 inputs of a channel to the next one. (Not a power of two: they would all
  /// fall into one set of the first-level cache.)
  template <std::size_t Width>
  [[nodiscard]] constexpr std::size_t plane_size() const {
    return (size.channels + 1) * Width;
  }

 private:
  template <class Isa, std::size_t C, bool Inside>
  LOCKSTEP_KERNEL void transform(std::size_t first_row, std::size_t first_column,
                                 std::size_t sample) const {
    using P = Pack<T, Isa::vector_bytes>;
    constexpr std::size_t n = P::size;
    const std::size_t channels = size.channels, batch = size.batch, pixel = channels * batch,
                      line = size.width * pixel, height = size.height, width = size.width;
    std::size_t from = first_row * line + first_column * pixel + sample;  // (may wrap)
    T* next = to;
    const std::size_t plane = plane_size<C * n>();
    for (std::size_t channel = 0; channel < channels; ++channel, from += batch, next += C * n)
#pragma GCC unroll 2
      for (std::size_t c = 0; c < C; ++c) {
        P t[4][4];
#pragma GCC unroll 4
        for (std::size_t j = 0; j < 4; ++j) {
          P d[4];
#pragma GCC unroll 4
          for (std::size_t i = 0; i < 4; ++i)
            if (Inside || (first_row + i < height && first_column + j < width))
              d[i] = P(x + (from + i * line + j * pixel + c * n));
            else
              d[i] = P(T(0));
          detail::winograd_input(d[0], d[1], d[2], d[3], t[0][j], t[1][j], t[2][j], t[3][j]);
        }
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 4; ++i) {
          P v[4];
          detail::winograd_input(t[i][0], t[i][1], t[i][2], t[i][3], v[0], v[1], v[2], v[3]);
#pragma GCC unroll 4
          for (std::size_t j = 0; j < 4; ++j) v[j].store(next + (i * 4 + j) * plane + c * n);
        }
      }
  }
};

/// t = G g of the three weights g along one dimension of the kernel.
template <class P>
LOCKSTEP_KERNEL void winograd_weights(const P& g0, const P& g1, const P& g2, P (&t)[4]) {
  const P half(typename P::value_type(0.5));
  const P outer = (g0 + g2) * half, inner = g1 * half;
  t[0] = g0;
  t[1] = outer + inner;
  t[2] = outer - inner;
  t[3] = g2;
}

/// to[block of rows][16][winograd_room(inner)][row of the block] = the transformed weights, for
/// kernels::dispatch. Weights are [tap][channel][filter]; rows are filters and `inner` channels, or
/// with `turned` the other way round, and the taps last to first.
template <class T>
struct WinogradWeights {
  std::size_t channels = 0, filters = 0;
  bool turned = false;
  const T* weights = nullptr;
  T* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    constexpr std::size_t R = winograd_tile_rows<Isa>;
    const std::size_t rows = turned ? channels : filters, inner = turned ? filters : channels;
    const std::size_t plane = winograd_room(inner) * R;
    T* block = to;
    for (std::size_t row = 0; row < rows; row += R, block += 16 * plane)
      for (std::size_t k = 0; k < inner; k += R) {
        typename Pack<T, R * sizeof(T)>::Vector taps[9][R];  // rows innermost
        for (std::size_t tap = 0; tap < 9; ++tap)
          load_tap(tap, row, k, taps[turned ? 8 - tap : tap]);
        for (std::size_t i = 0; i < std::min(R, inner - k); ++i)
          transform(taps, i, block + (k + i) * R, plane);
      }
  }

 private:
  /// R rows for each of R inner ones; those beyond the last one are zero.
  template <class V, std::size_t R>
  LOCKSTEP_KERNEL void load_tap(std::size_t tap, std::size_t row, std::size_t k,
                                V (&to_rows)[R]) const {
    const std::size_t channel = turned ? row : k, filter = turned ? k : row;
    const T* const from = weights + (tap * channels + channel) * filters + filter;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < R; ++i) {
      to_rows[i] = V{};
      if (channel + i < channels) load_first(to_rows[i], from + i * filters, filters - filter);
    }
    if (turned) transpose_block(to_rows);
  }

  template <class V, std::size_t R>
  LOCKSTEP_KERNEL void transform(const V (&taps)[9][R], std::size_t i, T* at,
                                 std::size_t plane) const {
    using P = Pack<T, sizeof(V)>;
    P lines[3][4];
#pragma GCC unroll 3
    for (std::size_t line = 0; line < 3; ++line)
      winograd_weights(P(taps[line * 3][i]), P(taps[line * 3 + 1][i]), P(taps[line * 3 + 2][i]),
                       lines[line]);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) {
      P column[4];
      winograd_weights(lines[0][j], lines[1][j], lines[2][j], column);
#pragma GCC unroll 4
      for (std::size_t n = 0; n < 4; ++n) column[n].store(at + (n * 4 + j) * plane);
    }
  }
};

}  // namespace detail
}}}  // namespace lockstep::kernels
