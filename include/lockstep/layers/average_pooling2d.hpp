// AveragePooling2D: the mean of each window.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/average_pooling.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/pooling.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// Means of the windows that Windows (Pooling2D, GlobalPooling2D) has.
template <class Windows>
struct AveragePooling : Windows {
  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::dispatch(
        kernels::AveragePooling<T>{Windows::template size<In>(pass.x.stride()), pass.x.data(), pass.y.data()});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    kernels::dispatch(kernels::AveragePoolingGradient<T>{Windows::template size<In>(pass.x.stride()), pass.dy.data(),
                                                         pass.dx.data()});
  }
};

}  // namespace detail

/// The mean of each window and channel, for samples of shape Shape<height, width, channels>. `Pool` is an extent or {height,
/// width}, 2 by default, and so is the stride in PoolingOptions, by default that of the pool. With Padding::same it is the mean
/// of what lies inside the image, as in TensorFlow.
template <Extent2D Pool = 2, PoolingOptions Options = PoolingOptions{}>
struct AveragePooling2D : detail::AveragePooling<detail::Pooling2D<Pool, Options>> {
  static constexpr std::string_view name = "average_pooling2d";
  static constexpr std::string_view class_name = "AveragePooling2D";
};

static_assert(Layer<AveragePooling2D<>, Shape<26, 26, 32>>);
static_assert(Layer<AveragePooling2D<Extent2D{3, 2}, PoolingOptions{.stride = 1, .padding = Padding::same}>,
                    Shape<2, 2, 1>, double>);

}  // namespace lockstep::inline LOCKSTEP_ABI
