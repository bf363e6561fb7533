// ZeroPadding2D: an image with zeros around it.
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
template <Margins2D Margins = 1>
struct ZeroPadding2D {
  static constexpr std::string_view name = "zero_padding2d";
  static constexpr std::string_view class_name = "ZeroPadding2D";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: ZeroPadding2D needs an input of height x width x channels, and its "
                  "input is no such image: "
                  "put ls::Reshape<height, width, channels> before it");
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

}  // namespace lockstep::inline LOCKSTEP_ABI
