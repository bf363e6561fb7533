// Each token or pixel several times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/interpolation.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/bilinear.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pooling.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Each token of a Sequence<T, features> Size times, one after the other. The mask ends here.
/// Use: `UpSampling1D<2>`: Sequence<10, 4> -> Sequence<20, 4>.
template <std::size_t Size = 2>
struct UpSampling1D {
  static_assert(Size > 0, "lockstep: the size of UpSampling1D must be at least 1");
  static constexpr std::string_view name = "up_sampling1d";
  static constexpr std::string_view class_name = "UpSampling1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return detail::check_sequence_window<Position, In,
                                         detail::SequenceWindows<1, 1, Padding::valid>>();
  }

  template <class In>
  using Output = Sequence<positions_of<In> * Size, TokenOf<In>::size>;

  // (The sequences of a batch follow one another without gaps, in x as in y.)

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    for (std::size_t feature = 0; feature < TokenOf<In>::size; ++feature) {
      const T* const from = pass.x.feature(feature);
      for (std::size_t i = 0; i < pass.x.samples(); ++i)
        std::fill_n(pass.y.feature(feature) + i * Size, Size, from[i]);
    }
    pass.y.clear_padding();
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    for (std::size_t feature = 0; feature < TokenOf<In>::size; ++feature) {
      const T* from = pass.dy.feature(feature);
      T* const to = pass.dx.feature(feature);
      for (std::size_t i = 0; i < pass.dx.samples(); ++i, from += Size) {
        to[i] = from[0];
        for (std::size_t k = 1; k < Size; ++k) to[i] += from[k];
      }
    }
    pass.dx.clear_padding();
  }
};

/// Compile-time options of UpSampling2D; the default is Keras's.
struct UpSampling2DOptions {
  Interpolation interpolation = Interpolation::nearest;
};

namespace detail {

template <class In, Extent2D Size>
constexpr auto up_sampling_output() {
  if constexpr (In::rank == 3)
    return Shape<In::extents[0] * Size.height, In::extents[1] * Size.width, In::extents[2]>{};
  else
    return Shape<1, 1, 1>{};  // (the message of check() says enough)
}

}  // namespace detail

/// `Size` times the rows and columns of samples of shape Shape<height, width, channels>; it is a
/// number for both or {rows, columns}, 2 by default.
/// Use: `UpSampling2D<2>`: Shape<7, 7, 8> -> Shape<14, 14, 8>.
template <Extent2D Size = 2, UpSampling2DOptions Options = UpSampling2DOptions{}>
struct UpSampling2D {
  static_assert(Size.height > 0 && Size.width > 0,
                "lockstep: the size of UpSampling2D must be at least 1");

  static constexpr std::string_view name = "up_sampling2d";
  static constexpr std::string_view class_name = "UpSampling2D";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: UpSampling2D needs an input of height x width x channels, and its "
                  "input is no such image: put ls::Reshape<height, width, channels> before it");
    return true;
  }

  template <class In>
  using Output = decltype(detail::up_sampling_output<In, Size>());

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    if constexpr (is_bilinear)
      kernels::dispatch(
          kernels::Bilinear<T>{size<In>(pass.x.stride()), pass.x.data(), pass.y.data()});
    else  // each pixel is spread over a window
      kernels::dispatch(kernels::AveragePoolingGradient<T, false>{windows<In>(pass.x.stride()),
                                                                  pass.x.data(), pass.y.data()});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    if constexpr (is_bilinear)
      kernels::dispatch(
          kernels::BilinearGradient<T>{size<In>(pass.dy.stride()), pass.dy.data(), pass.dx.data()});
    else
      kernels::dispatch(kernels::AveragePooling<T, false>{windows<In>(pass.dy.stride()),
                                                          pass.dy.data(), pass.dx.data()});
  }

 private:
  static constexpr bool is_bilinear = Options.interpolation == Interpolation::bilinear;

  template <class In>
  static constexpr kernels::BilinearSize size(std::size_t batch) {
    return {.height = In::extents[0],
            .width = In::extents[1],
            .factor_down = Size.height,
            .factor_across = Size.width,
            .pixel = In::extents[2] * batch};
  }

  /// Of the large image: one for each pixel of the small one.
  template <class In>
  static constexpr kernels::PoolingSize windows(std::size_t batch) {
    return {.height = Output<In>::extents[0],
            .width = Output<In>::extents[1],
            .out_height = In::extents[0],
            .out_width = In::extents[1],
            .pool_height = Size.height,
            .pool_width = Size.width,
            .stride_height = Size.height,
            .stride_width = Size.width,
            .pixel = In::extents[2] * batch};
  }
};

}}  // namespace lockstep
