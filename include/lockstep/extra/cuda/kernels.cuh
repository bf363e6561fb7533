// The kernels of device layers: bodies that nvcc compiles for a GPU, and any compiler for the
// processor.
#pragma once

#if defined(__CUDACC__)
#define LOCKSTEP_DEVICE __host__ __device__ __forceinline__
#else
#define LOCKSTEP_DEVICE inline
#endif

#include <array>
#include <cmath>

// A kernel K is a copyable struct of numbers and pointers, with
//   K::threads            of a block
//   K::Shared             what the threads of a block share
//   kernel.blocks()       how many there are
//   kernel(lane, shared)  what one thread does. It has lane.thread, lane.block, and lane.barrier(),
//                         which all threads of a block call equally often.
// A block sees nothing of another. Sums have an order that depends on sizes alone.
//
// Arrays are lockstep's: activations [feature][sample], the samples padded to `stride`.
// (No other header of lockstep here: nvcc does not compile them.)

namespace lockstep::cuda {

using Index = unsigned long long;

/// What tells the graphs of a device apart: what was recorded, and with which arrays and sizes.
using GraphKey = std::array<Index, 8>;

[[nodiscard]] LOCKSTEP_DEVICE constexpr unsigned divide_up(Index n, unsigned by) {
  return static_cast<unsigned>((n + by - 1) / by);
}

struct Nothing {};

/// An activation whose gradient can be told from its value.
enum class Function : unsigned char { linear, relu, sigmoid, tanh };

[[nodiscard]] LOCKSTEP_DEVICE float value_of(Function function, float x) {
  switch (function) {
    case Function::relu:
      return x < 0 ? 0 : x;
    case Function::sigmoid:
      return 1 / (1 + expf(-x));
    case Function::tanh:
      return tanhf(x);
    default:
      return x;
  }
}
[[nodiscard]] LOCKSTEP_DEVICE float gradient_of(Function function, float dy, float y) {
  switch (function) {
    case Function::relu:
      return y <= 0 ? 0 : dy;
    case Function::sigmoid:
      return dy * (y * (1 - y));
    case Function::tanh:
      return dy * (1 - y * y);
    default:
      return dy;
  }
}

// --- products ---

/// What lies at data[row * row_step + column * column_step].
struct Matrix {
  const float* data;
  Index row_step, column_step;
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(unsigned row, unsigned column) const {
    return data[row * row_step + column * column_step];
  }
};

/// Images and a window that slides over them.
struct Sliding {
  unsigned height, width, channels;  ///< of the input
  unsigned out_height, out_width, filters;
  unsigned kernel_height, kernel_width, stride_height, stride_width, pad_top, pad_left;
  unsigned stride;  ///< of the samples

  /// Where tap (ky, kx) of output position (oy, ox) reads; negative: outside.
  [[nodiscard]] LOCKSTEP_DEVICE long long pixel(unsigned oy, unsigned ox, unsigned ky,
                                                unsigned kx) const {
    const long long y = static_cast<long long>(oy) * stride_height + ky - pad_top;
    const long long x = static_cast<long long>(ox) * stride_width + kx - pad_left;
    return y < 0 || x < 0 || y >= height || x >= width ? -1 : y * width + x;
  }
};

/// x as a matrix [taps x channels][output positions x samples].
struct Patches {
  Sliding s;
  const float* x;
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(unsigned tap_channel, unsigned column) const {
    const unsigned position = column / s.stride, sample = column % s.stride;
    const unsigned tap = tap_channel / s.channels, channel = tap_channel % s.channels;
    const long long pixel = s.pixel(position / s.out_width, position % s.out_width,
                                    tap / s.kernel_width, tap % s.kernel_width);
    return pixel < 0 ? 0
                     : x[(static_cast<Index>(pixel) * s.channels + channel) * s.stride + sample];
  }
};

/// The same, transposed.
struct TransposedPatches {
  Patches patches;
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(unsigned column, unsigned tap_channel) const {
    return patches(tap_channel, column);
  }
};

/// y as a matrix [filters][positions x samples].
struct Features {
  const float* y;
  unsigned filters, stride;
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(unsigned filter, unsigned column) const {
    return y[(static_cast<Index>(column / stride) * filters + filter) * stride + column % stride];
  }
};
struct TransposedFeatures {
  Features features;
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(unsigned column, unsigned filter) const {
    return features(filter, column);
  }
};

/// What reaches an input pixel: dy as a matrix [taps x filters][input positions x samples].
struct Scattered {
  Sliding s;
  const float* dy;
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(unsigned tap_filter, unsigned column) const {
    const unsigned position = column / s.stride, sample = column % s.stride;
    const unsigned tap = tap_filter / s.filters, filter = tap_filter % s.filters;
    const unsigned y = position / s.width + s.pad_top, x = position % s.width + s.pad_left;
    const unsigned ky = tap / s.kernel_width, kx = tap % s.kernel_width;
    if (y < ky || x < kx || (y - ky) % s.stride_height != 0 || (x - kx) % s.stride_width != 0)
      return 0;
    const unsigned oy = (y - ky) / s.stride_height, ox = (x - kx) / s.stride_width;
    if (oy >= s.out_height || ox >= s.out_width) return 0;
    return dy[((static_cast<Index>(oy) * s.out_width + ox) * s.filters + filter) * s.stride +
              sample];
  }
};
/// The kernel as a matrix [channels][taps x filters].
struct TransposedKernel {
  const float* kernel;
  unsigned channels, filters;
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(unsigned channel, unsigned tap_filter) const {
    const unsigned tap = tap_filter / filters, filter = tap_filter % filters;
    return kernel[(static_cast<Index>(tap) * channels + channel) * filters + filter];
  }
};

/// Where a product goes: function(value + bias[row]), or value alone.
struct Rows {
  float* data;
  Index row_step, column_step;
  const float* bias;
  Function function;
  LOCKSTEP_DEVICE void operator()(unsigned row, unsigned column, float value) const {
    data[row * row_step + column * column_step] =
        value_of(function, bias == nullptr ? value : value + bias[row]);
  }
};
struct FeatureRows {
  float* y;
  unsigned filters, stride;
  const float* bias;
  Function function;
  LOCKSTEP_DEVICE void operator()(unsigned filter, unsigned column, float value) const {
    y[(static_cast<Index>(column / stride) * filters + filter) * stride + column % stride] =
        value_of(function, bias == nullptr ? value : value + bias[filter]);
  }
};

/// C[rows x columns] = A[rows x inner] B[inner x columns]. `splits` parts of the inner extent are
/// summed apart: then their sums go to `partial`, [splits][rows][columns], and SumOfParts follows.
/// `ColumnsOfA`: neighbouring threads read neighbouring columns of A, else rows; RowsOfB likewise.
template <class A, class B, class C, bool ColumnsOfA, bool RowsOfB>
struct Product {
  A a;
  B b;
  C c;
  unsigned rows, columns, inner, splits;
  float* partial;

  static constexpr unsigned tile = 64, depth = 32, threads = 256, each = 4;
  struct Shared {
    alignas(16) float a[depth][tile + 4], b[depth][tile + 4];
  };

  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    return static_cast<Index>(divide_up(rows, tile)) * divide_up(columns, tile) * splits;
  }

  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const unsigned column_tiles = divide_up(columns, tile), row_tiles = divide_up(rows, tile);
    const unsigned split = lane.block / (column_tiles * row_tiles);
    const unsigned place = lane.block % (column_tiles * row_tiles);
    const unsigned row0 = place / column_tiles * tile, column0 = place % column_tiles * tile;
    const unsigned steps = divide_up(inner, depth);
    const unsigned begin = static_cast<unsigned>(static_cast<Index>(steps) * split / splits);
    const unsigned end = static_cast<unsigned>(static_cast<Index>(steps) * (split + 1) / splits);
    const unsigned own_row = lane.thread / (tile / each) * each;
    const unsigned own_column = lane.thread % (tile / each) * each;
    constexpr unsigned loads = tile * depth / threads;
    float next_a[loads], next_b[loads], sum[each][each] = {};
    const auto load = [&](unsigned step) {
      for (unsigned i = 0; i < loads; ++i) {
        const unsigned at = lane.thread + i * threads, from = step * depth;
        const unsigned ka = ColumnsOfA ? at % depth : at / tile;
        const unsigned row = ColumnsOfA ? at / depth : at % tile;
        const unsigned kb = RowsOfB ? at % depth : at / tile;
        const unsigned column = RowsOfB ? at / depth : at % tile;
        next_a[i] = row0 + row < rows && from + ka < inner ? a(row0 + row, from + ka) : 0;
        next_b[i] =
            column0 + column < columns && from + kb < inner ? b(from + kb, column0 + column) : 0;
      }
    };
    if (begin < end) load(begin);
    for (unsigned step = begin; step < end; ++step) {
      for (unsigned i = 0; i < loads; ++i) {
        const unsigned at = lane.thread + i * threads;
        if (ColumnsOfA)
          shared.a[at % depth][at / depth] = next_a[i];
        else
          shared.a[at / tile][at % tile] = next_a[i];
        if (RowsOfB)
          shared.b[at % depth][at / depth] = next_b[i];
        else
          shared.b[at / tile][at % tile] = next_b[i];
      }
      lane.barrier();
      if (step + 1 < end) load(step + 1);
      for (unsigned k = 0; k < depth; ++k) {
        float x[each], y[each];
        for (unsigned i = 0; i < each; ++i) x[i] = shared.a[k][own_row + i];
        for (unsigned j = 0; j < each; ++j) y[j] = shared.b[k][own_column + j];
        for (unsigned i = 0; i < each; ++i)
          for (unsigned j = 0; j < each; ++j) sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
      }
      lane.barrier();
    }
    for (unsigned i = 0; i < each; ++i)
      for (unsigned j = 0; j < each; ++j) {
        const unsigned row = row0 + own_row + i, column = column0 + own_column + j;
        if (row >= rows || column >= columns) continue;
        if (splits == 1)
          c(row, column, sum[i][j]);
        else
          partial[(static_cast<Index>(split) * rows + row) * columns + column] = sum[i][j];
      }
  }
};

/// The sums of a Product in parts become C.
template <class C>
struct SumOfParts {
  C c;
  unsigned rows, columns, parts;
  const float* partial;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    return divide_up(static_cast<Index>(rows) * columns, threads);
  }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Index size = static_cast<Index>(rows) * columns;
    const Index at = static_cast<Index>(lane.block) * threads + lane.thread;
    if (at >= size) return;
    float sum = 0;
    for (unsigned part = 0; part < parts; ++part) sum += partial[part * size + at];
    c(static_cast<unsigned>(at / columns), static_cast<unsigned>(at % columns), sum);
  }
};

// --- sums over the threads of a block ---

template <unsigned Threads, class T>
struct SumsOf {
  T values[Threads];

  /// The sum of what each thread gives, for all of them.
  template <class Lane>
  LOCKSTEP_DEVICE T operator()(const Lane& lane, T value) {
    lane.barrier();  // all have read the last sum
    values[lane.thread] = value;
    for (unsigned half = Threads / 2; half > 0; half /= 2) {
      lane.barrier();
      if (lane.thread < half) values[lane.thread] += values[lane.thread + half];
    }
    lane.barrier();
    return values[0];
  }
};

/// dy becomes the gradient of what went into the activation, and its sums over samples and a part
/// of the positions go to sums[part][feature]: of [position][feature][sample]. A block sums one
/// feature over one part.
struct ActivationGradient {
  Function function;
  const float* y;
  float* dy;
  float* sums;  ///< null: none are wanted
  unsigned positions, features, stride, parts;

  static constexpr unsigned threads = 128;
  using Shared = SumsOf<threads, float>;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    return static_cast<Index>(features) * parts;
  }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const unsigned feature = lane.block % features, part = lane.block / features;
    const unsigned begin = static_cast<unsigned>(static_cast<Index>(positions) * part / parts);
    const unsigned end = static_cast<unsigned>(static_cast<Index>(positions) * (part + 1) / parts);
    float sum = 0;
    for (unsigned i = lane.thread; i < (end - begin) * stride; i += threads) {
      const Index at =
          (static_cast<Index>(begin + i / stride) * features + feature) * stride + i % stride;
      const float gradient =
          function == Function::linear ? dy[at] : gradient_of(function, dy[at], y[at]);
      if (function != Function::linear) dy[at] = gradient;
      sum += gradient;
    }
    if (sums == nullptr) return;
    sum = shared(lane, sum);
    if (lane.thread == 0) sums[static_cast<Index>(part) * features + feature] = sum;
  }
};

/// y = function(x).
struct Activate {
  Function function;
  const float* x;
  float* y;
  Index size;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return divide_up(size, threads); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Index at = static_cast<Index>(lane.block) * threads + lane.thread;
    if (at < size) y[at] = value_of(function, x[at]);
  }
};
/// dx = the gradient of y = function(x).
struct ActivateGradient {
  Function function;
  const float *y, *dy;
  float* dx;
  Index size;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return divide_up(size, threads); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Index at = static_cast<Index>(lane.block) * threads + lane.thread;
    if (at < size) dx[at] = gradient_of(function, dy[at], y[at]);
  }
};

/// An activation whose gradient cannot be told from its value, or that is not worth a place in
/// each product: its derivatives are kept.
enum class KeptFunction : unsigned char { gelu, gelu_tanh, silu, elu, leaky_relu };

/// y = function(x), and slope = its derivative at x; y may be x.
struct ActivateAndKeep {
  KeptFunction function;
  float parameter;  ///< of LeakyReLU: the slope below 0
  const float* x;
  float *y, *slope;
  Index size;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return divide_up(size, threads); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Index at = static_cast<Index>(lane.block) * threads + lane.thread;
    if (at >= size) return;
    const Result result = of(x[at]);
    y[at] = result.value;
    slope[at] = result.slope;
  }

  struct Result {
    float value, slope;
  };
  [[nodiscard]] LOCKSTEP_DEVICE Result of(float in) const {
    switch (function) {
      case KeptFunction::gelu: {
        const float probability = 0.5f * erfcf(in * -0.70710678f);
        const float density = 0.39894228f * expf(-0.5f * in * in);
        return {in * probability, probability + in * density};
      }
      case KeptFunction::gelu_tanh: {
        constexpr float linear = 1.5957691f, cubic = linear * 0.044715f, farthest = 24;
        const float near = in > farthest ? farthest : in < -farthest ? -farthest : in;
        const Result l = logistic(near * fmaf(near * near, cubic, linear));
        return {in * l.value, fmaf(near * l.slope, fmaf(near * near, 3 * cubic, linear), l.value)};
      }
      case KeptFunction::silu: {
        const Result l = logistic(in);
        return {in * l.value, fmaf(in, l.slope, l.value)};
      }
      case KeptFunction::elu: {
        const float below = expm1f(in > 0 ? 0 : in);
        return {in > 0 ? in : below, in > 0 ? 1 : below + 1};
      }
      default:
        return {in > 0 ? in : in * parameter, in > 0 ? 1 : parameter};
    }
  }
  /// 1 / (1 + e^-x) and its derivative, both without cancellation.
  [[nodiscard]] LOCKSTEP_DEVICE static Result logistic(float in) {
    const float small = expf(in < 0 ? in : -in), large_side = 1 / (1 + small);
    return {in < 0 ? small * large_side : large_side, small * large_side * large_side};
  }
};

// --- pooling ---

/// The largest or the mean value of each window; those outside the image do not count.
template <bool Max>
struct Pool {
  Sliding s;  ///< channels only; filters are channels
  const float* x;
  float* y;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    return divide_up(static_cast<Index>(s.out_height) * s.out_width * s.channels * s.stride,
                     threads);
  }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Index at = static_cast<Index>(lane.block) * threads + lane.thread;
    const Index row = static_cast<Index>(s.channels) * s.stride;
    if (at >= static_cast<Index>(s.out_height) * s.out_width * row) return;
    const unsigned position = static_cast<unsigned>(at / row);
    y[at] = window(position / s.out_width, position % s.out_width, at % row).result();
  }

  struct Window {
    float largest, sum;
    unsigned count;
    long long first;  ///< pixel of the first largest value
    [[nodiscard]] LOCKSTEP_DEVICE float result() const {
      return Max ? largest : sum / static_cast<float>(count);
    }
  };
  [[nodiscard]] LOCKSTEP_DEVICE Window window(unsigned oy, unsigned ox, Index column) const {
    const Index row = static_cast<Index>(s.channels) * s.stride;
    Window window{0, 0, 0, -1};
    for (unsigned ky = 0; ky < s.kernel_height; ++ky)
      for (unsigned kx = 0; kx < s.kernel_width; ++kx) {
        const long long pixel = s.pixel(oy, ox, ky, kx);
        if (pixel < 0) continue;
        if (Max) {
          const float value = x[static_cast<Index>(pixel) * row + column];
          const bool is_first_nan = value != value && window.largest == window.largest;
          if (window.count == 0 || value > window.largest || is_first_nan) {
            window.largest = value;
            window.first = pixel;
          }
        } else if (x != nullptr) {
          window.sum += x[static_cast<Index>(pixel) * row + column];
        }
        ++window.count;
      }
    return window;
  }
};

/// dx of Pool: each pixel looks at the windows that it is in.
template <bool Max>
struct PoolGradient {
  Pool<Max> pool;  ///< of a mean: x is null
  const float* dy;
  float* dx;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    const Sliding& s = pool.s;
    return divide_up(static_cast<Index>(s.height) * s.width * s.channels * s.stride, threads);
  }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Sliding& s = pool.s;
    const Index at = static_cast<Index>(lane.block) * threads + lane.thread;
    const Index row = static_cast<Index>(s.channels) * s.stride;
    if (at >= static_cast<Index>(s.height) * s.width * row) return;
    const unsigned position = static_cast<unsigned>(at / row);
    const unsigned y = position / s.width + s.pad_top, x = position % s.width + s.pad_left;
    float sum = 0;
    const unsigned first_oy =
        y < s.kernel_height ? 0 : divide_up(y - s.kernel_height + 1, s.stride_height);
    const unsigned first_ox =
        x < s.kernel_width ? 0 : divide_up(x - s.kernel_width + 1, s.stride_width);
    for (unsigned oy = first_oy; oy < s.out_height && oy * s.stride_height <= y; ++oy)
      for (unsigned ox = first_ox; ox < s.out_width && ox * s.stride_width <= x; ++ox) {
        const auto window = pool.window(oy, ox, at % row);
        const float gradient = dy[(static_cast<Index>(oy) * s.out_width + ox) * row + at % row];
        if (!Max)
          sum += gradient / static_cast<float>(window.count);
        else if (window.first == static_cast<long long>(position))
          sum += gradient;
      }
    dx[at] = sum;
  }
};

// --- batch normalisation: each channel in some parts, a block a part ---

struct Channels {
  unsigned pixels, channels, samples, stride, parts;

  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    return static_cast<Index>(channels) * parts;
  }
  [[nodiscard]] LOCKSTEP_DEVICE unsigned channel(unsigned block) const { return block % channels; }
  /// Calls f(element, counts) for a thread's elements of a block, if asked also in the padding.
  template <unsigned Threads, class Lane, class F>
  LOCKSTEP_DEVICE void each(const Lane& lane, bool padding, const F& f) const {
    const unsigned part = lane.block / channels, row = padding ? stride : samples;
    const Index begin = static_cast<Index>(pixels) * part / parts;
    const Index end = static_cast<Index>(pixels) * (part + 1) / parts;
    for (Index i = begin * row + lane.thread; i < end * row; i += Threads) {
      const unsigned sample = static_cast<unsigned>(i % row);
      f((i / row * channels + channel(lane.block)) * stride + sample, sample < samples);
    }
  }
  /// How many elements that count a block has.
  [[nodiscard]] LOCKSTEP_DEVICE double count(unsigned part) const {
    return static_cast<double>((static_cast<Index>(pixels) * (part + 1) / parts -
                                static_cast<Index>(pixels) * part / parts) *
                               samples);
  }
};

/// Of each block: the mean of x, and the sum of squared deviations from it.
struct Moments {
  Channels s;
  const float* x;
  double* sums;  ///< [parts][channels][2]

  static constexpr unsigned threads = 256;
  using Shared = SumsOf<threads, double>;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return s.blocks(); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    double sum = 0;
    s.each<threads>(lane, false, [&](Index at, bool) { sum += static_cast<double>(x[at]); });
    const double mean = shared(lane, sum) / s.count(lane.block / s.channels);
    sum = 0;
    s.each<threads>(lane, false, [&](Index at, bool) {
      const double deviation = static_cast<double>(x[at]) - mean;
      sum += deviation * deviation;
    });
    sum = shared(lane, sum);
    if (lane.thread == 0) {
      sums[2 * lane.block] = mean;
      sums[2 * lane.block + 1] = sum;
    }
  }
};

/// y = function(gamma * (x - mean) / sqrt(variance + epsilon) + beta); zero in the padding.
struct Normalize {
  Channels s;
  const double* sums;             ///< of Moments; null in inference
  const float *x, *gamma, *beta;  ///< gamma and beta may be null
  float *y, *mean, *inverse;      ///< kept for the gradient
  float *moving_mean, *moving_variance;
  double momentum, epsilon;
  bool corrects_variance;
  Function function;

  static constexpr unsigned threads = 256;
  struct Shared {
    float middle, scale, offset;
  };
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return s.blocks(); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    if (lane.thread == 0) prepare(lane.block, shared);
    lane.barrier();
    s.each<threads>(lane, true, [&](Index at, bool counts) {
      y[at] =
          counts ? value_of(function, fmaf(x[at] - shared.middle, shared.scale, shared.offset)) : 0;
    });
  }

  LOCKSTEP_DEVICE void prepare(unsigned block, Shared& shared) const {
    const unsigned c = s.channel(block);
    double center = 0, squares = 0, count = 0;
    if (sums == nullptr) {
      center = static_cast<double>(moving_mean[c]);
      squares = static_cast<double>(moving_variance[c]);
      count = 1;
    }
    for (unsigned part = 0; sums != nullptr && part < s.parts; ++part) {
      const double* of_part = sums + 2 * (static_cast<Index>(part) * s.channels + c);
      const double more = s.count(part), apart = of_part[0] - center, all = count + more;
      if (more == 0) continue;
      squares += of_part[1] + apart * apart * count * more / all;
      center += apart * more / all;
      count = all;
    }
    const double variance = squares / count;
    shared.middle = static_cast<float>(center);
    const float factor = static_cast<float>(1 / sqrt(variance + epsilon));
    shared.scale = gamma == nullptr ? factor : factor * gamma[c];
    shared.offset = beta == nullptr ? 0 : beta[c];
    if (block >= s.channels) return;  // the first part writes
    mean[c] = shared.middle;
    inverse[c] = factor;
    if (sums == nullptr) return;
    const double spread = corrects_variance && count > 1 ? squares / (count - 1) : variance;
    move(moving_mean[c], center);
    move(moving_variance[c], spread);
  }
  LOCKSTEP_DEVICE void move(float& moving, double value) const {
    const double before = static_cast<double>(moving);
    moving = static_cast<float>(before + (value - before) * (1 - momentum));
  }
};

/// Of each block: the sums of the gradient g of what went into the function, and of g * (x - mean).
struct NormalizeSums {
  Channels s;
  const float *x, *y, *dy, *mean;
  double* sums;  ///< [parts][channels][2]
  Function function;

  static constexpr unsigned threads = 256;
  using Shared = SumsOf<threads, double>;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return s.blocks(); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const float middle = mean[s.channel(lane.block)];
    double sum = 0, product = 0;
    s.each<threads>(lane, false, [&](Index at, bool) {
      const float gradient = gradient_of(function, dy[at], y[at]);
      sum += static_cast<double>(gradient);
      product += static_cast<double>(gradient) * static_cast<double>(x[at] - middle);
    });
    sum = shared(lane, sum);
    product = shared(lane, product);
    if (lane.thread == 0) {
      sums[2 * lane.block] = sum;
      sums[2 * lane.block + 1] = product;
    }
  }
};

struct NormalizeGradient {
  Channels s;
  const double* sums;  ///< of NormalizeSums
  const float *x, *y, *dy, *gamma, *mean, *inverse;
  float *dx, *d_gamma, *d_beta;  ///< each may be null
  Function function;

  static constexpr unsigned threads = 256;
  struct Shared {
    float factor, slope, rest;
  };
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return s.blocks(); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const unsigned c = s.channel(lane.block);
    if (lane.thread == 0) prepare(c, lane.block < s.channels, shared);
    lane.barrier();
    if (dx == nullptr) return;
    s.each<threads>(lane, true, [&](Index at, bool counts) {
      const float gradient = gradient_of(function, dy[at], y[at]);
      dx[at] =
          counts ? gradient * shared.factor + ((x[at] - mean[c]) * shared.slope + shared.rest) : 0;
    });
  }

  LOCKSTEP_DEVICE void prepare(unsigned c, bool writes, Shared& shared) const {
    double sum = 0, product = 0;
    for (unsigned part = 0; part < s.parts; ++part) {
      sum += sums[2 * (static_cast<Index>(part) * s.channels + c)];
      product += sums[2 * (static_cast<Index>(part) * s.channels + c) + 1];
    }
    const double one = s.samples > 0 ? static_cast<double>(inverse[c]) : 0;  // else none was kept
    const double scale = one * (gamma == nullptr ? 1 : static_cast<double>(gamma[c]));
    const double count = static_cast<double>(static_cast<Index>(s.pixels) * s.samples);
    shared.factor = static_cast<float>(scale);
    shared.rest = static_cast<float>(-scale * sum / count);
    shared.slope = static_cast<float>(-scale * product / count * one * one);
    if (writes && d_gamma != nullptr) d_gamma[c] = static_cast<float>(product * one);
    if (writes && d_beta != nullptr) d_beta[c] = static_cast<float>(sum);
  }
};

// --- dropout ---

/// Philox4x32-10, as in lockstep/core/random.hpp.
struct Philox {
  unsigned words[4];

  LOCKSTEP_DEVICE Philox(unsigned a, unsigned b, unsigned c, unsigned d, Index key)
      : words{a, b, c, d} {
    unsigned low = static_cast<unsigned>(key), high = static_cast<unsigned>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const Index p = Index{0xD2511F53} * words[0], q = Index{0xCD9E8D57} * words[2];
      words[0] = static_cast<unsigned>(q >> 32) ^ words[1] ^ low;
      words[1] = static_cast<unsigned>(q);
      words[2] = static_cast<unsigned>(p >> 32) ^ words[3] ^ high;
      words[3] = static_cast<unsigned>(p);
      low += 0x9E3779B9;
      high += 0xBB67AE85;
    }
  }
};
[[nodiscard]] LOCKSTEP_DEVICE Index fold_in(Index key, Index data) {
  const Philox r(static_cast<unsigned>(data), static_cast<unsigned>(data >> 32), 0x666F6C64, 0,
                 key);
  return r.words[0] | Index{r.words[1]} << 32;
}

/// What changes from step to step: the seed, the number of the step, those of the samples.
struct StepInput {
  Index seed, step, samples[1];
};

/// mask = 0 with a probability, else `scale`; y = x * mask. Each thread draws four features of a
/// sample.
struct Drop {
  const StepInput* step;
  Index layer, threshold;
  float scale;
  unsigned features, samples, stride;
  const float* x;
  float *mask, *y;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    return divide_up(static_cast<Index>(divide_up(features, 4)) * stride, threads);
  }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Index at = static_cast<Index>(lane.block) * threads + lane.thread;
    const unsigned sample = static_cast<unsigned>(at % stride);
    const unsigned block = static_cast<unsigned>(at / stride);
    if (block >= divide_up(features, 4)) return;
    Index key = 0;
    if (sample < samples)
      key = fold_in(fold_in(fold_in(step->seed, step->step), layer), step->samples[sample]);
    const Philox random(block, 0, 0, 0, key);
    for (unsigned i = 0; i < 4 && 4 * block + i < features; ++i) {
      const Index place = static_cast<Index>(4 * block + i) * stride + sample;
      mask[place] = sample < samples && random.words[i] >= threshold ? scale : 0;
      y[place] = x[place] * mask[place];
    }
  }
};

struct Multiply {
  const float *a, *b;
  float* y;
  Index size;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return divide_up(size, threads); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Index at = static_cast<Index>(lane.block) * threads + lane.thread;
    if (at < size) y[at] = a[at] * b[at];
  }
};

/// y = a + b; y may be one of them.
struct Sum {
  const float *a, *b;
  float* y;
  Index size;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return divide_up(size, threads); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Index at = static_cast<Index>(lane.block) * threads + lane.thread;
    if (at < size) y[at] = a[at] + b[at];
  }
};

// --- optimizers: formulas as in lockstep/optimizers ---

/// g = gradient * scale, brought within `limit`.
struct ScaledGradient {
  const float* gradients;
  float scale, limit;
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(Index i) const {
    const float g = scale * gradients[i];
    return g > limit ? limit : g < -limit ? -limit : g;
  }
};

struct SgdUpdate {
  ScaledGradient gradient;
  float *parameters, *momentum;  ///< momentum: null without one
  float rate, keep, kept, by_momentum, by_move;
  Index size;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return divide_up(size, threads); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Index i = static_cast<Index>(lane.block) * threads + lane.thread;
    if (i >= size) return;
    const float move = rate * gradient(i);
    if (momentum == nullptr) {
      parameters[i] = keep * parameters[i] - move;
      return;
    }
    const float m = momentum[i] = kept * momentum[i] - move;
    parameters[i] = keep * parameters[i] + (by_momentum * m - by_move * move);
  }
};

struct AdamUpdate {
  ScaledGradient gradient;
  float *parameters, *first, *second, *largest;  ///< largest: null without amsgrad
  float rate, keep, new_first, new_second, epsilon;
  Index size;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return divide_up(size, threads); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Index i = static_cast<Index>(lane.block) * threads + lane.thread;
    if (i >= size) return;
    const float g = gradient(i);
    const float m = first[i] += new_first * (g - first[i]);
    float v = second[i] += new_second * (g * g - second[i]);
    if (largest != nullptr) v = largest[i] = largest[i] > v ? largest[i] : v;
    parameters[i] = keep * parameters[i] - rate * m / (sqrtf(v) + epsilon);
  }
};

// --- all kernels, for the library that compiles them ---

using DenseForward = Product<Matrix, Matrix, Rows, false, false>;
using DenseWeights = Product<Matrix, Matrix, Rows, true, true>;
using DenseInput = Product<Matrix, Matrix, Rows, true, false>;
using DenseSum = SumOfParts<Rows>;
using ConvolutionForward = Product<Matrix, Patches, FeatureRows, false, false>;
using ConvolutionWeights = Product<Patches, TransposedFeatures, Rows, true, true>;
using ConvolutionInput = Product<TransposedKernel, Scattered, FeatureRows, true, false>;
using ConvolutionSum = SumOfParts<FeatureRows>;
using MaxPool = Pool<true>;
using AveragePool = Pool<false>;
using MaxPoolGradient = PoolGradient<true>;
using AveragePoolGradient = PoolGradient<false>;

}  // namespace lockstep::cuda

/// Calls f(kernel type) for each.
#define LOCKSTEP_CUDA_KERNELS(f)                                                                   \
  f(DenseForward) f(DenseWeights) f(DenseInput) f(DenseSum) f(ConvolutionForward)                  \
      f(ConvolutionWeights) f(ConvolutionInput) f(ConvolutionSum) f(ActivationGradient)            \
          f(Activate) f(ActivateGradient) f(MaxPool) f(AveragePool) f(MaxPoolGradient)             \
              f(AveragePoolGradient) f(Moments) f(Normalize) f(NormalizeSums) f(NormalizeGradient) \
                  f(Drop) f(Multiply) f(ActivateAndKeep) f(Sum) f(SgdUpdate) f(AdamUpdate)
