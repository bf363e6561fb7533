// SpatialDropout2D: sets a random part of the channels to zero in training.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/channels.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/random_factors.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Dropout of whole channels: in training each channel of a sample of shape Shape<height, width,
/// channels> is zero in all pixels with probability Rate and divided by 1 - Rate otherwise; in
/// inference it is left alone. Tompson et al., "Efficient object localization using convolutional
/// networks", CVPR 2015. Random numbers as in Dropout, one for each channel.
template <Probability Rate>
struct SpatialDropout2D {
  static_assert(Rate.value >= 0 && Rate.value <= 1,
                "lockstep: the rate of SpatialDropout2D is the part of channels that is dropped: "
                "from 0 to 1");

  static constexpr std::string_view name = "spatial_dropout2d";
  static constexpr std::string_view class_name = "SpatialDropout2D";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: SpatialDropout2D needs an input of height x width x channels, and its "
                  "input is no such "
                  "image: use ls::Dropout, or put ls::Reshape<height, width, channels> before it");
    return true;
  }

  template <class In>
  using Output = In;

  /// The factor of each channel.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return detail::channels<In> * stride;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    if (pass.context.training)
      detail::draw_mask(pass.context, pass.x.samples(), Rate.value, detail::channels<In>,
                        pass.x.stride(), pass.scratch.data());
    apply<In, T>(pass, pass.x.data(), pass.x.stride(), pass.y.data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    apply<In, T>(pass, pass.dy.data(), pass.dy.stride(), pass.dx.data());
  }

 private:
  template <class In, class T, class Pass>
  static void apply(const Pass& pass, const T* from, std::size_t stride, T* to) {
    const std::size_t pixel = detail::channels<In> * stride;
    for (std::size_t first = 0; first < In::size * stride; first += pixel)
      if (pass.context.training)
        detail::multiply_values<T>(pixel, from + first, pass.scratch.data(), to + first);
      else
        std::copy_n(from + first, pixel, to + first);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
