// One-dimensional convolution over sequences: what each tap of the kernel sees, side by side.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/product.hpp"
#include "lockstep/kernels/transpose.hpp"

// Each tap sees the sequences shifted, with zeros beyond their ends. These shifted copies are the
// rows of one matrix, [tap][channel][sample][output step], so that all three products are those of
// a dense layer, whatever the stride, the dilation and the padding. (Products on the sequences
// themselves would start at odd addresses, and compute what lies across the borders of samples.)

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// The input is [channel][x_stride] with `steps` steps of each sample, the output
/// [filter][y_stride] with `out_steps`; strides are multiples of 16. Weights: [tap][channel of a
/// group][filter].
struct Convolution1DSize {
  std::size_t samples = 0;
  std::size_t steps = 0, out_steps = 0;
  std::size_t channels = 0, filters = 0;
  std::size_t taps = 1;
  std::size_t stride = 1;
  std::size_t dilation = 1;
  std::size_t groups = 1;
  std::size_t pad = 0;  ///< steps of zeros before each sample
  std::size_t x_stride = 0, y_stride = 0;

  [[nodiscard]] constexpr std::size_t group_channels() const noexcept { return channels / groups; }
  [[nodiscard]] constexpr std::size_t group_filters() const noexcept { return filters / groups; }
  /// Rows of the matrix of shifted copies, for each group.
  [[nodiscard]] constexpr std::size_t rows() const noexcept { return taps * group_channels(); }
  /// Elements of it.
  [[nodiscard]] constexpr std::size_t columns_size() const noexcept {
    return groups * rows() * y_stride;
  }

  /// The row that holds what a tap sees of a channel.
  [[nodiscard]] constexpr std::size_t row(std::size_t tap, std::size_t channel) const noexcept {
    return (channel / group_channels() * taps + tap) * group_channels() +
           channel % group_channels();
  }
  /// Which outputs see a step of the sequence through a tap, and the first such step.
  struct Run {
    std::size_t begin, end, step;
  };
  [[nodiscard]] constexpr Run run(std::size_t tap) const noexcept {
    const std::size_t shift = tap * dilation;
    const std::size_t begin = shift >= pad ? 0 : (pad - shift + stride - 1) / stride;
    const std::size_t end =
        steps + pad <= shift ? 0 : std::min(out_steps, (steps + pad - shift - 1) / stride + 1);
    return {std::min(begin, end), end, begin < end ? begin * stride + shift - pad : 0};
  }
};

namespace detail {

/// The shifted copies of x, for kernels::dispatch.
template <class T>
struct CopyTaps {
  Convolution1DSize size;
  const T* x = nullptr;
  T* columns = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const CopyTaps self = *this;
    const Convolution1DSize s = self.size;
    for (std::size_t channel = 0; channel < s.channels; ++channel)
      for (std::size_t tap = 0; tap < s.taps; ++tap) {
        const Convolution1DSize::Run run = s.run(tap);
        T* to = self.columns + s.row(tap, channel) * s.y_stride;
        std::fill(to + s.samples * s.out_steps, to + s.y_stride, T(0));
        for (std::size_t sample = 0; sample < s.samples; ++sample, to += s.out_steps) {
          const T* const from = self.x + channel * s.x_stride + sample * s.steps + run.step;
          std::fill(to, to + run.begin, T(0));
          std::fill(to + run.end, to + s.out_steps, T(0));
          const std::size_t count = run.end - run.begin;
          if (s.stride == 1)
            for (std::size_t i = 0; i < count; i += P::size)
              P::load_first(from + i, count - i).store_first(to + run.begin + i, count - i);
          else
            for (std::size_t i = 0; i < count; ++i) to[run.begin + i] = from[i * s.stride];
        }
      }
  }
};

/// dx = the sum of the taps' gradients, tap by tap, for kernels::dispatch.
template <class T>
struct SumTaps {
  Convolution1DSize size;
  const T* columns = nullptr;
  T* dx = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const SumTaps self = *this;
    const Convolution1DSize s = self.size;
    for (std::size_t channel = 0; channel < s.channels; ++channel) {
      T* const row = self.dx + channel * s.x_stride;
      std::fill_n(row, s.x_stride, T(0));
      for (std::size_t tap = 0; tap < s.taps; ++tap) {
        const Convolution1DSize::Run run = s.run(tap);
        const T* from = self.columns + s.row(tap, channel) * s.y_stride;  // null without samples
        for (std::size_t sample = 0; sample < s.samples; ++sample, from += s.out_steps) {
          T* const to = row + sample * s.steps + run.step;
          const std::size_t count = run.end - run.begin;
          if (s.stride == 1)
            for (std::size_t i = 0; i < count; i += P::size)
              (P::load_first(to + i, count - i) + P::load_first(from + run.begin + i, count - i))
                  .store_first(to + i, count - i);
          else
            for (std::size_t i = 0; i < count; ++i) to[i * s.stride] += from[run.begin + i];
        }
      }
    }
  }
};

}  // namespace detail

/// y = finish(bias + x convolved with weights); bias may be null: zero. `columns`: columns_size()
/// elements, which the weight gradient wants.
template <class T>
void convolution1d_forward(const Convolution1DSize& s, const T* x, const T* weights, const T* bias,
                           T* y, T* columns, Finish<T> finish = {}) {
  dispatch(detail::CopyTaps<T>{s, x, columns});
  for (std::size_t group = 0; group < s.groups; ++group) {
    const std::size_t filter = group * s.group_filters();
    multiply<T>({y + filter * s.y_stride, s.group_filters(), s.y_stride, s.y_stride},
                weights + filter, columns + group * s.rows() * s.y_stride, s.rows(),
                {.a_row = 1, .a = s.filters, .b = {s.y_stride}},
                bias == nullptr ? nullptr : bias + filter, finish);
  }
}

/// Elements of scratch that convolution1d_weight_gradient needs.
[[nodiscard]] constexpr std::size_t convolution1d_scratch(const Convolution1DSize& s) noexcept {
  return dense_scratch(s.group_filters(), s.y_stride);
}

/// The gradients of weights and bias (null: not wanted) from that of y.
template <class T>
void convolution1d_weight_gradient(const Convolution1DSize& s, const T* columns,
                                   const Delta<T>& delta, T* weight_gradient, T* bias_gradient,
                                   T* scratch) {
  for (std::size_t group = 0; group < s.groups; ++group) {
    const std::size_t filter = group * s.group_filters();
    const std::size_t first = filter * s.y_stride;
    transpose_delta<T>({0, s.group_filters(), s.y_stride},
                       {delta.dy + first, delta.y + first, delta.minimum,
                        delta.masked == nullptr ? nullptr : delta.masked + first},
                       bias_gradient == nullptr ? nullptr : bias_gradient + filter, scratch);
    multiply<T>(
        {weight_gradient + filter, s.rows(), s.group_filters(), s.filters},
        columns + group * s.rows() * s.y_stride, scratch, s.y_stride,
        {.a_row = s.y_stride, .a = 1, .b = transposed_panels(s.group_filters(), s.y_stride)});
  }
}

/// dx from the gradient of y before its activation. It destroys the columns.
template <class T>
void convolution1d_input_gradient(const Convolution1DSize& s, const T* weights, const T* dy,
                                  T* columns, T* dx) {
  for (std::size_t group = 0; group < s.groups; ++group) {
    const std::size_t filter = group * s.group_filters();
    multiply<T>({columns + group * s.rows() * s.y_stride, s.rows(), s.y_stride, s.y_stride},
                weights + filter, dy + filter * s.y_stride, s.group_filters(),
                {.a_row = s.filters, .a = 1, .b = {s.y_stride}});
  }
  dispatch(detail::SumTaps<T>{s, columns, dx});
}

LOCKSTEP_EXTERN(void convolution1d_forward<float>(const Convolution1DSize&, const float*,
                                                  const float*, const float*, float*, float*,
                                                  Finish<float>));
LOCKSTEP_EXTERN(void convolution1d_weight_gradient<float>(const Convolution1DSize&, const float*,
                                                          const Delta<float>&, float*, float*,
                                                          float*));
LOCKSTEP_EXTERN(void convolution1d_input_gradient<float>(const Convolution1DSize&, const float*,
                                                         const float*, float*, float*));
LOCKSTEP_EXTERN_DOUBLE(void convolution1d_forward<double>(const Convolution1DSize&, const double*,
                                                          const double*, const double*, double*,
                                                          double*, Finish<double>));
LOCKSTEP_EXTERN_DOUBLE(void convolution1d_weight_gradient<double>(
    const Convolution1DSize&, const double*, const Delta<double>&, double*, double*, double*));
LOCKSTEP_EXTERN_DOUBLE(void convolution1d_input_gradient<double>(const Convolution1DSize&,
                                                                 const double*, const double*,
                                                                 double*, double*));

}}}  // namespace lockstep::kernels
