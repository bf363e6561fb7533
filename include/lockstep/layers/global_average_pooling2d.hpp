// GlobalAveragePooling2D: the mean of each channel.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pooling.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The mean of each channel: Shape<channels> from samples of shape Shape<height, width, channels>.
struct GlobalAveragePooling2D
    : detail::PoolingLayer<detail::GlobalPooling2D, detail::AverageOperation> {
  static constexpr std::string_view name = "global_average_pooling2d";
  static constexpr std::string_view class_name = "GlobalAveragePooling2D";
};

}  // namespace lockstep::inline LOCKSTEP_ABI
