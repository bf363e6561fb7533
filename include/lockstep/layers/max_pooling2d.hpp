// MaxPooling2D: the largest value of each window.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/max_pooling.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/pooling.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// Maxima of the windows that Windows (Pooling2D, GlobalPooling2D) has.
template <class Windows>
struct MaxPooling : Windows {
  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::dispatch(
        kernels::MaxPooling<T>{Windows::template size<In>(pass.x.stride()), pass.x.data(), pass.y.data()});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    kernels::dispatch(kernels::MaxPoolingGradient<T>{Windows::template size<In>(pass.x.stride()), pass.x.data(),
                                                     pass.y.data(), pass.dy.data(), pass.dx.data()});
  }
};

}  // namespace detail

/// The largest value of each window and channel, for samples of shape Shape<height, width, channels>. `Pool` is an extent or
/// {height, width}, 2 by default, and so is the stride in PoolingOptions, by default that of the pool. With Padding::same
/// what lies outside the image is no candidate. The gradient goes to the first of equal maxima. NaN stays visible.
template <Extent2D Pool = 2, PoolingOptions Options = PoolingOptions{}>
struct MaxPooling2D : detail::MaxPooling<detail::Pooling2D<Pool, Options>> {
  static constexpr std::string_view name = "max_pooling2d";
  static constexpr std::string_view class_name = "MaxPooling2D";
};

static_assert(Layer<MaxPooling2D<>, Shape<26, 26, 32>>);
static_assert(
    Layer<MaxPooling2D<Extent2D{3, 2}, PoolingOptions{.stride = 1, .padding = Padding::same}>, Shape<2, 2, 1>, double>);

}  // namespace lockstep::inline LOCKSTEP_ABI
