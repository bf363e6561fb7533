// Convolution with kernels of 3 x 3 by Winograd's algorithm: forward and input gradient.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/tile.hpp"
#include "lockstep/kernels/vector.hpp"
#include "lockstep/kernels/winograd_transform.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// A row of tiles of 2 x 2 outputs, for kernels::dispatch.
template <class T>
struct WinogradTiles {
  const ConvolutionSize& size;
  std::size_t row = 0;  ///< of outputs: the first of two
  const T* x = nullptr;
  const T* weights = nullptr;  ///< as WinogradWeights leaves them
  const T* bias = nullptr;     ///< null: zero
  T minimum = -std::numeric_limits<T>::infinity();
  bool adds = false;  ///< to what y holds
  T* y = nullptr;
  T* inputs = nullptr;  ///< scratch: detail::winograd_inputs(channels)

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    constexpr std::size_t n = lanes<T, Isa>;
    for (std::size_t column = 0; column < size.out_width; column += 2) {
      std::size_t sample = 0;
      for (; sample + 2 * n <= size.batch; sample += 2 * n) add<Isa, 2>(column, sample);
      if constexpr (2 * n > 16)
        if (sample < size.batch) add<Isa, 1>(column, sample);
    }
  }

 private:
  template <class Isa, std::size_t C>
  LOCKSTEP_KERNEL void add(std::size_t column, std::size_t sample) const {
    using P = Pack<T, Isa::vector_bytes>;
    constexpr std::size_t R = detail::winograd_tile_rows<Isa>, n = P::size;
    const detail::WinogradInputs<T> transformed{size, x, inputs};
    transformed.template operator()<Isa, C>(row, column, sample);
    const std::size_t channels = size.channels;
    P products[16][R][C];
    for (std::size_t filter = 0; filter < size.filters; filter += R) {
      for (std::size_t i = 0; i < 16; ++i) {
        const Segment<T> segment{weights + (filter * 16 + i * R) * detail::winograd_room(channels),
                                 inputs + i * transformed.template plane_size<C * n>(), channels};
        Vector<T, Isa> sums[R][C] = {};
        multiply_tile<Isa>(sums, &segment, 1, EvenRows<T, R>{1}, 0, 0, R, C * n,
                           ahead<C, n>(filter == 0, i, column, sample), size.batch * sizeof(T));
#pragma GCC unroll 8
        for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 2
          for (std::size_t c = 0; c < C; ++c) products[i][r][c] = P(sums[r][c]);
      }
      transform_output<P, R, C>(products, column, sample, filter);
    }
  }

  /// A place that the next tile reads (else: writes), to be fetched while product i is computed.
  template <std::size_t C, std::size_t N>
  LOCKSTEP_KERNEL const char* ahead(bool reads, std::size_t i, std::size_t column,
                                    std::size_t sample) const {
    const std::size_t tile_row = i / C / 2 % (reads ? 4 : 2), tile_column = i / C % 2;
    const std::size_t part = sample + i % C * N;
    // (Before the first row it wraps.)
    if (reads)
      return begin_of(
          x, size.height * size.width, size.channels,
          (row + tile_row - size.pad_top) * size.width + column + 4 + tile_column - size.pad_left,
          part);
    return begin_of(y, size.out_height * size.out_width, size.filters,
                    (row + tile_row) * size.out_width + column + 2 + tile_column, part);
  }
  LOCKSTEP_KERNEL const char* begin_of(const T* image, std::size_t pixels, std::size_t features,
                                       std::size_t pixel, std::size_t part) const {
    return reinterpret_cast<const char*>(
        image + (pixel < pixels ? pixel * features * size.batch + part : 0));
  }

  template <class P, std::size_t R, std::size_t C>
  LOCKSTEP_KERNEL void transform_output(const P (&products)[16][R][C], std::size_t column,
                                        std::size_t sample, std::size_t filter) const {
    const std::size_t batch = size.batch, pixel = size.filters * batch,
                      line = size.out_width * pixel, rows = std::min(R, size.filters - filter);
    const bool two_rows = row + 1 < size.out_height, two_columns = column + 1 < size.out_width;
    const P least(minimum);
    const bool onto = adds;
    T* to = y + row * line + column * pixel + filter * batch + sample;
    for (std::size_t r = 0; r < rows; ++r, to += batch) {
      const P constant(bias == nullptr ? T(0) : bias[filter + r]);
#pragma GCC unroll 2
      for (std::size_t c = 0; c < C; ++c) {
        P first[4], second[4], pixels[4];
#pragma GCC unroll 4
        for (std::size_t j = 0; j < 4; ++j)
          outputs(products[j][r][c], products[4 + j][r][c], products[8 + j][r][c],
                  products[12 + j][r][c], first[j], second[j]);
        outputs(first[0], first[1], first[2], first[3], pixels[0], pixels[1]);
        outputs(second[0], second[1], second[2], second[3], pixels[2], pixels[3]);
        T* const at = to + c * P::size;
        if (onto) {
          pixels[0] += P(at);
          if (two_columns) pixels[1] += P(at + pixel);
          if (two_rows) {
            pixels[2] += P(at + line);
            if (two_columns) pixels[3] += P(at + line + pixel);
          }
        }
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 4; ++i) {
          pixels[i] += constant;
          pixels[i] = select(pixels[i] < least, least, pixels[i]);
        }
        pixels[0].store(at);
        if (two_columns) pixels[1].store(at + pixel);
        if (two_rows) {
          pixels[2].store(at + line);
          if (two_columns) pixels[3].store(at + line + pixel);
        }
      }
    }
  }

  /// A^T m along one dimension.
  template <class P>
  LOCKSTEP_KERNEL static void outputs(const P& m0, const P& m1, const P& m2, const P& m3, P& first,
                                      P& second) {
    first = m0 + m1 + m2;
    second = m1 - m2 - m3;
  }
};

/// Elements of scratch that winograd_forward and winograd_input_gradient need.
[[nodiscard]] constexpr std::size_t winograd_scratch(const ConvolutionSize& s) noexcept {
  return std::max(
      detail::winograd_inputs(s.channels) + detail::winograd_weights_size(s.filters, s.channels),
      detail::winograd_inputs(s.filters) + detail::winograd_weights_size(s.channels, s.filters));
}

namespace detail {

/// `s`: of x and y. The weights may be turned round.
template <class T>
void winograd(const ConvolutionSize& s, const T* x, WinogradWeights<T> weights, const T* bias,
              T minimum, bool adds, T* y, T* scratch) {
  if (s.batch == 0) return;
  weights.to = scratch + winograd_inputs(s.channels);
  dispatch(weights);
  for (std::size_t row = 0; row < s.out_height; row += 2)
    dispatch(WinogradTiles<T>{s, row, x, weights.to, bias, minimum, adds, y, scratch});
}

}  // namespace detail

/// As convolution_forward, where uses_winograd(s): y = max(bias + x convolved with weights,
/// minimum).
template <class T>
void winograd_forward(const ConvolutionSize& s, const T* x, const T* weights, const T* bias,
                      T minimum, T* y, T* scratch) {
  detail::winograd<T>(s, x, {s.channels, s.filters, false, weights}, bias, minimum, false, y,
                      scratch);
}

/// As convolution_input_gradient, where uses_winograd(s).
template <class T>
void winograd_input_gradient(const ConvolutionSize& s, const T* weights, const T* dy, T* dx,
                             T* scratch, bool adds = false) {
  detail::winograd<T>(detail::turned_round(s), dy, {s.channels, s.filters, true, weights}, nullptr,
                      -std::numeric_limits<T>::infinity(), adds, dx, scratch);
}

LOCKSTEP_EXTERN(void winograd_forward<float>(const ConvolutionSize&, const float*, const float*,
                                             const float*, float, float*, float*));
LOCKSTEP_EXTERN(void winograd_input_gradient<float>(const ConvolutionSize&, const float*,
                                                    const float*, float*, float*, bool));
LOCKSTEP_EXTERN_DOUBLE(void winograd_forward<double>(const ConvolutionSize&, const double*,
                                                     const double*, const double*, double, double*,
                                                     double*));
LOCKSTEP_EXTERN_DOUBLE(void winograd_input_gradient<double>(const ConvolutionSize&, const double*,
                                                            const double*, double*, double*, bool));

}}}  // namespace lockstep::kernels
