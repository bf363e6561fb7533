// Pooling over sequences.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pooling.hpp"
#include "lockstep/kernels/sequences.hpp"
#include "lockstep/kernels/time_major.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of MaxPooling1D and AveragePooling1D.
struct Pooling1DOptions {
  std::size_t stride = 0;  ///< 0: as large as the pool
  Padding padding = Padding::valid;
};

namespace detail {

/// A pool that slides over a Sequence<T, features>. One feature after the other is copied with its
/// samples innermost, as an image of one row: then it is a pool over images, and its copies stay in
/// the cache.
///
/// `Operation`: as of PoolingLayer.
template <std::size_t Pool, Pooling1DOptions Options, class Operation>
struct Pooling1D {
 private:
  static constexpr std::size_t stride = Options.stride > 0 ? Options.stride : Pool;
  using Windows = SequenceWindows<Pool, stride, Options.padding>;

 public:
  static_assert(Pool > 0,
                "lockstep: the pool of a 1-D pooling layer must be at least 1 position long");
  static_assert(Options.padding != Padding::causal,
                "lockstep: pooling layers have no causal padding");

  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return check_sequence_window<Position, In, Windows>();
  }

  template <class In>
  using Output = Sequence<Windows::template outputs<In>, TokenOf<In>::size>;

  /// One feature of x, y, dy and dx, by time.
  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return 2 * padded_batch(samples) * (positions_of<In> + Output<In>::positions);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const Arrays<In, T> a(pass);
    for (std::size_t feature = 0; feature < TokenOf<In>::size; ++feature) {
      kernels::to_time_major<T>(a.of_x(pass.x.stride()), pass.x.feature(feature), a.x);
      kernels::dispatch(typename Operation::template Forward<T>{a.size(), a.x, a.y});
      kernels::from_time_major<T>(a.of_y(pass.y.stride()), a.y, pass.y.feature(feature));
    }
    pass.y.clear_padding();
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const Arrays<In, T> a(pass);
    BackwardPass<T> inner = pass;
    inner.x = {a.x, 0, 0, 0};
    inner.y = {a.y, 0, 0, 0};
    inner.dy = {a.dy, 0, 0, 0};
    inner.dx = {a.dx, 0, 0, 0};
    for (std::size_t feature = 0; feature < TokenOf<In>::size; ++feature) {
      if constexpr (Operation::looks_at_values) {
        kernels::to_time_major<T>(a.of_x(pass.x.stride()), pass.x.feature(feature), a.x);
        kernels::to_time_major<T>(a.of_y(pass.y.stride()), pass.y.feature(feature), a.y);
      }
      kernels::to_time_major<T>(a.of_y(pass.dy.stride()), pass.dy.feature(feature), a.dy);
      kernels::dispatch(Operation::template gradient<T>(a.size(), inner));
      kernels::from_time_major<T>(a.of_x(pass.dx.stride()), a.dx, pass.dx.feature(feature));
    }
    pass.dx.clear_padding();
  }

 private:
  template <class In, class T>
  struct Arrays {
    std::size_t samples;
    T *x, *y, *dy, *dx;

    template <class Pass>
    explicit Arrays(const Pass& pass)
        : samples(pass.x.samples() / positions_of<In>), x(pass.scratch.data()) {
      const std::size_t batch = padded_batch(samples);
      dx = x + positions_of<In> * batch;
      y = dx + positions_of<In> * batch;
      dy = y + Output<In>::positions * batch;
    }
    [[nodiscard]] kernels::TimeMajor<T> of_x(std::size_t token_stride) const {
      return {.features = 1,
              .samples = samples,
              .steps = positions_of<In>,
              .token_stride = token_stride};
    }
    [[nodiscard]] kernels::TimeMajor<T> of_y(std::size_t token_stride) const {
      return {.features = 1,
              .samples = samples,
              .steps = Output<In>::positions,
              .token_stride = token_stride};
    }
    [[nodiscard]] kernels::PoolingSize size() const {
      return {.height = 1,
              .width = positions_of<In>,
              .out_height = 1,
              .out_width = Output<In>::positions,
              .pool_height = 1,
              .pool_width = Pool,
              .stride_height = 1,
              .stride_width = stride,
              .pad_top = 0,
              .pad_left = Windows::template pad<In>,
              .pixel = padded_batch(samples)};
    }
  };
};

}  // namespace detail

/// The largest value of each window of positions, for each feature of a Sequence<T, features>; what
/// lies beyond the sequence does not count. The mask ends here.
/// Use: `MaxPooling1D<>`: Sequence<10, 4> -> Sequence<5, 4>.
template <std::size_t Pool = 2, Pooling1DOptions Options = Pooling1DOptions{}>
struct MaxPooling1D : detail::Pooling1D<Pool, Options, detail::MaxOperation> {
  static constexpr std::string_view name = "max_pooling1d";
  static constexpr std::string_view class_name = "MaxPooling1D";
};

/// The mean of each window of positions, for each feature of a Sequence<T, features>; what lies
/// beyond the sequence does not count. The mask ends here.
/// Use: `AveragePooling1D<>`: Sequence<10, 4> -> Sequence<5, 4>.
template <std::size_t Pool = 2, Pooling1DOptions Options = Pooling1DOptions{}>
struct AveragePooling1D : detail::Pooling1D<Pool, Options, detail::AverageOperation> {
  static constexpr std::string_view name = "average_pooling1d";
  static constexpr std::string_view class_name = "AveragePooling1D";
};

/// The largest value of each feature over all positions, masked ones too, as in Keras:
/// Shape<features> from a Sequence<T, features>.
/// Use: `GlobalMaxPooling1D`: Sequence<10, 4> -> Shape<4>.
struct GlobalMaxPooling1D {
  static constexpr std::string_view name = "global_max_pooling1d";
  static constexpr std::string_view class_name = "GlobalMaxPooling1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return Pool<In>::template check<Position, In>();
  }

  template <class In>
  using Output = Shape<TokenOf<In>::size>;

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return Pool<In>::template scratch<In>(samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    Pool<In>::template forward<In, T>(pass);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    Pool<In>::template backward<In, T>(pass);
  }

 private:
  /// One window: its output, a sequence of one position, lies as a Shape does.
  template <class In>
  using Pool = MaxPooling1D<positions_of<In>>;
};

/// The mean of each feature over the positions that are not masked: Shape<features> from a
/// Sequence<T, features>. Zero where all of them are masked. (Keras divides by zero there.)
/// Use: `GlobalAveragePooling1D`: Sequence<10, 4> -> Shape<4>.
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
  /// The size of one feature.
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

}}  // namespace lockstep
