// SpatialDropout1D: sets a random part of the features to zero, at all positions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/scale_sequences.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/random_factors.hpp"
#include "lockstep/layers/sequence_window.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// As Dropout, but for each feature of a Sequence<T, features> as a whole: neighbouring positions
/// know too much of one another. Tompson et al., "Efficient object localization using convolutional
/// networks", CVPR 2015.
template <Probability Rate>
struct SpatialDropout1D {
  static_assert(Rate.value >= 0 && Rate.value <= 1,
                "lockstep: the rate of SpatialDropout1D is the part of features that is dropped: "
                "from 0 to 1");

  static constexpr std::string_view name = "spatial_dropout1d";
  static constexpr std::string_view class_name = "SpatialDropout1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_mask = true;
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return detail::check_sequence_window<Position, In,
                                         detail::SequenceWindows<1, 1, Padding::valid>>();
  }

  template <class In>
  using Output = In;

  /// The factor of each feature.
  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return TokenOf<In>::size * padded_batch(samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const std::size_t samples = pass.x.samples() / positions_of<In>;
    if (pass.context.training)
      detail::draw_mask<T>(pass.context, samples, Rate.value, TokenOf<In>::size,
                           padded_batch(samples), pass.scratch.data());
    scale<In, T>(pass.context.training, pass.x, pass.scratch.data(), pass.y);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    scale<In, T>(pass.context.training, pass.dy, pass.scratch.data(), pass.dx);
  }

 private:
  template <class In, class T>
  static void scale(bool training, const TensorView<const T>& from, const T* factors,
                    const TensorView<T>& to) {
    const std::size_t samples = from.samples() / positions_of<In>;
    if (!training)
      std::copy_n(from.data(), TokenOf<In>::size * from.stride(), to.data());
    else
      kernels::dispatch(kernels::ScaleSequences<T>{.features = TokenOf<In>::size,
                                                   .samples = samples,
                                                   .steps = positions_of<In>,
                                                   .stride = from.stride(),
                                                   .batch = padded_batch(samples),
                                                   .x = from.data(),
                                                   .factors = factors,
                                                   .y = to.data()});
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
