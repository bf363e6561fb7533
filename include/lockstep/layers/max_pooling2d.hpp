// MaxPooling2D: the largest value of each window.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pooling.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The largest value of each window and channel, for samples of shape Shape<height, width,
/// channels>. `Pool` is an extent or {height, width}, 2 by default, and so is the stride in
/// PoolingOptions, by default that of the pool. With Padding::same what lies outside the image is
/// no candidate. The gradient goes to the first of equal maxima. NaN stays visible.
template <Extent2D Pool = 2, PoolingOptions Options = PoolingOptions{}>
struct MaxPooling2D : detail::PoolingLayer<detail::Pooling2D<Pool, Options>, detail::MaxOperation> {
  static constexpr std::string_view name = "max_pooling2d";
  static constexpr std::string_view class_name = "MaxPooling2D";
};

}  // namespace lockstep::inline LOCKSTEP_ABI
