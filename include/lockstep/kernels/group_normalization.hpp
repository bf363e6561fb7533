// Normalisation of each sample over groups of channels and all pixels, and its gradients.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/channel_sums.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/vector.hpp"
#include "lockstep/kernels/vector_loops.hpp"

// mean and inverse (1 / sqrt(variance + epsilon)) are arrays of [groups][stride]: one of each for
// every group of every sample. gamma and beta are null, for one and zero, or have a number for each
// channel.
//
// A group of a few vectors of samples is gone through at once, pixel by pixel: it is often small
// enough to be read from the second-level cache when it is needed again. Sums have two levels, in
// registers over `run` values and then over these, so that they may be of type T.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// The channels of one group, in all pixels.
struct GroupOfChannels {
  std::size_t pixels, channels;
  std::size_t pixel_step;  ///< elements from pixel to pixel
  std::size_t stride;      ///< elements from channel to channel
  std::size_t first;       ///< number of its first channel

  /// Pixels whose values are summed up in registers.
  [[nodiscard]] LOCKSTEP_KERNEL std::size_t pixels_in_run() const {
    constexpr std::size_t run = 128;
    return std::max<std::size_t>(run / channels, 1);
  }
};

/// Calls `f.template operator()<Vectors>(group, first, i)` for each group and each piece of at most
/// Most vectors of its samples, padding included: `first` is the piece's element of the group's
/// first feature, i that of an array [groups][stride].
template <class Isa, class T, std::size_t Most, class F>
LOCKSTEP_KERNEL void for_each_group_piece(const ChannelSize& s, std::size_t groups, const F& f) {
  constexpr std::size_t width = lanes<T, Isa>;
  const std::size_t channels = s.channels / groups;
  for (std::size_t g = 0; g < groups; ++g) {
    const GroupOfChannels group{s.pixels, channels, s.channels * s.stride, s.stride, g * channels};
    const std::size_t first = group.first * s.stride;
    std::size_t i = 0;
    for (; i + Most * width <= s.stride; i += Most * width)
      f.template operator()<Most>(group, first + i, g * s.stride + i);
    for (; i < s.stride; i += width) f.template operator()<1>(group, first + i, g * s.stride + i);
  }
}

/// Mean and sum of squared deviations from it of the values of a group, in one pass: each run is
/// summed about the mean of those before it (the first one about its first value), and runs are put
/// together by their means and sums of squares. (Chan, Golub, LeVeque, see channel_moments.hpp.)
template <class T, class P, std::size_t Vectors>
LOCKSTEP_KERNEL void group_moments(const GroupOfChannels& group, const T* x, P (&mean)[Vectors],
                                   P (&squares)[Vectors]) {
  P origin[Vectors];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < Vectors; ++v) {
    mean[v] = squares[v] = P(T(0));
    origin[v] = P(x + v * P::size);
  }
  const std::size_t run = group.pixels_in_run();
  for (std::size_t pixel = 0; pixel < group.pixels; pixel += run) {
    const std::size_t end = std::min(pixel + run, group.pixels);
    P sum[Vectors], products[Vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) sum[v] = products[v] = P(T(0));
    for (std::size_t p = pixel; p < end; ++p) {
      const T* from = x + p * group.pixel_step;
      for (std::size_t c = group.channels; c > 0; --c, from += group.stride) {
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
          const P deviation = P(from + v * P::size) - origin[v];
          sum[v] += deviation;
          products[v] = multiply_add(deviation, deviation, products[v]);
        }
      }
    }
    const T before = static_cast<T>(pixel * group.channels);
    const T count = static_cast<T>((end - pixel) * group.channels);
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) {
      const P average = sum[v] * P(T(1) / count);
      const P distance = origin[v] + average - mean[v];
      // (max: also against what is no number, in padding of any size.)
      squares[v] += max(products[v] - sum[v] * average, P(T(0)));
      squares[v] =
          multiply_add(distance * P(before * count / (before + count)), distance, squares[v]);
      mean[v] += distance * P(count / (before + count));
      origin[v] = mean[v];
    }
  }
}

}  // namespace detail

/// y = (x - mean) * inverse * gamma[c] + beta[c], for kernels::dispatch; mean and variance are
/// those of the channels of the group in all pixels.
template <class T>
struct GroupNormalization {
  ChannelSize size;
  std::size_t groups = 1;  ///< of size.channels / groups channels each
  const T* x = nullptr;
  const T* gamma = nullptr;
  const T* beta = nullptr;
  double epsilon = 0;
  T* mean = nullptr;
  T* inverse = nullptr;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    detail::for_each_group_piece<Isa, T, 4>(
        size, groups,
        [&]<std::size_t Vectors>(const detail::GroupOfChannels& group, std::size_t first,
                                 std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
          P center[Vectors], factor[Vectors];
          detail::group_moments(group, x + first, center, factor);
          const P share(T(1) / static_cast<T>(group.pixels * group.channels));
#pragma GCC unroll 4
          for (std::size_t v = 0; v < Vectors; ++v) {
            factor[v] = P(T(1)) / sqrt(multiply_add(factor[v], share, P(static_cast<T>(epsilon))));
            center[v].store(mean + i + v * P::size);
            factor[v].store(inverse + i + v * P::size);
          }
          for (std::size_t p = 0; p < group.pixels; ++p) {
            const T* from = x + first + p * group.pixel_step;
            T* to = y + first + p * group.pixel_step;
            for (std::size_t c = 0; c < group.channels;
                 ++c, from += group.stride, to += group.stride) {
              const P scale(gamma != nullptr ? gamma[group.first + c] : T(1));
              const P shift(beta != nullptr ? beta[group.first + c] : T(0));
#pragma GCC unroll 4
              for (std::size_t v = 0; v < Vectors; ++v)
                multiply_add((P(from + v * P::size) - center[v]) * factor[v], scale, shift)
                    .store(to + v * P::size);
            }
          }
        });
  }
};

/// The gradients of GroupNormalization, for kernels::dispatch: sums[c] = sum of dy and products[c]
/// = sum of dy * z over pixels and samples; dx = inverse * (g - mean of g - z * mean of g * z),
/// where g = dy * gamma, z = (x - mean) * inverse, and the means are over the values of the group.
/// Zero where dy is. dx may be dy, or null: not wanted.
template <class T>
struct GroupNormalizationGradient {
  ChannelSize size;
  std::size_t groups = 1;
  const T* x = nullptr;
  const T* mean = nullptr;
  const T* inverse = nullptr;
  const T* gamma = nullptr;
  const T* dy = nullptr;  ///< zero in the padding
  T* dx = nullptr;
  double* sums = nullptr;
  double* products = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    std::fill_n(sums, size.channels, 0.0);
    std::fill_n(products, size.channels, 0.0);
    constexpr std::size_t most = Isa::registers == 32 ? 4 : 2;
    detail::for_each_group_piece<Isa, T, most>(
        size, groups,
        [&]<std::size_t Vectors>(const detail::GroupOfChannels& group, std::size_t first,
                                 std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
          Piece<P, Vectors> piece;
#pragma GCC unroll 4
          for (std::size_t v = 0; v < Vectors; ++v) {
            piece.center[v] = P(mean + i + v * P::size);
            piece.factor[v] = P(inverse + i + v * P::size);
            piece.sum[v] = piece.product[v] = P(T(0));
          }
          // (So few channels that their sums stay in the first-level cache.)
          constexpr std::size_t most_channels = 32;
          for (std::size_t c = 0; c < group.channels; c += most_channels)
            add_channels(group, first, c, std::min(most_channels, group.channels - c), piece);
          if (dx != nullptr) write_input_gradient(group, first, piece);
        });
  }

 private:
  /// Some vectors of samples of a group.
  template <class P, std::size_t Vectors>
  struct Piece {
    P center[Vectors], factor[Vectors];
    P sum[Vectors], product[Vectors];  ///< of g, and of g * z
  };

  /// Adds channels [channel, channel + count) of the group to the sums.
  template <class P, std::size_t Vectors>
  LOCKSTEP_KERNEL void add_channels(const detail::GroupOfChannels& group, std::size_t first,
                                    std::size_t channel, std::size_t count,
                                    Piece<P, Vectors>& piece) const {
    const std::size_t run = group.pixels_in_run();
    P channel_sum[32], channel_product[32];
    for (std::size_t pixel = 0; pixel < group.pixels; pixel += run) {
      const std::size_t end = std::min(pixel + run, group.pixels);
      P sum[Vectors], product[Vectors];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Vectors; ++v) sum[v] = product[v] = P(T(0));
      for (std::size_t c = 0; c < count; ++c) channel_sum[c] = channel_product[c] = P(T(0));
      for (std::size_t p = pixel; p < end; ++p) {
        std::size_t at = first + p * group.pixel_step + channel * group.stride;
        for (std::size_t c = 0; c < count; ++c, at += group.stride) {
          const P scale(gamma != nullptr ? gamma[group.first + channel + c] : T(1));
          P gradients = channel_sum[c], normals = channel_product[c];
#pragma GCC unroll 4
          for (std::size_t v = 0; v < Vectors; ++v) {
            const P gradient(dy + at + v * P::size);
            const P normal = (P(x + at + v * P::size) - piece.center[v]) * piece.factor[v];
            const P both = gradient * normal;
            gradients += gradient;
            normals += both;
            sum[v] = multiply_add(gradient, scale, sum[v]);
            product[v] = multiply_add(both, scale, product[v]);
          }
          channel_sum[c] = gradients;
          channel_product[c] = normals;
        }
      }
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Vectors; ++v) {
        piece.sum[v] += sum[v];
        piece.product[v] += product[v];
      }
      for (std::size_t c = 0; c < count; ++c) {
        sums[group.first + channel + c] += static_cast<double>(sum_of_lanes<T>(channel_sum[c].v));
        products[group.first + channel + c] +=
            static_cast<double>(sum_of_lanes<T>(channel_product[c].v));
      }
    }
  }

  template <class P, std::size_t Vectors>
  LOCKSTEP_KERNEL void write_input_gradient(const detail::GroupOfChannels& group, std::size_t first,
                                            Piece<P, Vectors>& piece) const {
    const P share(T(1) / static_cast<T>(group.pixels * group.channels));
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) {
      piece.sum[v] *= -share;
      piece.product[v] *= -share;
    }
    for (std::size_t p = 0; p < group.pixels; ++p) {
      std::size_t at = first + p * group.pixel_step;
      for (std::size_t c = 0; c < group.channels; ++c, at += group.stride) {
        const P scale(gamma != nullptr ? gamma[group.first + c] : T(1));
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
          const P normal = (P(x + at + v * P::size) - piece.center[v]) * piece.factor[v];
          const P rest = multiply_add(normal, piece.product[v], piece.sum[v]);
          (piece.factor[v] * multiply_add(P(dy + at + v * P::size), scale, rest))
              .store(dx + at + v * P::size);
        }
      }
    }
  }
};

LOCKSTEP_KERNEL_INSTANCES(GroupNormalization);
LOCKSTEP_KERNEL_INSTANCES(GroupNormalizationGradient);

}}}  // namespace lockstep::kernels
