// Images made larger by linear interpolation, and the gradient.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

struct BilinearSize {
  std::size_t height = 0, width = 0;  ///< of the small image
  std::size_t factor_down = 1,
              factor_across = 1;  ///< the large one has its rows and columns times these
  std::size_t pixel = 0;  ///< elements of a pixel: channels x padded batch, a multiple of 16
};

namespace detail {

/// Between which two places a place of the large image lies, and how far towards the second one.
/// Pixels are squares about their centres: place p of the large image is (p + 1/2) / factor - 1/2.
template <class T>
struct Between {
  std::size_t low, high;
  T share;

  LOCKSTEP_KERNEL Between(std::size_t place, std::size_t factor, std::size_t extent) {
    const double at = (static_cast<double>(place) + 0.5) / static_cast<double>(factor) - 0.5;
    low = at < 0 ? 0 : static_cast<std::size_t>(at);
    high = at < 0 ? 0 : std::min(low + 1, extent - 1);
    share = at < 0 ? T(0) : static_cast<T>(at - static_cast<double>(low));
  }
};

/// Calls f(number of the large pixel, numbers of the four small ones, their shares).
template <class T, class F>
LOCKSTEP_KERNEL void for_each_large_pixel(const BilinearSize& s, const F& f) {
  const std::size_t columns = s.width * s.factor_across;
  for (std::size_t row = 0; row < s.height * s.factor_down; ++row) {
    const Between<T> down(row, s.factor_down, s.height);
    for (std::size_t column = 0; column < columns; ++column) {
      const Between<T> across(column, s.factor_across, s.width);
      const std::size_t pixels[4] = {
          down.low * s.width + across.low, down.low * s.width + across.high,
          down.high * s.width + across.low, down.high * s.width + across.high};
      const T shares[4] = {(1 - down.share) * (1 - across.share), (1 - down.share) * across.share,
                           down.share * (1 - across.share), down.share * across.share};
      f(row * columns + column, pixels, shares);
    }
  }
}

}  // namespace detail

/// y, the large image, from x, for kernels::dispatch.
template <class T>
struct Bilinear {
  BilinearSize size;
  const T* x = nullptr;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const std::size_t pixel = size.pixel;
    detail::for_each_large_pixel<T>(size, [&](std::size_t large, const std::size_t(&small)[4],
                                              const T(&shares)[4]) LOCKSTEP_KERNEL_LAMBDA {
      for (std::size_t i = 0; i < pixel; i += P::size) {
        P sum(T(0));
#pragma GCC unroll 4
        for (std::size_t k = 0; k < 4; ++k)
          sum = multiply_add(P(x + small[k] * pixel + i), P(shares[k]), sum);
        sum.store(y + large * pixel + i);
      }
    });
  }
};

/// dx = the sum over the large pixels that saw it of dy times the share, for kernels::dispatch.
template <class T>
struct BilinearGradient {
  BilinearSize size;
  const T* dy = nullptr;
  T* dx = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const std::size_t pixel = size.pixel;
    std::fill_n(dx, size.height * size.width * pixel, T(0));
    detail::for_each_large_pixel<T>(size, [&](std::size_t large, const std::size_t(&small)[4],
                                              const T(&shares)[4]) LOCKSTEP_KERNEL_LAMBDA {
      for (std::size_t i = 0; i < pixel; i += P::size) {
        const P gradient(dy + large * pixel + i);
#pragma GCC unroll 4
        for (std::size_t k = 0; k < 4; ++k) {
          T* const to = dx + small[k] * pixel + i;  // (two of them may be the same)
          multiply_add(gradient, P(shares[k]), P(static_cast<const T*>(to))).store(to);
        }
      }
    });
  }
};

LOCKSTEP_KERNEL_INSTANCES(Bilinear);
LOCKSTEP_KERNEL_INSTANCES(BilinearGradient);

}}}  // namespace lockstep::kernels
