// Winograd's algorithm: transformations of inputs and weights, convolution and its gradients.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/column_sums.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/product_layout.hpp"
#include "lockstep/kernels/tile.hpp"
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
  if (s.is_volume() || s.kernel_height != 3 || s.kernel_width != 3 ||
      !once(s.stride_height, s.stride_width) || !once(s.dilation_height, s.dilation_width) ||
      s.groups != 1 || s.pad_top > 2 || s.pad_left > 2 || s.channels < 16 || s.filters < 16)
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
/// Elements that `inner` weights of a row take. (Not a power of two: the 16 numbers of a
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

// With the matrices of the paper (see above), Y = A^T [(G g G^T) * (B^T d B)] A, *
// being element by element. So the gradient of g is G^T [(A dY A^T) * (B^T d B)] G: the deltas of a
// tile, 2 x 2, are transformed to 16 numbers as well, and 16 sums of products over all tiles and
// samples are kept until the end.

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
