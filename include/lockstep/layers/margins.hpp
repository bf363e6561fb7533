// Margins around images and volumes, and at the ends of sequences: zeros are put there, or they are
// cut off.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/sequences.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Rows and columns around an image, as a template argument: `2` on all sides, `{1, 2}` above and
/// below, left and right, `{top, bottom, left, right}`.
struct Margins2D {
  std::size_t top = 0, bottom = 0, left = 0, right = 0;

  constexpr Margins2D() = default;
  template <std::integral I>
  constexpr Margins2D(I all)
      : Margins2D(static_cast<std::size_t>(all), static_cast<std::size_t>(all)) {}
  constexpr Margins2D(std::size_t rows, std::size_t columns)
      : Margins2D(rows, rows, columns, columns) {}
  constexpr Margins2D(std::size_t above, std::size_t below, std::size_t before, std::size_t after)
      : top(above), bottom(below), left(before), right(after) {}
};

/// Planes, rows and columns around a volume: `2` on all sides, `{1, 2, 3}` before and behind, above
/// and below, left and right, or each by itself.
struct Margins3D {
  std::size_t front = 0, back = 0;
  Margins2D plane;

  constexpr Margins3D() = default;
  template <std::integral I>
  constexpr Margins3D(I all) : front(static_cast<std::size_t>(all)), back(front), plane(all) {}
  constexpr Margins3D(std::size_t planes, std::size_t rows, std::size_t columns)
      : front(planes), back(planes), plane(rows, columns) {}
  constexpr Margins3D(std::size_t before, std::size_t behind, std::size_t above, std::size_t below,
                      std::size_t left, std::size_t right)
      : front(before), back(behind), plane(above, below, left, right) {}
};

namespace detail {

/// Large is an image with Margins around an image of shape Small; both have `stride` samples.
template <class Small, class Large, Margins2D Margins>
struct Framed {
  /// large = small, and 0 in the margins.
  template <class T>
  static void put(const T* small, T* large, std::size_t stride) {
    const std::size_t pixel = Small::extents[2] * stride;
    const std::size_t row = Large::extents[1] * pixel, inner_row = Small::extents[1] * pixel;
    T* to = std::fill_n(large, Margins.top * row, T(0));
    for (std::size_t r = 0; r < Small::extents[0]; ++r) {
      to = std::fill_n(to, Margins.left * pixel, T(0));
      to = std::copy_n(small + r * inner_row, inner_row, to);
      to = std::fill_n(to, Margins.right * pixel, T(0));
    }
    std::fill_n(to, Margins.bottom * row, T(0));
  }

  /// small = large without the margins.
  template <class T>
  static void take(const T* large, T* small, std::size_t stride) {
    const std::size_t pixel = Small::extents[2] * stride;
    const std::size_t row = Large::extents[1] * pixel, inner_row = Small::extents[1] * pixel;
    for (std::size_t r = 0; r < Small::extents[0]; ++r)
      std::copy_n(large + (Margins.top + r) * row + Margins.left * pixel, inner_row,
                  small + r * inner_row);
  }
};

}  // namespace detail

namespace detail {

/// `to`, a batch of sequences To, is `from`, one of From: shifted by `pad` tokens to the end, or by
/// `skip` to the beginning, with zeros where it has none.
template <class From, class To, class T>
void shift_tokens(TensorView<const T> from, TensorView<T> to, std::size_t pad, std::size_t skip) {
  kernels::shift_sequences<T>({.features = TokenOf<From>::size,
                               .samples = from.samples() / positions_of<From>,
                               .from_steps = positions_of<From>,
                               .from_stride = from.stride(),
                               .to_steps = positions_of<To>,
                               .to_stride = to.stride(),
                               .skip = skip,
                               .pad = pad},
                              from.data(), to.data());
}

}  // namespace detail

/// Left tokens of zeros before a Sequence<T, features> and Right behind it; `ZeroPadding1D<2>`: 2
/// at both ends. The mask ends here.
/// Use: `ZeroPadding1D<2>`: Sequence<10, 4> -> Sequence<14, 4>.
template <std::size_t Left = 1, std::size_t Right = Left>
struct ZeroPadding1D {
  static constexpr std::string_view name = "zero_padding1d";
  static constexpr std::string_view class_name = "ZeroPadding1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return detail::check_sequence_window<Position, In,
                                         detail::SequenceWindows<1, 1, Padding::valid>>();
  }

  template <class In>
  using Output = Sequence<positions_of<In> + Left + Right, TokenOf<In>::size>;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    detail::shift_tokens<In, Output<In>, T>(pass.x, pass.y, Left, 0);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    detail::shift_tokens<Output<In>, In, T>(pass.dy, pass.dx, 0, Left);
  }
};

/// A Sequence<T, features> without its first Left and its last Right tokens; `Cropping1D<2>`: 2 at
/// both ends. The mask ends here.
/// Use: `Cropping1D<2>`: Sequence<10, 4> -> Sequence<6, 4>.
template <std::size_t Left = 1, std::size_t Right = Left>
struct Cropping1D {
 private:
  using Windows = detail::SequenceWindows<Left + Right + 1, 1, Padding::valid>;

 public:
  static constexpr std::string_view name = "cropping1d";
  static constexpr std::string_view class_name = "Cropping1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return detail::check_sequence_window<Position, In, Windows>();
  }

  template <class In>
  using Output = Sequence<Windows::template outputs<In>, TokenOf<In>::size>;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    detail::shift_tokens<In, Output<In>, T>(pass.x, pass.y, 0, Left);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    detail::shift_tokens<Output<In>, In, T>(pass.dy, pass.dx, Left, 0);
  }
};

namespace detail {

template <class In, Margins2D Margins>
constexpr auto zero_padding_output() {
  if constexpr (In::rank == 3)
    return Shape<In::extents[0] + Margins.top + Margins.bottom,
                 In::extents[1] + Margins.left + Margins.right, In::extents[2]>{};
  else
    return Shape<1, 1, 1>{};  // (the message of check() says enough)
}

}  // namespace detail

/// Puts zeros around samples of shape Shape<height, width, channels>: `ZeroPadding2D<1>`,
/// `ZeroPadding2D<Margins2D{0, 1, 0, 1}>` (top, bottom, left, right).
/// Use: `ZeroPadding2D<1>`: Shape<28, 28, 1> -> Shape<30, 30, 1>.
template <Margins2D Margins = 1>
struct ZeroPadding2D {
  static constexpr std::string_view name = "zero_padding2d";
  static constexpr std::string_view class_name = "ZeroPadding2D";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: ZeroPadding2D needs an input of height x width x channels, and its "
                  "input is no such image: put ls::Reshape<height, width, channels> before it");
    return true;
  }

  template <class In>
  using Output = decltype(detail::zero_padding_output<In, Margins>());

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    detail::Framed<In, Output<In>, Margins>::put(pass.x.data(), pass.y.data(), pass.x.stride());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const T* const dy = pass.dy.data();
    detail::Framed<In, Output<In>, Margins>::take(dy, pass.dx.data(), pass.dy.stride());
  }
};

namespace detail {

/// The least extents of which something is left.
template <Margins2D Margins>
using LeastCropped = Shape<Margins.top + Margins.bottom + 1, Margins.left + Margins.right + 1>;

template <class In, Margins2D Margins>
constexpr auto cropping_output() {
  if constexpr (ImageInput<0, In> && InputWithRoomFor<0, In, LeastCropped<Margins>>)
    return Shape<In::extents[0] - Margins.top - Margins.bottom,
                 In::extents[1] - Margins.left - Margins.right, In::extents[2]>{};
  else
    return Shape<1, 1, 1>{};  // (the message of check() says enough)
}

}  // namespace detail

/// Takes rows and columns off samples of shape Shape<height, width, channels>: `Cropping2D<1>`,
/// `Cropping2D<Margins2D{0, 1, 0, 1}>` (top, bottom, left, right).
/// Use: `Cropping2D<2>`: Shape<28, 28, 1> -> Shape<24, 24, 1>.
template <Margins2D Margins = 0>
struct Cropping2D {
  static constexpr std::string_view name = "cropping2d";
  static constexpr std::string_view class_name = "Cropping2D";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: Cropping2D needs an input of height x width x channels, and its input "
                  "is no such image: put ls::Reshape<height, width, channels> before it");
    if constexpr (ImageInput<Position, In>)
      static_assert(InputWithRoomFor<Position, In, detail::LeastCropped<Margins>>,
                    "lockstep: Cropping2D leaves nothing of its input: take less off");
    return true;
  }

  template <class In>
  using Output = decltype(detail::cropping_output<In, Margins>());

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    detail::Framed<Output<In>, In, Margins>::take(pass.x.data(), pass.y.data(), pass.x.stride());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const T* const dy = pass.dy.data();
    detail::Framed<Output<In>, In, Margins>::put(dy, pass.dx.data(), pass.dy.stride());
  }
};

namespace detail {

template <class In, Margins3D Margins>
constexpr auto volume_padding_output() {
  if constexpr (VolumeInput<0, In>)
    return Shape<In::extents[0] + Margins.front + Margins.back,
                 In::extents[1] + Margins.plane.top + Margins.plane.bottom,
                 In::extents[2] + Margins.plane.left + Margins.plane.right, In::extents[3]>{};
  else
    return Shape<1, 1, 1, 1>{};  // (the message of check() says enough)
}

/// Large is a volume with Margins around one of shape Small.
template <class Small, class Large, Margins3D Margins>
struct FramedVolume {
  template <class S>
  using Plane = Shape<S::extents[1], S::extents[2], S::extents[3]>;
  using Framed = detail::Framed<Plane<Small>, Plane<Large>, Margins.plane>;

  template <class T>
  static void put(const T* small, T* large, std::size_t stride) {
    const std::size_t plane = Plane<Large>::size * stride;
    T* to = std::fill_n(large, Margins.front * plane, T(0));
    for (std::size_t i = 0; i < Small::extents[0]; ++i, to += plane)
      Framed::put(small + i * Plane<Small>::size * stride, to, stride);
    std::fill_n(to, Margins.back * plane, T(0));
  }
  template <class T>
  static void take(const T* large, T* small, std::size_t stride) {
    for (std::size_t i = 0; i < Small::extents[0]; ++i)
      Framed::take(large + (Margins.front + i) * Plane<Large>::size * stride,
                   small + i * Plane<Small>::size * stride, stride);
  }
};

}  // namespace detail

/// Puts zeros around samples of shape Shape<depth, height, width, channels>: `ZeroPadding3D<1>`,
/// `ZeroPadding3D<Margins3D{0, 1, 1}>`.
/// Use: `ZeroPadding3D<1>`: Shape<8, 28, 28, 1> -> Shape<10, 30, 30, 1>.
template <Margins3D Margins = 1>
struct ZeroPadding3D {
  static constexpr std::string_view name = "zero_padding3d";
  static constexpr std::string_view class_name = "ZeroPadding3D";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(VolumeInput<Position, In>,
                  "lockstep: ZeroPadding3D needs an input of depth x height x width x channels, "
                  "and its input is no such volume: put ls::Reshape<depth, height, width, "
                  "channels> before it");
    return true;
  }

  template <class In>
  using Output = decltype(detail::volume_padding_output<In, Margins>());

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    detail::FramedVolume<In, Output<In>, Margins>::put(pass.x.data(), pass.y.data(),
                                                       pass.x.stride());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const T* const dy = pass.dy.data();
    detail::FramedVolume<In, Output<In>, Margins>::take(dy, pass.dx.data(), pass.dy.stride());
  }
};

}}  // namespace lockstep
