// The kernels of device layers: bodies that nvcc compiles for a GPU, and any compiler for the
// processor.
#pragma once

#if defined(__CUDACC__)
#define LOCKSTEP_DEVICE __host__ __device__ __forceinline__
#define LOCKSTEP_UNROLL _Pragma("unroll")
#define LOCKSTEP_PRAGMA(...) _Pragma(#__VA_ARGS__)
#define LOCKSTEP_UNROLL_BY(n) LOCKSTEP_PRAGMA(unroll n)
#else
#define LOCKSTEP_DEVICE inline
#define LOCKSTEP_UNROLL
#define LOCKSTEP_UNROLL_BY(n)
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
using GraphKey = std::array<Index, 10>;

[[nodiscard]] LOCKSTEP_DEVICE constexpr unsigned divide_up(Index n, unsigned by) {
  return static_cast<unsigned>((n + by - 1) / by);
}

/// n / by: what fits 32 bits is divided three times faster.
[[nodiscard]] LOCKSTEP_DEVICE Index divide(Index n, unsigned by) {
  return n >> 32 == 0 ? static_cast<unsigned>(n) / by : n / by;
}

struct Nothing {};

/// Calls f(i) for each i below `size`: the kernel of what needs no other thread. A thread has
/// `PerThread` of them, which neighbours interleave.
template <class F, unsigned PerThread = 1>
struct Each {
  F f;
  Index size;

  static constexpr unsigned threads = 256;
  using Shared = Nothing;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    return divide_up(size, threads * PerThread);
  }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared&) const {
    const Index first = static_cast<Index>(lane.block) * (threads * PerThread) + lane.thread;
    LOCKSTEP_UNROLL
    for (unsigned n = 0; n < PerThread; ++n)
      if (first + n * threads < size) f(first + n * threads);
  }
};
template <unsigned PerThread = 1, class Device, class F>
void launch_each(Device& device, Index size, const F& f) {
  device.launch(Each<F, PerThread>{f, size});
}

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

/// Where a row or a column of a matrix lies: an element is at the sum of its row's and column's.
struct Offset {
  long long at;
};

/// What lies at data[row * row_step + column * column_step].
template <class T>
struct MatrixOf {
  T* data;
  Index row_step, column_step;
  using Place = Offset;
  [[nodiscard]] LOCKSTEP_DEVICE Place row(unsigned row) const {
    return {static_cast<long long>(row * row_step)};
  }
  [[nodiscard]] LOCKSTEP_DEVICE Place column(unsigned column) const {
    return {static_cast<long long>(column * column_step)};
  }
  [[nodiscard]] LOCKSTEP_DEVICE T& operator()(Place row, Place column) const {
    return data[row.at + column.at];
  }
};
using Matrix = MatrixOf<const float>;
using Rows = MatrixOf<float>;

/// A matrix whose elements are added to what is there.
struct AddingRows : MatrixOf<float> {
  struct Element {
    float& sum;
    LOCKSTEP_DEVICE void operator=(float value) const { sum += value; }
  };
  [[nodiscard]] LOCKSTEP_DEVICE Element operator()(Place row, Place column) const {
    return {MatrixOf<float>::operator()(row, column)};
  }
};

/// y of a convolution as a matrix [filters][positions x samples].
template <class T>
struct FeaturesOf {
  T* y;
  unsigned filters, stride;
  using Place = Offset;
  [[nodiscard]] LOCKSTEP_DEVICE Place row(unsigned filter) const {
    return {static_cast<long long>(filter) * stride};
  }
  [[nodiscard]] LOCKSTEP_DEVICE Place column(unsigned column) const {
    return {static_cast<long long>(column / stride) * filters * stride + column % stride};
  }
  [[nodiscard]] LOCKSTEP_DEVICE T& operator()(Place row, Place column) const {
    return y[row.at + column.at];
  }
};
using Features = FeaturesOf<const float>;
using FeatureRows = FeaturesOf<float>;

/// A convolution's kernel as a matrix [channels][taps x filters], the last tap first.
struct TransposedKernel {
  const float* kernel;
  unsigned channels, filters, taps;
  using Place = Offset;
  [[nodiscard]] LOCKSTEP_DEVICE Place row(unsigned channel) const {
    return {static_cast<long long>(channel) * filters};
  }
  [[nodiscard]] LOCKSTEP_DEVICE Place column(unsigned tap_filter) const {
    const unsigned tap = taps - 1 - tap_filter / filters;
    return {static_cast<long long>(tap) * channels * filters + tap_filter % filters};
  }
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(Place row, Place column) const {
    return kernel[row.at + column.at];
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
    const int y = static_cast<int>(oy * stride_height + ky) - static_cast<int>(pad_top);
    const int x = static_cast<int>(ox * stride_width + kx) - static_cast<int>(pad_left);
    return y < 0 || x < 0 || y >= static_cast<int>(height) || x >= static_cast<int>(width)
               ? -1
               : static_cast<long long>(y) * width + x;
  }
  /// The way of a gradient, with a stride of 1: from outputs to inputs, the last tap first.
  [[nodiscard]] LOCKSTEP_DEVICE constexpr Sliding backward() const {
    return {out_height,
            out_width,
            filters,
            height,
            width,
            channels,
            kernel_height,
            kernel_width,
            1,
            1,
            kernel_height - 1 - pad_top,
            kernel_width - 1 - pad_left,
            stride};
  }
};

/// A row or a column of a matrix of windows: an offset, and a place in the image.
struct PlaceInImage {
  long long at;
  int y, x;
};

/// x as a matrix [taps x channels][output positions x samples].
struct Patches {
  Sliding s;
  const float* x;
  using Place = PlaceInImage;
  [[nodiscard]] LOCKSTEP_DEVICE Place row(unsigned tap_channel) const {
    const unsigned tap = tap_channel / s.channels, channel = tap_channel % s.channels;
    return place(static_cast<int>(tap / s.kernel_width), static_cast<int>(tap % s.kernel_width),
                 static_cast<Index>(channel) * s.stride);
  }
  [[nodiscard]] LOCKSTEP_DEVICE Place column(unsigned column) const {
    const unsigned position = column / s.stride;
    return place(
        static_cast<int>(position / s.out_width * s.stride_height) - static_cast<int>(s.pad_top),
        static_cast<int>(position % s.out_width * s.stride_width) - static_cast<int>(s.pad_left),
        column % s.stride);
  }
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(const Place& row, const Place& column) const {
    const auto pixel_y = static_cast<unsigned>(row.y + column.y);  // huge where negative
    const auto pixel_x = static_cast<unsigned>(row.x + column.x);
    return pixel_y < s.height && pixel_x < s.width ? x[row.at + column.at] : 0;
  }

 private:
  [[nodiscard]] LOCKSTEP_DEVICE Place place(int py, int px, Index inside) const {
    const long long pixel = static_cast<long long>(py) * s.width + px;
    return {pixel * s.channels * s.stride + static_cast<long long>(inside), py, px};
  }
};

/// What reaches an input pixel: dy as a matrix [taps x filters][input positions x samples], the
/// last tap first. For any stride; with 1 it is Patches of Sliding::backward.
struct Scattered {
  Sliding s;
  const float* dy;
  using Place = PlaceInImage;
  [[nodiscard]] LOCKSTEP_DEVICE Place row(unsigned tap_filter) const {
    const unsigned tap = s.kernel_height * s.kernel_width - 1 - tap_filter / s.filters;
    return {static_cast<long long>(tap_filter % s.filters) * s.stride,
            static_cast<int>(tap / s.kernel_width), static_cast<int>(tap % s.kernel_width)};
  }
  [[nodiscard]] LOCKSTEP_DEVICE Place column(unsigned column) const {
    const unsigned position = column / s.stride;
    return {column % s.stride, static_cast<int>(position / s.width + s.pad_top),
            static_cast<int>(position % s.width + s.pad_left)};
  }
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(const Place& row, const Place& column) const {
    const int from_y = column.y - row.y, from_x = column.x - row.x;
    if (from_y < 0 || from_x < 0) return 0;
    const unsigned oy = static_cast<unsigned>(from_y) / s.stride_height;
    const unsigned ox = static_cast<unsigned>(from_x) / s.stride_width;
    if (oy * s.stride_height != static_cast<unsigned>(from_y) ||
        ox * s.stride_width != static_cast<unsigned>(from_x))
      return 0;
    if (oy >= s.out_height || ox >= s.out_width) return 0;
    const Index position = static_cast<Index>(oy) * s.out_width + ox;
    return dy[static_cast<long long>(position * s.filters * s.stride) + row.at + column.at];
  }
};

/// Another matrix, transposed.
template <class M>
struct Transposed {
  M matrix;
  using Place = typename M::Place;
  [[nodiscard]] LOCKSTEP_DEVICE Place row(unsigned row) const { return matrix.column(row); }
  [[nodiscard]] LOCKSTEP_DEVICE Place column(unsigned column) const { return matrix.row(column); }
  [[nodiscard]] LOCKSTEP_DEVICE float operator()(const Place& row, const Place& column) const {
    return matrix(column, row);
  }
};

/// Where a product goes: a matrix, function(value + bias[row]) or value alone.
template <class M>
struct Result {
  M matrix;
  const float* bias = nullptr;
  Function function = Function::linear;

  LOCKSTEP_DEVICE void operator()(unsigned row, const typename M::Place& column,
                                  float value) const {
    matrix(matrix.row(row), column) =
        value_of(function, bias == nullptr ? value : value + bias[row]);
  }
};

/// C[rows x columns] = A[rows x inner] B[inner x columns]. `splits` parts of the inner extent are
/// summed apart: then their sums go to `partial`, [splits][rows][columns], and SumOfParts follows.
/// `ColumnsOfA`: neighbouring threads read neighbouring columns of A, else rows; RowsOfB likewise.
/// A thread sums 8 x 8 elements, in two halves of a tile each way, so that what neighbouring
/// threads read lies in different banks of the shared memory.
template <class A, class B, class C, bool ColumnsOfA, bool RowsOfB>
struct Product {
  A a;
  B b;
  Result<C> c;
  unsigned rows, columns, inner, splits;
  float* partial;

  static constexpr unsigned tile = 64, depth = 16, threads = 64, each = 8;
  struct Shared {
    /// Of A transposed and of B; in the end, of half of C.
    alignas(16) float a[depth][tile + 4], b[depth][tile + 4];
    float c[tile / 2][tile + 1];
    typename A::Place rows_of_a[tile], columns_of_a[depth];
    typename B::Place columns_of_b[tile], rows_of_b[depth];
  };

  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    return static_cast<Index>(divide_up(rows, tile)) * divide_up(columns, tile) * splits;
  }

  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const unsigned column_tiles = divide_up(columns, tile), row_tiles = divide_up(rows, tile);
    const unsigned split = lane.block / (column_tiles * row_tiles);
    const unsigned tile_index = lane.block % (column_tiles * row_tiles);
    const unsigned row0 = tile_index / column_tiles * tile;
    const unsigned column0 = tile_index % column_tiles * tile;
    const unsigned steps = divide_up(inner, depth);
    const unsigned begin = static_cast<unsigned>(static_cast<Index>(steps) * split / splits);
    const unsigned end = static_cast<unsigned>(static_cast<Index>(steps) * (split + 1) / splits);
    const unsigned own_row = lane.thread / (tile / each) * (each / 2);
    const unsigned own_column = lane.thread % (tile / each) * (each / 2);
    const unsigned own_k = lane.thread % depth, first = lane.thread / depth;
    const typename A::Place row = a.row(row0 + lane.thread);
    const typename B::Place column = b.column(column0 + lane.thread);
    shared.rows_of_a[lane.thread] = row;
    shared.columns_of_b[lane.thread] = column;
    float next_a[depth], next_b[depth], sum[each * each] = {};
    const auto find_places = [&](unsigned step) {
      if (lane.thread >= depth) return;
      shared.columns_of_a[lane.thread] = a.column(step * depth + lane.thread);
      shared.rows_of_b[lane.thread] = b.row(step * depth + lane.thread);
    };
    const auto load = [&](unsigned step) {
      const unsigned left = inner - step * depth;
      LOCKSTEP_UNROLL
      for (unsigned i = 0; i < depth; ++i) {
        const unsigned other = first + i * (threads / depth);
        if (ColumnsOfA)
          next_a[i] = row0 + other < rows && own_k < left
                          ? a(shared.rows_of_a[other], shared.columns_of_a[own_k])
                          : 0;
        else
          next_a[i] = row0 + lane.thread < rows && i < left ? a(row, shared.columns_of_a[i]) : 0;
        if (RowsOfB)
          next_b[i] = column0 + other < columns && own_k < left
                          ? b(shared.rows_of_b[own_k], shared.columns_of_b[other])
                          : 0;
        else
          next_b[i] =
              column0 + lane.thread < columns && i < left ? b(shared.rows_of_b[i], column) : 0;
      }
    };
    find_places(begin);
    for (unsigned step = begin;; ++step) {  // loads a step while it multiplies the one before
      lane.barrier();
      if (step < end) load(step);
      LOCKSTEP_UNROLL_BY(4)  // all of it would not fit the cache of instructions
      for (unsigned k = step == begin ? depth : 0; k < depth; ++k) {
        float x[each], y[each];
        LOCKSTEP_UNROLL
        for (unsigned i = 0; i < each; ++i) {
          x[i] = shared.a[k][own_row + half(i)];
          y[i] = shared.b[k][own_column + half(i)];
        }
        LOCKSTEP_UNROLL
        for (unsigned n = 0; n < each * each; ++n) sum[n] = fmaf(x[n / each], y[n % each], sum[n]);
      }
      if (step >= end) break;
      lane.barrier();
      LOCKSTEP_UNROLL
      for (unsigned i = 0; i < depth; ++i) {
        const unsigned other = first + i * (threads / depth);
        shared.a[ColumnsOfA ? own_k : i][ColumnsOfA ? other : lane.thread] = next_a[i];
        shared.b[RowsOfB ? own_k : i][RowsOfB ? other : lane.thread] = next_b[i];
      }
      find_places(step + 1);
    }
    // Each thread writes a column, so that neighbours write what lies side by side.
    const unsigned to_column = column0 + lane.thread;
    const typename C::Place to = c.matrix.column(to_column);
    LOCKSTEP_UNROLL
    for (unsigned from = 0; from < each; from += each / 2) {
      LOCKSTEP_UNROLL
      for (unsigned n = 0; n < each / 2 * each; ++n)
        shared.c[own_row + n / each][own_column + half(n % each)] = sum[from * each + n];
      lane.barrier();
      const unsigned first_row = row0 + half(from);
      LOCKSTEP_UNROLL_BY(1)
      for (unsigned i = 0; i < tile / 2; ++i)
        if (first_row + i < rows && to_column < columns)
          write(split, first_row + i, to_column, to, shared.c[i][lane.thread]);
      lane.barrier();
    }
  }

 private:
  /// Of the i-th row or column of a thread.
  [[nodiscard]] LOCKSTEP_DEVICE static constexpr unsigned half(unsigned i) {
    return i / (each / 2) * (tile / 2) + i % (each / 2);
  }
  LOCKSTEP_DEVICE void write(unsigned split, unsigned row, unsigned column,
                             const typename C::Place& place, float value) const {
    if (splits > 1)
      partial[(static_cast<Index>(split) * rows + row) * columns + column] = value;
    else
      c(row, place, value);
  }
};

/// The sums of a Product in parts become C. `lanes` threads share the parts of an element.
template <class C>
struct SumOfParts {
  Result<C> c;
  unsigned rows, columns, parts;
  const float* partial;
  unsigned lanes;  ///< a power of two, at most `threads`

  static constexpr unsigned threads = 256;
  struct Shared {
    float sums[threads];
  };
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    return divide_up(static_cast<Index>(rows) * columns, threads / lanes);
  }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const Index size = static_cast<Index>(rows) * columns;
    const unsigned elements = threads / lanes;
    const Index at = static_cast<Index>(lane.block) * elements + lane.thread % elements;
    float sum = 0;
    if (at < size)
      for (unsigned part = lane.thread / elements; part < parts; part += lanes)
        sum += partial[part * size + at];
    shared.sums[lane.thread] = sum;
    lane.barrier();
    if (lane.thread >= elements || at >= size) return;
    for (unsigned other = 1; other < lanes; ++other)
      sum += shared.sums[other * elements + lane.thread];
    const auto row = static_cast<unsigned>(divide(at, columns));
    c(row, c.matrix.column(static_cast<unsigned>(at - row * Index{columns})), sum);
  }
};

// --- sums over the threads of a block ---

/// Thread t belongs to row t % Rows.
template <unsigned Threads, class T, unsigned Rows = 1>
struct SumsOf {
  T values[Threads];

  /// The sum of what the threads of a row give, for all of them.
  template <class Lane>
  LOCKSTEP_DEVICE T operator()(const Lane& lane, T value) {
    return combine(lane, value, [](T a, T b) { return a + b; });
  }
  template <class Lane>
  LOCKSTEP_DEVICE T largest(const Lane& lane, T value) {
    return combine(lane, value, [](T a, T b) { return a < b ? b : a; });
  }

 private:
  template <class Lane, class F>
  LOCKSTEP_DEVICE T combine(const Lane& lane, T value, const F& f) {
    lane.barrier();  // all have read the last one
    values[lane.thread] = value;
    for (unsigned half = Threads / 2; half >= Rows; half /= 2) {
      lane.barrier();
      if (lane.thread < half)
        values[lane.thread] = f(values[lane.thread], values[lane.thread + half]);
    }
    lane.barrier();
    return values[lane.thread % Rows];
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

  LOCKSTEP_DEVICE void operator()(Index at) const { y[at] = value_of(function, x[at]); }
};
/// dx = the gradient of y = function(x).
struct ActivateGradient {
  Function function;
  const float *y, *dy;
  float* dx;

  LOCKSTEP_DEVICE void operator()(Index at) const { dx[at] = gradient_of(function, dy[at], y[at]); }
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

  LOCKSTEP_DEVICE void operator()(Index at) const {
    const Point result = of(x[at]);
    y[at] = result.value;
    slope[at] = result.slope;
  }

  struct Point {
    float value, slope;
  };
  [[nodiscard]] LOCKSTEP_DEVICE Point of(float in) const {
    switch (function) {
      case KeptFunction::gelu: {
        const float probability = 0.5f * erfcf(in * -0.70710678f);
        const float density = 0.39894228f * expf(-0.5f * in * in);
        return {in * probability, probability + in * density};
      }
      case KeptFunction::gelu_tanh: {
        constexpr float linear = 1.5957691f, cubic = linear * 0.044715f, farthest = 24;
        const float near = in > farthest ? farthest : in < -farthest ? -farthest : in;
        const Point l = logistic(near * fmaf(near * near, cubic, linear));
        return {in * l.value, fmaf(near * l.slope, fmaf(near * near, 3 * cubic, linear), l.value)};
      }
      case KeptFunction::silu: {
        const Point l = logistic(in);
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
  [[nodiscard]] LOCKSTEP_DEVICE static Point logistic(float in) {
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

  LOCKSTEP_DEVICE void operator()(Index at) const {
    const Index row = static_cast<Index>(s.channels) * s.stride;
    const auto position = static_cast<unsigned>(divide(at, static_cast<unsigned>(row)));
    y[at] = window(position / s.out_width, position % s.out_width, at - position * row).result();
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

  LOCKSTEP_DEVICE void operator()(Index at) const {
    const Sliding& s = pool.s;
    const Index row = static_cast<Index>(s.channels) * s.stride;
    const auto position = static_cast<unsigned>(divide(at, static_cast<unsigned>(row)));
    const Index column = at - position * row;
    const unsigned y = position / s.width + s.pad_top, x = position % s.width + s.pad_left;
    float sum = 0;
    const unsigned first_oy =
        y < s.kernel_height ? 0 : divide_up(y - s.kernel_height + 1, s.stride_height);
    const unsigned first_ox =
        x < s.kernel_width ? 0 : divide_up(x - s.kernel_width + 1, s.stride_width);
    for (unsigned oy = first_oy; oy < s.out_height && oy * s.stride_height <= y; ++oy)
      for (unsigned ox = first_ox; ox < s.out_width && ox * s.stride_width <= x; ++ox) {
        const auto window = pool.window(oy, ox, column);
        const float gradient = dy[(static_cast<Index>(oy) * s.out_width + ox) * row + column];
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
      const Index pixel = divide(i, row);
      const auto sample = static_cast<unsigned>(i - pixel * row);
      f((pixel * channels + channel(lane.block)) * stride + sample, sample < samples);
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
  using Shared = SumsOf<threads, double>;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return s.blocks(); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const unsigned c = s.channel(lane.block);
    double center = 0, variance = 0;
    const double count = static_cast<double>(static_cast<Index>(s.pixels) * s.samples);
    if (sums != nullptr) {
      const bool has_part = lane.thread < s.parts;
      const double* part = sums + 2 * (static_cast<Index>(lane.thread) * s.channels + c);
      const double of_part = has_part ? s.count(lane.thread) : 0;
      center = shared(lane, has_part ? part[0] * of_part : 0) / count;
      const double apart = has_part ? part[0] - center : 0;
      variance = shared(lane, has_part ? part[1] + apart * apart * of_part : 0) / count;
    } else {
      center = static_cast<double>(moving_mean[c]);
      variance = static_cast<double>(moving_variance[c]);
    }
    const auto middle = static_cast<float>(center);
    const auto factor = static_cast<float>(1 / sqrt(variance + epsilon));
    const float scale = gamma == nullptr ? factor : factor * gamma[c];
    const float offset = beta == nullptr ? 0 : beta[c];
    s.each<threads>(lane, true, [&](Index at, bool counts) {
      y[at] = counts ? value_of(function, fmaf(x[at] - middle, scale, offset)) : 0;
    });
    if (lane.block >= s.channels || lane.thread != 0) return;  // the first part writes
    mean[c] = middle;
    inverse[c] = factor;
    if (sums == nullptr) return;
    move(moving_mean[c], center);
    move(moving_variance[c],
         corrects_variance && count > 1 ? variance * (count / (count - 1)) : variance);
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
  using Shared = SumsOf<threads, double>;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return s.blocks(); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const unsigned c = s.channel(lane.block);
    const bool has_part = lane.thread < s.parts;
    const double* part = sums + 2 * (static_cast<Index>(lane.thread) * s.channels + c);
    const double sum = shared(lane, has_part ? part[0] : 0);
    const double product = shared(lane, has_part ? part[1] : 0);
    const double one = s.samples > 0 ? static_cast<double>(inverse[c]) : 0;  // else none was kept
    if (lane.block < s.channels && lane.thread == 0) {
      if (d_gamma != nullptr) d_gamma[c] = static_cast<float>(product * one);
      if (d_beta != nullptr) d_beta[c] = static_cast<float>(sum);
    }
    if (dx == nullptr) return;
    const double scale = one * (gamma == nullptr ? 1 : static_cast<double>(gamma[c]));
    const double count = static_cast<double>(static_cast<Index>(s.pixels) * s.samples);
    const auto factor = static_cast<float>(scale);
    const auto rest = static_cast<float>(-scale * sum / count);
    const auto slope = static_cast<float>(-scale * product / count * one * one);
    s.each<threads>(lane, true, [&](Index at, bool counts) {
      const float gradient = gradient_of(function, dy[at], y[at]);
      dx[at] = counts ? gradient * factor + ((x[at] - mean[c]) * slope + rest) : 0;
    });
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

/// As StepContext::random_key.
[[nodiscard]] LOCKSTEP_DEVICE Index row_key(const StepInput& input, Index layer, unsigned row,
                                            unsigned positions) {
  const Index key =
      fold_in(fold_in(fold_in(input.seed, input.step), layer), input.samples[row / positions]);
  return positions == 1 ? key : fold_in(key, row % positions);
}

/// mask = 0 with a probability, else `scale`; y = x * mask, for four features of a sample at once.
struct Drop {
  const StepInput* step;
  Index layer, threshold;
  float scale;
  unsigned features, samples, stride;
  unsigned positions;  ///< rows of a sample
  const float* x;
  float *mask, *y;

  LOCKSTEP_DEVICE void operator()(Index at) const {
    const auto block = static_cast<unsigned>(divide(at, stride));
    const auto sample = static_cast<unsigned>(at - Index{block} * stride);
    Index key = 0;
    if (sample < samples) key = row_key(*step, layer, sample, positions);
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

  LOCKSTEP_DEVICE void operator()(Index at) const { y[at] = a[at] * b[at]; }
};

/// y = a + b; y may be one of them.
struct Sum {
  const float *a, *b;
  float* y;

  LOCKSTEP_DEVICE void operator()(Index at) const { y[at] = a[at] + b[at]; }
};

// --- sequences: a row is a token, those of a sample follow one another ---

/// y[d][row] = table[id][d], and zeros in the padding; ids[row] = id. An id outside the table gives
/// NaN in y and -1 in ids.
struct Gather {
  const float *table, *x;  ///< x: ids as [position][x_stride]
  float *ids, *y;
  unsigned vocabulary, width, positions, samples, x_stride, stride;

  /// Of width * stride.
  LOCKSTEP_DEVICE void operator()(Index at) const {
    const auto d = static_cast<unsigned>(divide(at, stride));
    const auto row = static_cast<unsigned>(at - Index{d} * stride);
    if (row >= samples * positions) {
      y[at] = 0;
      return;
    }
    const float id = x[static_cast<Index>(row % positions) * x_stride + row / positions];
    const bool is_one = id >= 0 && id < static_cast<float>(vocabulary) && id == floorf(id);
    y[at] = is_one ? table[static_cast<Index>(id) * width + d] : NAN;
    if (d == 0) ids[row] = is_one ? id : -1;
  }
};

/// gradient[ids[row]][d] += dy[d][row]. The first row that has an id adds up those of all of them.
struct Scatter {
  const float *ids, *dy;
  float* gradient;
  unsigned width, rows, stride;

  /// Of rows * width.
  LOCKSTEP_DEVICE void operator()(Index at) const {
    const auto first = static_cast<unsigned>(divide(at, width));
    const auto d = static_cast<unsigned>(at - Index{first} * width);
    const float id = ids[first];
    if (id < 0) return;
    for (unsigned row = 0; row < first; ++row)
      if (ids[row] == id) return;
    float sum = 0;
    for (unsigned row = first; row < rows; ++row)
      if (ids[row] == id) sum += dy[static_cast<Index>(d) * stride + row];
    gradient[static_cast<Index>(id) * width + d] += sum;
  }
};

struct Fill {
  float* y;
  float value;
  LOCKSTEP_DEVICE void operator()(Index at) const { y[at] = value; }
};
/// Zeros in the rows from `first` on, of [feature][stride].
struct ClearRows {
  float* y;
  unsigned first, stride;
  /// Of features * (stride - first).
  LOCKSTEP_DEVICE void operator()(Index at) const {
    const unsigned padding = stride - first;
    y[at / padding * stride + first + at % padding] = 0;
  }
};

/// y[d][row] = x[d][row] + table[position][d].
struct AddPositions {
  const float *x, *table;
  float* y;
  unsigned width, positions, rows, stride;

  /// Of width * stride.
  LOCKSTEP_DEVICE void operator()(Index at) const {
    const auto d = static_cast<unsigned>(divide(at, stride));
    const auto row = static_cast<unsigned>(at - Index{d} * stride);
    y[at] = row < rows ? x[at] + table[static_cast<Index>(row % positions) * width + d] : 0;
  }
};
/// gradient[position][d] = the sum of dy over the samples; zero for positions that are not used.
struct SumPositions {
  const float* dy;
  float* gradient;
  unsigned width, positions, rows, stride, places;

  /// Of width * places.
  LOCKSTEP_DEVICE void operator()(Index at) const {
    const auto d = static_cast<unsigned>(divide(at, places));
    const auto position = static_cast<unsigned>(at - Index{d} * places);
    float sum = 0;
    if (position < positions)
      for (unsigned row = position; row < rows; row += positions)
        sum += dy[static_cast<Index>(d) * stride + row];
    gradient[static_cast<Index>(position) * width + d] = sum;
  }
};

/// Of [pixel][channel][row]: a block has some rows of a pixel, whose channels its threads share.
struct PixelRows {
  unsigned pixels, channels, stride;

  static constexpr unsigned threads = 256, rows = 8;
  using Sums = SumsOf<threads, float, rows>;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    return static_cast<Index>(pixels) * divide_up(stride, rows);
  }
  /// That of a thread, in arrays of [pixel][stride]. (The stride is a multiple of `rows`.)
  template <class Lane>
  [[nodiscard]] LOCKSTEP_DEVICE Index row(const Lane& lane) const {
    return static_cast<Index>(lane.block) * rows + lane.thread % rows;
  }
  /// Calls f(element, channel) for those of a thread.
  template <class Lane, class F>
  LOCKSTEP_DEVICE void each(const Lane& lane, const F& f) const {
    const Index at = row(lane), pixel = divide(at, stride);
    const Index first = pixel * channels * stride + (at - pixel * stride);
    for (unsigned c = lane.thread / rows; c < channels; c += threads / rows)
      f(first + static_cast<Index>(c) * stride, c);
  }
};

/// y = (x - mean) * inverse * gamma[c] + beta[c], with the mean and the deviation of each row.
struct LayerNormalize {
  PixelRows s;
  const float *x, *gamma, *beta;  ///< gamma and beta may be null
  float epsilon;
  float *mean, *inverse, *y;

  static constexpr unsigned threads = PixelRows::threads;
  using Shared = PixelRows::Sums;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return s.blocks(); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const float share = 1 / static_cast<float>(s.channels);
    float sum = 0;
    s.each(lane, [&](Index at, unsigned) { sum += x[at]; });
    const float middle = shared(lane, sum) * share;
    sum = 0;
    s.each(lane, [&](Index at, unsigned) { sum = fmaf(x[at] - middle, x[at] - middle, sum); });
    const float factor = 1 / sqrtf(shared(lane, sum) * share + epsilon);
    s.each(lane, [&](Index at, unsigned c) {
      const float scale = gamma == nullptr ? factor : factor * gamma[c];
      y[at] = fmaf(x[at] - middle, scale, beta == nullptr ? 0 : beta[c]);
    });
    if (lane.thread >= PixelRows::rows) return;
    mean[s.row(lane)] = middle;
    inverse[s.row(lane)] = factor;
  }
};

struct LayerNormalizeGradient {
  PixelRows s;
  const float *x, *gamma, *dy, *mean, *inverse;
  float* dx;  ///< may be dy

  static constexpr unsigned threads = PixelRows::threads;
  using Shared = PixelRows::Sums;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return s.blocks(); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const float share = 1 / static_cast<float>(s.channels);
    const float middle = mean[s.row(lane)], factor = inverse[s.row(lane)];
    float sum = 0, product = 0;
    s.each(lane, [&](Index at, unsigned c) {
      const float gradient = gamma == nullptr ? dy[at] : dy[at] * gamma[c];
      sum += gradient;
      product = fmaf(gradient, (x[at] - middle) * factor, product);
    });
    sum = shared(lane, sum) * share;
    product = shared(lane, product) * share;
    s.each(lane, [&](Index at, unsigned c) {
      const float gradient = gamma == nullptr ? dy[at] : dy[at] * gamma[c];
      dx[at] = factor * (gradient - sum - (x[at] - middle) * factor * product);
    });
  }
};

/// The gradients of gamma and beta: a block for each channel.
struct LayerNormalizeWeights {
  unsigned pixels, channels, samples, stride;
  const float *x, *dy, *mean, *inverse;
  float *d_gamma, *d_beta;  ///< each may be null

  static constexpr unsigned threads = 256;
  using Shared = SumsOf<threads, double>;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return channels; }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    double sum = 0, product = 0;
    for (unsigned pixel = 0; pixel < pixels; ++pixel)
      for (unsigned sample = lane.thread; sample < samples; sample += threads) {
        const Index row = static_cast<Index>(pixel) * stride + sample;
        const Index at = (static_cast<Index>(pixel) * channels + lane.block) * stride + sample;
        sum += static_cast<double>(dy[at]);
        product += static_cast<double>(dy[at] * ((x[at] - mean[row]) * inverse[row]));
      }
    sum = shared(lane, sum);
    product = shared(lane, product);
    if (lane.thread != 0) return;
    if (d_beta != nullptr) d_beta[lane.block] = static_cast<float>(sum);
    if (d_gamma != nullptr) d_gamma[lane.block] = static_cast<float>(product);
  }
};

/// A Product for each head of each sample; its matrices are those of the first ones.
template <class P>
struct Batched {
  struct Step {
    Index head, sample;  ///< from a matrix to the next one
  };
  P product;
  Step a, b, c;
  unsigned heads, samples;

  static constexpr unsigned threads = P::threads;
  using Shared = typename P::Shared;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return product.blocks() * heads * samples; }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const auto of_one = static_cast<unsigned>(product.blocks());
    const unsigned batch = lane.block / of_one, head = batch % heads, sample = batch / heads;
    const auto from = [&](const Step& step) { return head * step.head + sample * step.sample; };
    P one = product;
    one.a.data += from(a);
    one.b.data += from(b);
    one.c.matrix.data += from(c);
    one(Part<Lane>{lane, lane.thread, lane.block % of_one}, shared);
  }

 private:
  template <class Lane>
  struct Part {
    const Lane& all;
    unsigned thread, block;
    LOCKSTEP_DEVICE void barrier() const { all.barrier(); }
  };
};

/// Scores [batch][key][query]: of some queries of a batch, a block has all keys.
struct Scores {
  unsigned batches, keys, queries;
  bool causal;

  static constexpr unsigned threads = 256, rows = 8;
  using Sums = SumsOf<threads, float, rows>;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const {
    return static_cast<Index>(batches) * divide_up(queries, rows);
  }
  /// Calls f(element, whether the query sees the key) for those of a thread.
  template <class Lane, class F>
  LOCKSTEP_DEVICE void each(const Lane& lane, const F& f) const {
    const unsigned of_batch = divide_up(queries, rows), batch = lane.block / of_batch;
    const unsigned query = lane.block % of_batch * rows + lane.thread % rows;
    if (query >= queries) return;
    for (unsigned key = lane.thread / rows; key < keys; key += threads / rows)
      f((static_cast<Index>(batch) * keys + key) * queries + query, !causal || key <= query);
  }
};

/// The probabilities of scores times `scale`, in place; zero for keys that a query does not see.
struct SoftmaxScores {
  Scores s;
  float scale;
  float* p;

  static constexpr unsigned threads = Scores::threads;
  using Shared = Scores::Sums;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return s.blocks(); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    float largest = -INFINITY, sum = 0;
    s.each(lane, [&](Index at, bool sees) {
      if (sees && !(p[at] <= largest)) largest = p[at];
    });
    largest = shared.largest(lane, largest);
    s.each(lane, [&](Index at, bool sees) {
      p[at] = sees ? expf((p[at] - largest) * scale) : 0;
      sum += p[at];
    });
    const float factor = 1 / shared(lane, sum);
    s.each(lane, [&](Index at, bool) { p[at] *= factor; });
  }
};
/// dp becomes the gradient of the scores before `scale`.
struct SoftmaxScoresGradient {
  Scores s;
  float scale;
  const float* p;
  float* dp;

  static constexpr unsigned threads = Scores::threads;
  using Shared = Scores::Sums;
  [[nodiscard]] LOCKSTEP_DEVICE Index blocks() const { return s.blocks(); }
  template <class Lane>
  LOCKSTEP_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    float sum = 0;
    s.each(lane, [&](Index at, bool) { sum = fmaf(p[at], dp[at], sum); });
    sum = shared(lane, sum);
    s.each(lane, [&](Index at, bool) { dp[at] = p[at] * (dp[at] - sum) * scale; });
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

  LOCKSTEP_DEVICE void operator()(Index i) const {
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

  LOCKSTEP_DEVICE void operator()(Index i) const {
    const float g = gradient(i);
    const float m = first[i] += new_first * (g - first[i]);
    float v = second[i] += new_second * (g * g - second[i]);
    if (largest != nullptr) v = largest[i] = largest[i] > v ? largest[i] : v;
    parameters[i] = keep * parameters[i] - rate * m / (sqrtf(v) + epsilon);
  }
};

// --- all kernels, for the library that compiles them ---

template <class Optimizer>
using Update = Each<Optimizer, 4>;
using DenseForward = Product<Matrix, Matrix, Rows, false, false>;
using DenseWeights = Product<Matrix, Matrix, Rows, true, true>;
using DenseInput = Product<Matrix, Matrix, Rows, true, false>;
using DenseInputMore = Product<Matrix, Matrix, AddingRows, true, false>;
using DenseSum = SumOfParts<Rows>;
using DenseSumMore = SumOfParts<AddingRows>;
using ConvolutionForward = Product<Matrix, Patches, FeatureRows, false, false>;
using ConvolutionWeights = Product<Patches, Transposed<Features>, Rows, true, true>;
using ConvolutionInput = Product<TransposedKernel, Patches, FeatureRows, true, false>;
using StridedConvolutionInput = Product<TransposedKernel, Scattered, FeatureRows, true, false>;
using ConvolutionSum = SumOfParts<FeatureRows>;

}  // namespace lockstep::cuda

/// Calls f(kernel type) for each.
#define LOCKSTEP_CUDA_KERNELS(f)                                                                   \
  f(DenseForward) f(DenseWeights) f(DenseInput) f(DenseSum) f(ConvolutionForward)                  \
      f(ConvolutionWeights) f(ConvolutionInput) f(StridedConvolutionInput) f(ConvolutionSum)       \
          f(ActivationGradient) f(Moments) f(Normalize) f(NormalizeSums) f(NormalizeGradient)      \
              f(Each<Activate>) f(Each<ActivateGradient>) f(Each<Pool<true>>) f(Each<Pool<false>>) \
                  f(Each<PoolGradient<true>>) f(Each<PoolGradient<false>>) f(Each<Drop>)           \
                      f(Each<Multiply>) f(Each<ActivateAndKeep>) f(Each<Sum>) f(Update<SgdUpdate>) \
                          f(Update<AdamUpdate>) f(DenseInputMore) f(DenseSumMore)                  \
                              f(Batched<DenseForward>) f(Batched<DenseWeights>)                    \
                                  f(Batched<DenseInput>) f(SoftmaxScores) f(SoftmaxScoresGradient) \
                                      f(LayerNormalize) f(LayerNormalizeGradient)                  \
                                          f(LayerNormalizeWeights) f(Each<Gather>)                 \
                                              f(Each<Scatter>) f(Each<Fill>) f(Each<ClearRows>)    \
                                                  f(Each<AddPositions>) f(Each<SumPositions>)
