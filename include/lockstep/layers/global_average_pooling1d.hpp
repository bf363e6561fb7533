// GlobalAveragePooling1D: the mean of each feature over the positions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/time_major.hpp"
#include "lockstep/kernels/weighted_sum.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/sequence_window.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The mean of each feature over the positions that are not masked: Shape<features> from a
/// Sequence<T, features>. Zero where all of them are masked. (Keras divides by zero there.)
struct GlobalAveragePooling1D {
  static constexpr std::string_view name = "global_average_pooling1d";
  static constexpr std::string_view class_name = "GlobalAveragePooling1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return detail::check_sequence_window<Position, In,
                                         detail::SequenceWindows<1, 1, Padding::valid>>();
  }

  template <class In>
  using Output = Shape<TokenOf<In>::size>;

  /// The weight of each step, and one feature by time.
  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return 2 * positions_of<In> * padded_batch(samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const kernels::TimeMajor<T> size = size_of<In>(pass.x);
    T* const weights = pass.scratch.data();
    T* const values = weights + size.steps * size.batch();
    weigh(size, pass.mask, weights);
    for (std::size_t feature = 0; feature < TokenOf<In>::size; ++feature) {
      kernels::to_time_major<T>(size, pass.x.feature(feature), values);
      kernels::dispatch(kernels::WeightedSum<T>{size.steps, size.batch(), values, weights,
                                                pass.y.feature(feature)});
    }
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const kernels::TimeMajor<T> size = size_of<In>(pass.x);
    const T* const weights = pass.scratch.data();
    T* const values = pass.scratch.data() + size.steps * size.batch();
    for (std::size_t feature = 0; feature < TokenOf<In>::size; ++feature) {
      kernels::dispatch(kernels::WeightedSumGradient<T>{size.steps, size.batch(),
                                                        pass.dy.feature(feature), weights, values});
      kernels::from_time_major<T>(size, values, pass.dx.feature(feature));
    }
    pass.dx.clear_padding();
  }

 private:
  /// Of one feature.
  template <class In, class T>
  static kernels::TimeMajor<T> size_of(const TensorView<const T>& x) {
    return {.features = 1,
            .samples = x.samples() / positions_of<In>,
            .steps = positions_of<In>,
            .token_stride = x.stride()};
  }

  /// 1 / (number of steps that count), or 0.
  template <class T>
  static void weigh(const kernels::TimeMajor<T>& size, const T* mask, T* weights) {
    const std::size_t batch = size.batch();
    if (mask == nullptr) {
      std::fill_n(weights, size.steps * batch, T(1) / static_cast<T>(size.steps));
      return;
    }
    kernels::to_time_major<T>(size, mask, weights);
    for (std::size_t sample = 0; sample < batch; ++sample) {
      T count = 0;
      for (std::size_t step = 0; step < size.steps; ++step) count += weights[step * batch + sample];
      if (count == T(0)) continue;
      for (std::size_t step = 0; step < size.steps; ++step) weights[step * batch + sample] /= count;
    }
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
