// GlobalMaxPooling2D: the largest value of each channel.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pooling.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The largest value of each channel: Shape<channels> from samples of shape Shape<height, width,
/// channels>. The gradient goes to the first of equal maxima.
struct GlobalMaxPooling2D : detail::PoolingLayer<detail::GlobalPooling2D, detail::MaxOperation> {
  static constexpr std::string_view name = "global_max_pooling2d";
  static constexpr std::string_view class_name = "GlobalMaxPooling2D";
};

}  // namespace lockstep::inline LOCKSTEP_ABI
