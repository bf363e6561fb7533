// Normalisation of each sample: LayerNormalization, RMSNormalization, GroupNormalization.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/group_normalization.hpp"
#include "lockstep/kernels/layer_normalization.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/channels.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// The groups of channels of a Sequence In, over all positions of each sample. `statistics` holds
/// mean and 1 / deviation of each group of each sample, from normalize to gradients.
template <class In, std::size_t Groups, class T>
struct SequenceGroups {
  TensorView<const T> x;
  T* statistics = nullptr;

  /// y = (x - mean) * inverse * gamma + beta; gamma and beta may be null, for one and zero.
  void normalize(const T* gamma, const T* beta, double epsilon, TensorView<T> y) const {
    each_group([&](std::size_t row, std::size_t group, T& mean, T& inverse) {
      double sum = 0, squares = 0;
      each_feature(group, [&](std::size_t f, std::size_t) {
        sum += kernels::sweep_sum(
            steps, [](const auto& value) LOCKSTEP_KERNEL_LAMBDA { return value; },
            x.feature(f) + row);
      });
      mean = static_cast<T>(sum / values);
      const T center = mean;
      each_feature(group, [&](std::size_t f, std::size_t) {
        squares += kernels::sweep_sum(
            steps,
            [center](const auto& value) LOCKSTEP_KERNEL_LAMBDA {
              const auto deviation = value - std::remove_cvref_t<decltype(value)>(center);
              return deviation * deviation;
            },
            x.feature(f) + row);
      });
      inverse = static_cast<T>(1 / std::sqrt(squares / values + epsilon));
      each_feature(group, [&](std::size_t f, std::size_t channel) {
        const T scale = gamma != nullptr ? inverse * gamma[channel] : inverse;
        const T shift = beta != nullptr ? beta[channel] : T(0);
        kernels::sweep(
            steps,
            [center, scale, shift](const auto& from, auto& to) LOCKSTEP_KERNEL_LAMBDA {
              using P = std::remove_cvref_t<decltype(from)>;
              to = multiply_add(from - P(center), P(scale), P(shift));
            },
            x.feature(f) + row, y.feature(f) + row);
      });
    });
    y.clear_padding();
  }

  /// sums[c] = sum of dy and products[c] = sum of dy * z, where z = (x - mean) * inverse; dx as in
  /// kernels/group_normalization.hpp. It may be dy, or null: not wanted.
  void gradients(const T* gamma, TensorView<const T> dy, T* dx, double* sums,
                 double* products) const {
    std::fill_n(sums, channels<In>, 0.0);
    std::fill_n(products, channels<In>, 0.0);
    each_group([&](std::size_t row, std::size_t group, const T& mean, const T& inverse) {
      const T center = mean;
      double sum = 0, product = 0;  // of dy * gamma, and of that times z
      each_feature(group, [&](std::size_t f, std::size_t channel) {
        const double of_dy = kernels::sweep_sum(
            steps, [](const auto& value) LOCKSTEP_KERNEL_LAMBDA { return value; },
            dy.feature(f) + row);
        const double of_both =
            static_cast<double>(inverse) *
            kernels::sweep_sum(
                steps,
                [center](const auto& delta, const auto& value) LOCKSTEP_KERNEL_LAMBDA {
                  return delta * (value - std::remove_cvref_t<decltype(value)>(center));
                },
                dy.feature(f) + row, x.feature(f) + row);
        const double scale = gamma != nullptr ? static_cast<double>(gamma[channel]) : 1;
        sums[channel] += of_dy;
        products[channel] += of_both;
        sum += scale * of_dy;
        product += scale * of_both;
      });
      if (dx == nullptr) return;
      const double factor = static_cast<double>(inverse);
      const T rest = static_cast<T>(-factor * sum / values);
      const T slope = static_cast<T>(-factor * factor * product / values);
      each_feature(group, [&](std::size_t f, std::size_t channel) {
        const T scale = gamma != nullptr ? inverse * gamma[channel] : inverse;
        kernels::sweep(
            steps,
            [=](const auto& delta, const auto& value, auto& to) LOCKSTEP_KERNEL_LAMBDA {
              using P = std::remove_cvref_t<decltype(value)>;
              to =
                  multiply_add(delta, P(scale), multiply_add(value - P(center), P(slope), P(rest)));
            },
            dy.feature(f) + row, x.feature(f) + row, dx + f * x.stride() + row);
      });
    });
    if (dx != nullptr) TensorView<T>(dx, x.samples(), x.features(), x.stride()).clear_padding();
  }

 private:
  static constexpr std::size_t steps = positions_of<In>;
  static constexpr std::size_t of_group = channels<In> / Groups;
  static constexpr double values =
      static_cast<double>(steps * (TokenOf<In>::size / channels<In>)*of_group);

  /// Calls f(first row of the sample, group, its mean, its inverse) for each group of each sample.
  template <class F>
  void each_group(const F& f) const {
    T* at = statistics;
    for (std::size_t row = 0; row < x.samples(); row += steps)
      for (std::size_t group = 0; group < Groups; ++group, at += 2) f(row, group, at[0], at[1]);
  }
  /// Calls f(feature of a token, its channel) for each of the group.
  template <class F>
  static void each_feature(std::size_t group, const F& f) {
    for (std::size_t first = 0; first < TokenOf<In>::size; first += channels<In>)
      for (std::size_t c = group * of_group; c < (group + 1) * of_group; ++c) f(first + c, c);
  }
};

}  // namespace detail

/// Compile-time options of LayerNormalization; the defaults are Keras's.
struct LayerNormalizationOptions {
  double epsilon = 1e-3;  ///< added to the variance, above 0
  bool center = true;     ///< add beta
  bool scale = true;      ///< multiply by gamma
  InitializerOption gamma_initializer = ones;
  InitializerOption beta_initializer = zeros;
  Regularizer gamma_regularizer = {};
  Regularizer beta_regularizer = {};
  Constraint gamma_constraint = {};
  Constraint beta_constraint = {};
};

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, where mean and (biased) variance are
/// those over the last dimension of each sample, of any shape; the same in training and inference.
/// Variables: gamma and beta [channels]. Ba, Kiros, Hinton, "Layer normalization", arXiv
/// 1607.06450, 2016.
/// Use: `LayerNormalization<>`: Shape<10> -> Shape<10>; gamma (10), beta (10).
template <LayerNormalizationOptions Options = LayerNormalizationOptions{}>
struct LayerNormalization {
  static_assert(Options.epsilon > 0, "lockstep: the epsilon of LayerNormalization must be above 0");

  static constexpr std::string_view name = "layer_normalization";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <class In>
  using Output = In;

  template <class In>
  static constexpr auto variables = detail::scale_and_center<In, Options>();

  /// Mean and inverse deviation.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return 2 * detail::pixels<In> * stride;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const auto [gamma, beta] = detail::scale_and_center_of<Options>(pass.weights);
    T* const mean = pass.scratch.data();
    kernels::dispatch(kernels::LayerNormalization<T>{
        detail::channel_size<In>(pass.x), pass.x.data(), gamma, beta, Options.epsilon, mean,
        mean + detail::pixels<In> * pass.x.stride(), pass.y.data()});
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    constexpr std::size_t channels = detail::channels<In>;
    std::array<double, 2 * channels> sums;
    const T* const mean = pass.scratch.data();
    kernels::dispatch(
        kernels::LayerNormalizationSums<T>{detail::channel_size<In>(pass.x), pass.x.data(), mean,
                                           mean + detail::pixels<In> * pass.x.stride(),
                                           pass.dy.data(), sums.data(), sums.data() + channels});
    detail::set_scale_and_center<Options>(pass.gradients, channels, sums.data(),
                                          sums.data() + channels);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    if constexpr (Options.scale || Options.center) backward_weights<In, T>(pass);
    const T* const mean = pass.scratch.data();
    kernels::dispatch(kernels::LayerNormalizationInputGradient<T>{
        detail::channel_size<In>(pass.x), pass.x.data(), mean,
        mean + detail::pixels<In> * pass.x.stride(),
        detail::scale_and_center_of<Options>(pass.weights).gamma, pass.dy.data(), pass.dx.data()});
  }
};

/// Compile-time options of RMSNormalization; the default is Keras's.
struct RMSNormalizationOptions {
  double epsilon = 1e-6;  ///< added to the mean square, above 0
};

/// y = scale * x / sqrt(mean of x^2 + epsilon), where the mean is that over the last dimension of
/// each sample, of any shape; the same in training and inference. Variable: scale [channels].
/// Zhang, Sennrich, "Root mean square layer normalization", NeurIPS 2019.
/// Use: `RMSNormalization<>`: Shape<10> -> Shape<10>; scale (10).
template <RMSNormalizationOptions Options = RMSNormalizationOptions{}>
struct RMSNormalization {
  static_assert(Options.epsilon > 0, "lockstep: the epsilon of RMSNormalization must be above 0");

  static constexpr std::string_view name = "rms_normalization";
  static constexpr std::string_view class_name = "RMSNormalization";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <class In>
  using Output = In;

  template <class In>
  static constexpr std::array variables{detail::channel_variable<In>("scale", ones)};

  /// The factor of each pixel.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return detail::pixels<In> * stride;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::dispatch(
        kernels::LayerNormalization<T, false>{.size = detail::channel_size<In>(pass.x),
                                              .x = pass.x.data(),
                                              .gamma = pass.weights[0].data(),
                                              .epsilon = Options.epsilon,
                                              .inverse = pass.scratch.data(),
                                              .y = pass.y.data()});
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    std::array<double, detail::channels<In>> products;
    kernels::dispatch(
        kernels::LayerNormalizationSums<T, false>{.size = detail::channel_size<In>(pass.x),
                                                  .x = pass.x.data(),
                                                  .inverse = pass.scratch.data(),
                                                  .dy = pass.dy.data(),
                                                  .products = products.data()});
    for (std::size_t c = 0; c < products.size(); ++c)
      pass.gradients[0][c] = static_cast<T>(products[c]);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    kernels::dispatch(
        kernels::LayerNormalizationInputGradient<T, false>{.size = detail::channel_size<In>(pass.x),
                                                           .x = pass.x.data(),
                                                           .inverse = pass.scratch.data(),
                                                           .gamma = pass.weights[0].data(),
                                                           .dy = pass.dy.data(),
                                                           .dx = pass.dx.data()});
  }
};

/// Compile-time options of GroupNormalization; the defaults are Keras's.
struct GroupNormalizationOptions {
  double epsilon = 1e-3;  ///< added to the variance, above 0
  bool center = true;     ///< add beta
  bool scale = true;      ///< multiply by gamma
  InitializerOption gamma_initializer = ones;
  InitializerOption beta_initializer = zeros;
  Regularizer gamma_regularizer = {};
  Regularizer beta_regularizer = {};
  Constraint gamma_constraint = {};
  Constraint beta_constraint = {};
};

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, where mean and (biased) variance are
/// those of a group of channels (the last dimension) over all other dimensions of the sample (of a
/// Sequence, over all positions, masked or not); the same in training and inference. `Groups`
/// divides the number of channels; -1 is a group for each channel (instance normalisation).
/// Variables: gamma and beta [channels]. Wu, He, "Group normalization", ECCV 2018.
/// Use: `GroupNormalization<4>`: Shape<28, 28, 16> -> Shape<28, 28, 16>; gamma (16), beta (16).
template <int Groups = 32, GroupNormalizationOptions Options = GroupNormalizationOptions{}>
struct GroupNormalization {
  static_assert(Groups > 0 || Groups == -1,
                "lockstep: the groups of GroupNormalization are a number above 0, or -1 for one of "
                "each channel");
  static_assert(Options.epsilon > 0, "lockstep: the epsilon of GroupNormalization must be above 0");

  static constexpr std::string_view name = "group_normalization";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_mask = true;
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(InputOfChannelGroups<Position, In, groups<In>>,
                  "lockstep: the groups of GroupNormalization must divide the number of its "
                  "input's channels, the last dimension: give it another number, "
                  "ls::GroupNormalization<8>, or -1 for a group of each channel");
    return true;
  }

  template <class In>
  using Output = In;

  template <class In>
  static constexpr auto variables = detail::scale_and_center<In, Options>();

  /// Mean and inverse deviation.
  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return 2 * groups<In> * padded_batch(samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const auto [gamma, beta] = detail::scale_and_center_of<Options>(pass.weights);
    T* const mean = pass.scratch.data();
    if constexpr (is_sequence<In>)
      detail::SequenceGroups<In, groups<In>, T>{pass.x, mean}.normalize(gamma, beta,
                                                                        Options.epsilon, pass.y);
    else
      kernels::dispatch(kernels::GroupNormalization<T>{
          detail::channel_size<In>(pass.x), groups<In>, pass.x.data(), gamma, beta, Options.epsilon,
          mean, mean + groups<In> * pass.x.stride(), pass.y.data()});
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    gradients<In, T>(pass, nullptr);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    gradients<In, T>(pass, pass.dx.data());
  }

 private:
  template <class In>
  static constexpr std::size_t groups =
      Groups == -1 ? detail::channels<In> : static_cast<std::size_t>(Groups);

  template <class In, class T>
  static void gradients(const BackwardPass<T>& pass, T* dx) {
    constexpr std::size_t channels = detail::channels<In>;
    std::array<double, 2 * channels> sums;
    T* const mean = pass.scratch.data();
    const T* const gamma = detail::scale_and_center_of<Options>(pass.weights).gamma;
    if constexpr (is_sequence<In>)
      detail::SequenceGroups<In, groups<In>, T>{pass.x, mean}.gradients(
          gamma, pass.dy, dx, sums.data(), sums.data() + channels);
    else
      kernels::dispatch(kernels::GroupNormalizationGradient<T>{
          detail::channel_size<In>(pass.x), groups<In>, pass.x.data(), mean,
          mean + groups<In> * pass.x.stride(), gamma, pass.dy.data(), dx, sums.data(),
          sums.data() + channels});
    detail::set_scale_and_center<Options>(pass.gradients, channels, sums.data(),
                                          sums.data() + channels);
  }
};

}}  // namespace lockstep
