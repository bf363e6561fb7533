// Cropping2D: an image without its margins.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/margins.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
template <Margins2D Margins = 0>
struct Cropping2D {
  static constexpr std::string_view name = "cropping2d";
  static constexpr std::string_view class_name = "Cropping2D";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: Cropping2D needs an input of height x width x channels, and its input "
                  "is no such image: "
                  "put ls::Reshape<height, width, channels> before it");
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

}  // namespace lockstep::inline LOCKSTEP_ABI
