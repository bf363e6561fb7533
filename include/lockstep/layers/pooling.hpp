// Pooling over images.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pooling.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of MaxPooling2D and AveragePooling2D: `MaxPooling2D<3,
/// PoolingOptions{.stride = 2}>`.
struct PoolingOptions {
  Extent2D stride = 0;  ///< 0: as large as the pool
  Padding padding = Padding::valid;
};

namespace detail {

[[nodiscard]] constexpr Extent2D pooling_stride(Extent2D pool, Extent2D stride) noexcept {
  return {stride.height > 0 ? stride.height : pool.height,
          stride.width > 0 ? stride.width : pool.width};
}

/// A Shape of ones where the input is none that a pool takes: the message of check() says enough.
template <class In, Extent2D Pool, PoolingOptions Options>
constexpr auto pooling_output() {
  if constexpr (In::rank == 3) {
    constexpr Extent2D stride = pooling_stride(Pool, Options.stride);
    constexpr bool fits =
        Options.padding == Padding::same || InputWithRoomFor<0, In, Shape<Pool.height, Pool.width>>;
    if constexpr (fits)
      return Shape<window_outputs(In::extents[0], Pool.height, stride.height, Options.padding),
                   window_outputs(In::extents[1], Pool.width, stride.width, Options.padding),
                   In::extents[2]>{};
    else
      return Shape<1, 1, 1>{};
  } else {
    return Shape<1, 1, 1>{};
  }
}

/// Pools of this extent in samples of shape In.
template <class In>
constexpr kernels::PoolingSize pooling_size(Extent2D pool, Extent2D stride, Padding padding,
                                            std::size_t batch) {
  return {.height = In::extents[0],
          .width = In::extents[1],
          .out_height = window_outputs(In::extents[0], pool.height, stride.height, padding),
          .out_width = window_outputs(In::extents[1], pool.width, stride.width, padding),
          .pool_height = pool.height,
          .pool_width = pool.width,
          .stride_height = stride.height,
          .stride_width = stride.width,
          .pad_top = window_padding(In::extents[0], pool.height, stride.height, padding),
          .pad_left = window_padding(In::extents[1], pool.width, stride.width, padding),
          .pixel = In::extents[2] * batch};
}

/// One pool over the whole of each channel: Shape<channels> from Shape<height, width, channels>.
struct GlobalPooling2D {
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: a 2-D pooling layer needs an input of height x width x channels, and "
                  "its input is no such image: put ls::Reshape<height, width, channels> before it");
    return true;
  }

  template <class In>
  using Output = Shape<In::extents[In::rank - 1]>;

  template <class In>
  static constexpr kernels::PoolingSize size(std::size_t batch) {
    constexpr Extent2D image{In::extents[0], In::extents[1]};
    return pooling_size<In>(image, image, Padding::valid, batch);
  }
};

/// A pool that slides over samples of shape Shape<height, width, channels>.
template <Extent2D Pool, PoolingOptions Options>
struct Pooling2D {
  static_assert(Pool.height > 0 && Pool.width > 0,
                "lockstep: the pool of a pooling layer must be at least 1 x 1");
  static_assert(Options.padding != Padding::causal,
                "lockstep: pooling layers have no causal padding");

  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    GlobalPooling2D::check<Position, In>();
    if constexpr (ImageInput<Position, In> && Options.padding == Padding::valid)
      static_assert(InputWithRoomFor<Position, In, Shape<Pool.height, Pool.width>>,
                    "lockstep: the pool of a pooling layer is larger than its input: make it "
                    "smaller, or pad the input "
                    "with ls::PoolingOptions{.padding = ls::Padding::same}");
    return true;
  }

  template <class In>
  using Output = decltype(pooling_output<In, Pool, Options>());

  template <class In>
  static constexpr kernels::PoolingSize size(std::size_t batch) {
    return pooling_size<In>(Pool, pooling_stride(Pool, Options.stride), Options.padding, batch);
  }
};

/// A layer of `Windows` (Pooling2D, GlobalPooling2D). `Operation` makes one value of each:
///   Operation::Forward<T>, a kernel of {PoolingSize, x, y};
///   Operation::gradient<T>(PoolingSize, const BackwardPass<T>&), the kernel that writes dx.
template <class Windows, class Operation>
struct PoolingLayer : Windows {
  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::dispatch(typename Operation::template Forward<T>{
        Windows::template size<In>(pass.x.stride()), pass.x.data(), pass.y.data()});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    kernels::dispatch(
        Operation::template gradient<T>(Windows::template size<In>(pass.x.stride()), pass));
  }
};

/// The largest value of each window.
struct MaxOperation {
  static constexpr bool looks_at_values = true;  ///< gradient reads x and y
  template <class T>
  using Forward = kernels::MaxPooling<T>;
  template <class T>
  static kernels::MaxPoolingGradient<T> gradient(const kernels::PoolingSize& size,
                                                 const BackwardPass<T>& pass) {
    return {size, pass.x.data(), pass.y.data(), pass.dy.data(), pass.dx.data()};
  }
};

/// The mean of each window.
struct AverageOperation {
  static constexpr bool looks_at_values = false;
  template <class T>
  using Forward = kernels::AveragePooling<T>;
  template <class T>
  static kernels::AveragePoolingGradient<T> gradient(const kernels::PoolingSize& size,
                                                     const BackwardPass<T>& pass) {
    return {size, pass.dy.data(), pass.dx.data()};
  }
};

}  // namespace detail

/// The largest value of each window and channel, for samples of shape Shape<height, width,
/// channels>. `Pool` is an extent or {height, width}, 2 by default, and so is the stride in
/// PoolingOptions, by default that of the pool. With Padding::same what lies outside the image is
/// no candidate. The gradient goes to the first of equal maxima. NaN stays visible.
/// Use: `MaxPooling2D<>`: Shape<28, 28, 8> -> Shape<14, 14, 8>.
template <Extent2D Pool = 2, PoolingOptions Options = PoolingOptions{}>
struct MaxPooling2D : detail::PoolingLayer<detail::Pooling2D<Pool, Options>, detail::MaxOperation> {
  static constexpr std::string_view name = "max_pooling2d";
  static constexpr std::string_view class_name = "MaxPooling2D";
};

/// The mean of each window and channel, for samples of shape Shape<height, width, channels>. `Pool`
/// is an extent or {height, width}, 2 by default, and so is the stride in PoolingOptions, by
/// default that of the pool. With Padding::same it is the mean of what lies inside the image, as in
/// TensorFlow.
/// Use: `AveragePooling2D<3, PoolingOptions{.stride = 2}>`: Shape<28, 28, 8> -> Shape<13, 13, 8>.
template <Extent2D Pool = 2, PoolingOptions Options = PoolingOptions{}>
struct AveragePooling2D
    : detail::PoolingLayer<detail::Pooling2D<Pool, Options>, detail::AverageOperation> {
  static constexpr std::string_view name = "average_pooling2d";
  static constexpr std::string_view class_name = "AveragePooling2D";
};

/// The largest value of each channel: Shape<channels> from samples of shape Shape<height, width,
/// channels>. The gradient goes to the first of equal maxima.
/// Use: `GlobalMaxPooling2D`: Shape<7, 7, 8> -> Shape<8>.
struct GlobalMaxPooling2D : detail::PoolingLayer<detail::GlobalPooling2D, detail::MaxOperation> {
  static constexpr std::string_view name = "global_max_pooling2d";
  static constexpr std::string_view class_name = "GlobalMaxPooling2D";
};

/// The mean of each channel: Shape<channels> from samples of shape Shape<height, width, channels>.
/// Use: `GlobalAveragePooling2D`: Shape<7, 7, 8> -> Shape<8>.
struct GlobalAveragePooling2D
    : detail::PoolingLayer<detail::GlobalPooling2D, detail::AverageOperation> {
  static constexpr std::string_view name = "global_average_pooling2d";
  static constexpr std::string_view class_name = "GlobalAveragePooling2D";
};

}}  // namespace lockstep
