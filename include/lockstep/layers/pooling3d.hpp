// Pooling over volumes, and its reverse.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pooling.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of MaxPooling3D and AveragePooling3D.
struct Pooling3DOptions {
  Extent3D stride = 0;  ///< 0: as large as the pool
  Padding padding = Padding::valid;
};

namespace detail {

[[nodiscard]] constexpr Extent3D pooling_stride(Extent3D pool, Extent3D stride) noexcept {
  const Extent2D plane = pooling_stride(pool.plane(), stride.plane());
  return {stride.depth > 0 ? stride.depth : pool.depth, plane.height, plane.width};
}

template <std::size_t Position, class In>
consteval bool check_volume() {
  static_assert(VolumeInput<Position, In>,
                "lockstep: a 3-D pooling layer needs an input of depth x height x width x "
                "channels, and its input is no such volume: put ls::Reshape<depth, height, width, "
                "channels> before it");
  return true;
}

/// One pool over the whole of each channel. (A volume is an image of all its rows.)
struct GlobalPooling3D {
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return check_volume<Position, In>();
  }

  template <class In>
  using Output = Shape<In::extents[In::rank - 1]>;

  template <class In>
  static constexpr kernels::PoolingSize size(std::size_t batch) {
    return GlobalPooling2D::size<
        Shape<In::extents[0] * In::extents[1], In::extents[2], In::extents[3]>>(batch);
  }
};

/// The pools of volumes of shape Large, in two passes: over each plane, then over the planes; of
/// the largest value as of the mean that is the same. `Small`: the shape of the result.
template <class Large, class Small, Extent3D Pool, Extent3D Stride, Padding How>
struct VolumePools {
  static constexpr std::size_t depth = Large::extents[0];
  /// Elements of a sample between the passes.
  static constexpr std::size_t between = depth * (Small::size / Small::extents[0]);

  std::size_t batch;

  [[nodiscard]] constexpr kernels::PoolingSize in_plane() const {
    return pooling_size<Shape<Large::extents[1], Large::extents[2], Large::extents[3]>>(
        Pool.plane(), Stride.plane(), How, batch);
  }
  [[nodiscard]] constexpr kernels::PoolingSize of_planes() const {
    return pooling_size<Shape<depth, 1, between / depth>>({Pool.depth, 1}, {Stride.depth, 1}, How,
                                                          batch);
  }
  /// Elements of a plane of the large volume.
  [[nodiscard]] constexpr std::size_t plane() const { return Large::size / depth * batch; }
  /// And of one between the passes.
  [[nodiscard]] constexpr std::size_t plane_between() const { return between / depth * batch; }
};

template <class In, Extent3D Size>
constexpr auto volume_up_sampling_output() {
  if constexpr (VolumeInput<0, In>)
    return Shape<In::extents[0] * Size.depth, In::extents[1] * Size.height,
                 In::extents[2] * Size.width, In::extents[3]>{};
  else
    return Shape<1, 1, 1, 1>{};  // (the message of check() says enough)
}

/// A pool that slides over samples of shape Shape<depth, height, width, channels>. `Operation`: as
/// of PoolingLayer.
template <Extent3D Pool, Pooling3DOptions Options, class Operation>
struct Pooling3D {
  static_assert(Pool.size() > 0,
                "lockstep: the pool of a pooling layer must be at least 1 x 1 x 1");
  static_assert(Options.padding != Padding::causal,
                "lockstep: pooling layers have no causal padding");

  static constexpr bool keeps_padding = true;
  static constexpr Extent3D stride = pooling_stride(Pool, Options.stride);

  template <std::size_t Position, class In>
  static consteval bool check() {
    check_volume<Position, In>();
    if constexpr (VolumeInput<Position, In> && Options.padding == Padding::valid)
      static_assert(InputWithRoomFor<Position, In, Shape<Pool.depth, Pool.height, Pool.width>>,
                    "lockstep: the pool of a pooling layer is larger than its input: make it "
                    "smaller, or pad the input with ls::Pooling3DOptions{.padding = "
                    "ls::Padding::same}");
    return true;
  }

  template <class In>
  using Output =
      decltype(volume_of_windows<In, Pool, stride, Options.padding, In::extents[In::rank - 1]>());

  template <class In>
  static constexpr std::size_t scratch(std::size_t batch) {
    return Operation::looks_at_values ? Pools<In>::between * batch : 0;
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t batch) {
    return Pools<In>::between * batch;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    using Forward = typename Operation::template Forward<T>;
    const Pools<In> pools{pass.x.stride()};
    T* const between = (Operation::looks_at_values ? pass.scratch : pass.temporary).data();
    for (std::size_t i = 0; i < pools.depth; ++i)
      kernels::dispatch(Forward{pools.in_plane(), pass.x.data() + i * pools.plane(),
                                between + i * pools.plane_between()});
    kernels::dispatch(Forward{pools.of_planes(), between, pass.y.data()});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const Pools<In> pools{pass.dy.stride()};
    const T* const between = pass.scratch.data();
    T* const gradient = pass.temporary.data();
    BackwardPass<T> part = pass;
    part.x = {between, 0, 0, 0};
    part.dx = {gradient, 0, 0, 0};
    kernels::dispatch(Operation::template gradient<T>(pools.of_planes(), part));
    for (std::size_t i = 0; i < pools.depth; ++i) {
      const std::size_t plane = i * pools.plane(), reduced = i * pools.plane_between();
      part.x = {pass.x.data() + plane, 0, 0, 0};
      part.y = {between + reduced, 0, 0, 0};
      part.dy = {gradient + reduced, 0, 0, 0};
      part.dx = {pass.dx.data() + plane, 0, 0, 0};
      kernels::dispatch(Operation::template gradient<T>(pools.in_plane(), part));
    }
  }

 private:
  template <class In>
  using Pools = VolumePools<In, Output<In>, Pool, stride, Options.padding>;
};

}  // namespace detail

/// The largest value of each window and channel, for samples of shape Shape<depth, height, width,
/// channels>; as MaxPooling2D. `Pool` is an extent or {depth, height, width}, 2 by default, and so
/// is the stride in Pooling3DOptions, by default that of the pool.
/// Use: `MaxPooling3D<>`: Shape<8, 28, 28, 4> -> Shape<4, 14, 14, 4>.
template <Extent3D Pool = 2, Pooling3DOptions Options = Pooling3DOptions{}>
struct MaxPooling3D : detail::Pooling3D<Pool, Options, detail::MaxOperation> {
  static constexpr std::string_view name = "max_pooling3d";
  static constexpr std::string_view class_name = "MaxPooling3D";
};

/// The mean of each window and channel, for samples of shape Shape<depth, height, width,
/// channels>; as AveragePooling2D. `Pool` and options: as of MaxPooling3D.
/// Use: `AveragePooling3D<2, Pooling3DOptions{.stride = 1}>`: Shape<8, 28, 28, 4> -> Shape<7, 27,
/// 27, 4>.
template <Extent3D Pool = 2, Pooling3DOptions Options = Pooling3DOptions{}>
struct AveragePooling3D : detail::Pooling3D<Pool, Options, detail::AverageOperation> {
  static constexpr std::string_view name = "average_pooling3d";
  static constexpr std::string_view class_name = "AveragePooling3D";
};

/// The largest value of each channel: Shape<channels> from samples of shape Shape<depth, height,
/// width, channels>. The gradient goes to the first of equal maxima.
/// Use: `GlobalMaxPooling3D`: Shape<4, 7, 7, 8> -> Shape<8>.
struct GlobalMaxPooling3D : detail::PoolingLayer<detail::GlobalPooling3D, detail::MaxOperation> {
  static constexpr std::string_view name = "global_max_pooling3d";
  static constexpr std::string_view class_name = "GlobalMaxPooling3D";
};

/// The mean of each channel: Shape<channels> from samples of shape Shape<depth, height, width,
/// channels>.
/// Use: `GlobalAveragePooling3D`: Shape<4, 7, 7, 8> -> Shape<8>.
struct GlobalAveragePooling3D
    : detail::PoolingLayer<detail::GlobalPooling3D, detail::AverageOperation> {
  static constexpr std::string_view name = "global_average_pooling3d";
  static constexpr std::string_view class_name = "GlobalAveragePooling3D";
};

/// `Size` times the planes, rows and columns of samples of shape Shape<depth, height, width,
/// channels>, each value repeated; it is a number for all or {planes, rows, columns}.
/// Use: `UpSampling3D<2>`: Shape<4, 7, 7, 8> -> Shape<8, 14, 14, 8>.
template <Extent3D Size = 2>
struct UpSampling3D {
  static_assert(Size.size() > 0, "lockstep: the size of UpSampling3D must be at least 1");

  static constexpr std::string_view name = "up_sampling3d";
  static constexpr std::string_view class_name = "UpSampling3D";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(VolumeInput<Position, In>,
                  "lockstep: UpSampling3D needs an input of depth x height x width x channels, and "
                  "its input is no such volume: put ls::Reshape<depth, height, width, channels> "
                  "before it");
    return true;
  }

  template <class In>
  using Output = decltype(detail::volume_up_sampling_output<In, Size>());

  template <class In>
  static constexpr std::size_t temporary(std::size_t batch) {
    return Pools<In>::between * batch;
  }

  // Each value is spread over a pool of the large volume.

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    using Spread = kernels::AveragePoolingGradient<T, false>;
    const Pools<In> pools{pass.x.stride()};
    const T* const between = pass.temporary.data();
    kernels::dispatch(Spread{pools.of_planes(), pass.x.data(), pass.temporary.data()});
    for (std::size_t i = 0; i < pools.depth; ++i)
      kernels::dispatch(Spread{pools.in_plane(), between + i * pools.plane_between(),
                               pass.y.data() + i * pools.plane()});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    using Sum = kernels::AveragePooling<T, false>;
    const Pools<In> pools{pass.dy.stride()};
    T* const between = pass.temporary.data();
    for (std::size_t i = 0; i < pools.depth; ++i)
      kernels::dispatch(Sum{pools.in_plane(), pass.dy.data() + i * pools.plane(),
                            between + i * pools.plane_between()});
    kernels::dispatch(Sum{pools.of_planes(), between, pass.dx.data()});
  }

 private:
  template <class In>
  using Pools = detail::VolumePools<Output<In>, In, Size, Size, Padding::valid>;
};

}}  // namespace lockstep
