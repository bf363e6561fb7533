// Convolution with kernels of 3 x 3 by Winograd's algorithm: gradients of weights and bias.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/column_sums.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/product_layout.hpp"
#include "lockstep/kernels/tile.hpp"
#include "lockstep/kernels/transpose.hpp"
#include "lockstep/kernels/vector.hpp"
#include "lockstep/kernels/winograd_transform.hpp"

// With the matrices of the paper (see winograd_transform.hpp), Y = A^T [(G g G^T) * (B^T d B)] A, *
// being element by element. So the gradient of g is G^T [(A dY A^T) * (B^T d B)] G: the deltas of a
// tile, 2 x 2, are transformed to 16 numbers as well, and 16 sums of products over all tiles and
// samples are kept until the end.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// Scratch of the gradient; filters are padded to a multiple of 16.
template <class T>
struct WinogradGradientScratch {
  T* inputs = nullptr;      ///< of winograd_samples samples
  T* transposed = nullptr;  ///< deltas of a tile: [4][batch][filters]
  T* deltas = nullptr;      ///< transformed: [16][winograd_samples][filters], with a gap after each
  T* sums = nullptr;        ///< [16][channels][filters]

  WinogradGradientScratch(const ConvolutionSize& s, T* all) {
    const std::size_t filters = padded_columns(s.filters);
    inputs = all;
    transposed = inputs + winograd_inputs(s.channels);
    deltas = transposed + 4 * s.batch * filters;
    sums = deltas + 16 * delta_plane(filters);
  }
  /// (Not a power of two: see WinogradInputs::plane_size.)
  static constexpr std::size_t delta_plane(std::size_t padded_filters) noexcept {
    return winograd_samples * padded_filters + 16;
  }
};

}  // namespace detail

/// What a tile of 2 x 2 outputs adds to the sums, for kernels::dispatch.
template <class T>
struct WinogradTileGradient {
  const ConvolutionSize& size;
  std::size_t row = 0, column = 0;  ///< of the tile's first output
  const T* x = nullptr;
  detail::WinogradGradientScratch<T> scratch;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    for (std::size_t sample = 0; sample < size.batch; sample += detail::winograd_samples)
      add<Isa>(sample, std::min(detail::winograd_samples, size.batch - sample));
  }

 private:
  template <class Isa>
  LOCKSTEP_KERNEL void add(std::size_t sample, std::size_t samples) const {
    constexpr std::size_t n = lanes<T, Isa>;
    const std::size_t filters = padded_columns(size.filters);
    transform_deltas<Isa>(sample, samples, filters);
    detail::WinogradInputs<T> inputs{size, x, scratch.inputs};
    // As many samples at once in all segments: those of a multiple of 16 are.
    constexpr std::size_t C = n < 16 ? 2 : 1;
    constexpr std::size_t most = detail::winograd_samples / (C * n);
    const std::size_t plane = inputs.template plane_size<C * n>();
    Segment<T> segments[most];
    std::size_t count = 0;
    for (std::size_t i = 0; i < samples; i += C * n, inputs.to += 16 * plane) {
      inputs.template operator()<Isa, C>(row, column, sample + i);
      segments[count++] = {inputs.to, scratch.deltas + i * filters, C * n};
    }
    for (std::size_t i = 0; i < 16; ++i) {
      T* const sums = scratch.sums + i * size.channels * filters;
      std::size_t filter = 0;
      for (; filter + 2 * n <= filters; filter += 2 * n)
        multiply<Isa, detail::winograd_tile_rows<Isa>, 2>(segments, count, C * n, filter, sums,
                                                          sample, i);
      if constexpr (n == 16)
        if (filter < filters) multiply<Isa, 16, 1>(segments, count, C * n, filter, sums, sample, i);
      for (std::size_t s = 0; s < count; ++s) {
        segments[s].a += plane;
        segments[s].b += scratch.delta_plane(filters);
      }
    }
  }

  /// sums[channel][filter] += the products of number i, for C vectors of filters.
  template <class Isa, std::size_t R, std::size_t C>
  LOCKSTEP_KERNEL void multiply(const Segment<T>* segments, std::size_t count, std::size_t width,
                                std::size_t filter, T* sums, std::size_t sample,
                                std::size_t i) const {
    constexpr std::size_t n = lanes<T, Isa>;
    const std::size_t filters = padded_columns(size.filters), channels = size.channels;
    // Meanwhile what the next tile reads is fetched: 8 pixels, each dealt out to two numbers i and
    // all samples and channels.
    const std::size_t pixel =
        (row + i / 4 - size.pad_top) * size.width + column + 4 + i / 2 % 2 - size.pad_left;
    const bool inside = pixel < size.height * size.width;
    const T* const ahead = inside ? x + (pixel * size.batch + sample + i % 2 * 16) * channels : x;
    for (std::size_t channel = 0; channel < channels; channel += R) {
      const std::size_t valid = std::min(R, channels - channel);
      Vector<T, Isa> tile[R][C] = {};
      const char* const fetched = reinterpret_cast<const char*>(ahead + channel * 16);
      if (valid == R) [[likely]] {
        multiply_tile<Isa>(tile, segments, count, EvenRows<T, R>{width}, channel * width, filter, 1,
                           filters, fetched, cache_line);
      } else {
        RowsThatEnd<T, R> rows;
        for (std::size_t r = 0; r < R; ++r) rows.offsets[r] = std::min(r, valid - 1) * width;
        multiply_tile<Isa>(tile, segments, count, rows, channel * width, filter, 1, filters,
                           fetched, cache_line);
      }
      T* to = sums + channel * filters + filter;
#pragma GCC unroll 16
      for (std::size_t r = 0; r < R; ++r, to += filters) {
        if (r >= valid) break;
#pragma GCC unroll 2
        for (std::size_t c = 0; c < C; ++c) {
          Vector<T, Isa> sum;
          load(sum, to + c * n);
          sum += tile[r][c];
          store(to + c * n, sum);
        }
      }
    }
  }

  /// A dY A^T, filters innermost.
  template <class Isa>
  LOCKSTEP_KERNEL void transform_deltas(std::size_t sample, std::size_t samples,
                                        std::size_t filters) const {
    using P = Pack<T, Isa::vector_bytes>;
    const T* from = scratch.transposed + sample * filters;
    T* to = scratch.deltas;
    const std::size_t pixel = size.batch * filters, plane = scratch.delta_plane(filters);
    for (std::size_t i = 0; i < samples * filters; i += P::size, from += P::size, to += P::size) {
      P lines[2][4];
#pragma GCC unroll 2
      for (std::size_t line = 0; line < 2; ++line)
        along(P(from + 2 * line * pixel), P(from + (2 * line + 1) * pixel), lines[line]);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < 4; ++j) {
        P results[4];
        along(lines[0][j], lines[1][j], results);
#pragma GCC unroll 4
        for (std::size_t k = 0; k < 4; ++k) results[k].store(to + (k * 4 + j) * plane);
      }
    }
  }
  template <class P>
  LOCKSTEP_KERNEL static void along(const P& first, const P& second, P (&to)[4]) {
    to[0] = first;
    to[1] = first + second;
    to[2] = first - second;
    to[3] = -second;
  }
};

/// weight_gradient[tap][channel][filter] = G^T sums G, for kernels::dispatch.
template <class T>
struct WinogradWeightGradient {
  std::size_t channels = 0, filters = 0;
  const T* sums = nullptr;  ///< [16][channels][padded filters]
  T* weight_gradient = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const std::size_t padded = padded_columns(filters), plane = channels * padded;
    for (std::size_t channel = 0; channel < channels; ++channel)
      for (std::size_t filter = 0; filter < filters; filter += P::size) {
        const T* const from = sums + channel * padded + filter;
        P lines[3][4];
        for (std::size_t j = 0; j < 4; ++j)
          along(P(from + j * plane), P(from + (4 + j) * plane), P(from + (8 + j) * plane),
                P(from + (12 + j) * plane), lines[0][j], lines[1][j], lines[2][j]);
        for (std::size_t line = 0; line < 3; ++line) {
          P taps[3];
          along(lines[line][0], lines[line][1], lines[line][2], lines[line][3], taps[0], taps[1],
                taps[2]);
          for (std::size_t i = 0; i < 3; ++i)
            taps[i].store_first(
                weight_gradient + ((line * 3 + i) * channels + channel) * filters + filter,
                filters - filter);
        }
      }
  }

 private:
  template <class P>
  LOCKSTEP_KERNEL static void along(const P& m0, const P& m1, const P& m2, const P& m3, P& first,
                                    P& second, P& third) {
    const P half(T(0.5));
    const P sum = (m1 + m2) * half;
    first = m0 + sum;
    second = (m1 - m2) * half;
    third = sum + m3;
  }
};

/// Elements of scratch that winograd_weight_gradient needs.
[[nodiscard]] constexpr std::size_t winograd_weights_scratch(const ConvolutionSize& s) noexcept {
  const std::size_t filters = padded_columns(s.filters);
  return detail::winograd_inputs(s.channels) + 4 * s.batch * filters +
         16 * detail::WinogradGradientScratch<float>::delta_plane(filters) +
         16 * s.channels * filters;
}

/// As convolution_weight_gradient, where uses_winograd(s).
template <class T>
void winograd_weight_gradient(const ConvolutionSize& s, const T* x, const Delta<T>& delta,
                              T* weight_gradient, T* bias_gradient, T* all_scratch) {
  const detail::WinogradGradientScratch<T> scratch(s, all_scratch);
  const Panels panels{padded_columns(s.filters)};
  std::fill_n(scratch.sums, 16 * s.channels * panels.step, T(0));
  if (bias_gradient != nullptr) std::fill_n(bias_gradient, s.filters, T(0));
  if (s.batch > 0)
    for (std::size_t row = 0; row < s.out_height; row += 2)
      for (std::size_t column = 0; column < s.out_width; column += 2) {
        for (std::size_t i = 0; i < 4; ++i) {
          T* const to = scratch.transposed + i * s.batch * panels.step;
          if (row + i / 2 >= s.out_height || column + i % 2 >= s.out_width) {
            std::fill_n(to, s.batch * panels.step, T(0));
            continue;
          }
          const std::size_t first =
              ((row + i / 2) * s.out_width + column + i % 2) * s.filters * s.batch;
          const Delta<T> part{delta.dy + first, delta.y + first, delta.minimum,
                              delta.masked == nullptr ? nullptr : delta.masked + first};
          dispatch(Transpose<T>{part, s.filters, s.batch, to, panels});
        }
        if (bias_gradient != nullptr)
          dispatch(
              ColumnSums<T>{scratch.transposed, 4 * s.batch, s.filters, panels, bias_gradient});
        dispatch(WinogradTileGradient<T>{s, row, column, x, scratch});
      }
  dispatch(WinogradWeightGradient<T>{s.channels, s.filters, scratch.sums, weight_gradient});
}

LOCKSTEP_EXTERN(void winograd_weight_gradient<float>(const ConvolutionSize&, const float*,
                                                     const Delta<float>&, float*, float*, float*));
LOCKSTEP_EXTERN_DOUBLE(void winograd_weight_gradient<double>(const ConvolutionSize&, const double*,
                                                             const Delta<double>&, double*, double*,
                                                             double*));

}}}  // namespace lockstep::kernels
