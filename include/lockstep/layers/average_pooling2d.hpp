// AveragePooling2D: the mean of each window.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pooling.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The mean of each window and channel, for samples of shape Shape<height, width, channels>. `Pool`
/// is an extent or {height, width}, 2 by default, and so is the stride in PoolingOptions, by
/// default that of the pool. With Padding::same it is the mean of what lies inside the image, as in
/// TensorFlow.
template <Extent2D Pool = 2, PoolingOptions Options = PoolingOptions{}>
struct AveragePooling2D
    : detail::PoolingLayer<detail::Pooling2D<Pool, Options>, detail::AverageOperation> {
  static constexpr std::string_view name = "average_pooling2d";
  static constexpr std::string_view class_name = "AveragePooling2D";
};

}  // namespace lockstep::inline LOCKSTEP_ABI
