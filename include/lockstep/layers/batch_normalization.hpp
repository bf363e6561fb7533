// BatchNormalization: each channel by its statistics over the batch.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/channel_sums.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/channels.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// A number of values and two figures for each channel, one after the other, so that one reduction
/// carries them all.
template <std::size_t Channels>
struct ChannelStatistics {
  std::array<double, 1 + 2 * Channels> values;

  double& count() { return values[0]; }
  double* first() { return values.data() + 1; }
  double* second() { return values.data() + 1 + Channels; }
};

/// Means (first) and sums of squared deviations from them (second) of each replica become those of
/// all replicas together.
///
/// What is summed is n, n * mean and squares + n * mean^2, because a reduction can only sum, and
/// one reduction is quicker than two. The subtraction afterwards is of doubles: it costs (mean /
/// deviation)^2 * 1e-16 of the variance, less than the rounding of x to float did; and within a
/// replica nothing was subtracted.
template <std::size_t Channels>
void combine_moments(ChannelStatistics<Channels>& moments, const CrossReplicaSum& sum) {
  for (std::size_t c = 0; c < Channels; ++c) {
    double& mean = moments.first()[c];
    moments.second()[c] += moments.count() * mean * mean;
    mean *= moments.count();
  }
  sum(moments.values);
  if (moments.count() == 0) return;
  for (std::size_t c = 0; c < Channels; ++c) {
    double& mean = moments.first()[c];
    mean /= moments.count();
    moments.second()[c] = std::max(moments.second()[c] - moments.count() * mean * mean, 0.0);
  }
}

/// The same for the rows of a flat x whose mask is not 0.
template <std::size_t Channels, class T>
void masked_moments(const TensorView<const T>& x, const T* mask,
                    ChannelStatistics<Channels>& moments) {
  const auto sum = [&](const auto& of_row) {
    double total = 0;
    for (std::size_t row = 0; row < x.samples(); ++row)
      if (mask[row] != T(0)) total += of_row(row);
    return total;
  };
  moments.count() = sum([](std::size_t) { return 1.0; });
  const double share = moments.count() > 0 ? 1 / moments.count() : 0;
  for (std::size_t c = 0; c < Channels; ++c) {
    const double mean =
        share * sum([&](std::size_t row) { return static_cast<double>(x(row, c)); });
    moments.first()[c] = mean;
    moments.second()[c] = sum([&](std::size_t row) {
      const double deviation = static_cast<double>(x(row, c)) - mean;
      return deviation * deviation;
    });
  }
}

}  // namespace detail

/// Compile-time options of BatchNormalization; the defaults are Keras's.
struct BatchNormalizationOptions {
  double momentum = 0.99;  ///< of the moving statistics, in [0, 1]
  double epsilon = 1e-3;   ///< added to the variance, above 0
  bool center = true;      ///< add beta
  bool scale = true;       ///< multiply by gamma
  bool synchronized =
      false;  ///< statistics over the samples of all replicas, not of each by itself
  InitializerOption gamma_initializer = ones;
  InitializerOption beta_initializer = zeros;
  InitializerOption moving_mean_initializer = zeros;
  InitializerOption moving_variance_initializer = ones;
  Regularizer gamma_regularizer = {};
  Regularizer beta_regularizer = {};
  Constraint gamma_constraint = {};
  Constraint beta_constraint = {};
};

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, for each channel, the last dimension
/// of samples of any shape. Ioffe, Szegedy, "Batch normalization: accelerating deep network
/// training by reducing internal covariate shift", ICML 2015.
///
/// In training, mean and (biased) variance are those of the batch over all other dimensions; in
/// inference the moving ones: moving = momentum * moving + (1 - momentum) * of the batch.
/// Variables: gamma and beta [channels]; not trained: moving_mean and moving_variance [channels].
///
/// The moving variance takes what Keras 2.11 takes: for samples of three or four dimensions
/// (images; its fused kernel) the batch's variance times n / (n - 1), n being the number of values
/// per channel; for others, and when synchronised, the biased one.
///
/// On several replicas each normalises its own part of the batch, and after each step the moving
/// statistics are the mean of the replicas', weighted with their samples (Keras's is not weighted).
/// With `.synchronized = true` the statistics are those of the global batch, so that N replicas
/// equal one: that costs a small reduction forward and another backward. Either way a replica
/// without samples takes part and changes nothing, and a step without any leaves the moving
/// statistics alone.
///
/// As in Keras 3, masked rows (tokens) do not count in the statistics, and are normalised with the
/// others.
///
/// `Activation` is applied to y in the same pass. (A model does the same with an Activation layer
/// that follows.)
/// Use: `BatchNormalization<>`: Shape<28, 28, 16> -> Shape<28, 28, 16>; gamma (16), beta (16); not
/// trained: moving_mean (16), moving_variance (16).
template <class Activation = Linear,
          BatchNormalizationOptions Options = BatchNormalizationOptions{}>
  requires the_activation_stands_before_the_options<Activation>
struct BatchNormalization {
  static_assert(Options.momentum >= 0 && Options.momentum <= 1,
                "lockstep: the momentum of BatchNormalization must be in [0, 1]");
  static_assert(Options.epsilon > 0, "lockstep: the epsilon of BatchNormalization must be above 0");

  static_assert(ActivationFunction<Activation>,
                "lockstep: the first parameter of BatchNormalization is no activation function; "
                "use ls::ReLU, ...");

  static constexpr std::string_view name = "batch_normalization";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <class Function>
    requires detail::is_identity<Activation>
  using WithActivation = BatchNormalization<Function, Options>;
  using OutputActivation = Activation;
  using Preactivation = BatchNormalization<Linear, Options>;

  template <class In>
  using Output = In;

  using JoinsSums = BatchNormalization;
  /// (A maximum is told from x.)
  using IgnoresOutput = std::conditional_t<detail::gradient_ignores_y<Activation> ||
                                               detail::has_minimum<Activation, float>,
                                           BatchNormalization, void>;
  template <class In>
  static constexpr bool adds_to_output = detail::is_identity<Activation>;
  template <class In, class T>
  static constexpr bool keeps_dy = detail::is_fused<Activation, T>;

  template <class In>
  static constexpr auto variables = detail::scale_and_center<In, Options>();

  template <class In>
  static constexpr std::array state_variables{
      detail::channel_variable<In>("moving_mean", Options.moving_mean_initializer),
      detail::channel_variable<In>("moving_variance", Options.moving_variance_initializer),
  };

  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return 6 * detail::channels<In> + mask_size<In>(stride) +
           detail::slope_size<Activation>(In::size * stride);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const kernels::ChannelSize s = detail::channel_size<In>(pass.x);
    const Kept<T> kept(pass.scratch, s.channels, mask_size<In>(s.stride));
    if (in_training(pass.context)) {
      Sums<In> batch;
      const T* const mask = kept.keep_mask(pass.mask, s.samples);
      if (mask != nullptr) {
        detail::masked_moments(pass.x, mask, batch);
      } else {
        batch.count() = static_cast<double>(s.pixels * s.samples);
        kernels::dispatch(
            kernels::ChannelMoments<T>{s, pass.x.data(), batch.first(), batch.second()});
      }
      if constexpr (Options.synchronized)
        detail::combine_moments(batch, pass.context.cross_replica_sum);
      if (batch.count() == 0 && s.samples == 0) return;
      const double count = std::max(batch.count(), 1.0);
      constexpr bool is_fused = (In::rank == 3 || In::rank == 4) && !Options.synchronized;
      const double degrees_of_freedom = is_fused ? std::max(count - 1, 1.0) : count;
      for (std::size_t c = 0; c < s.channels; ++c) {
        kept.set(c, batch.first()[c], batch.second()[c] / count);
        if (batch.count() == 0) continue;  // (all are masked)
        move(pass.state[0][c], batch.first()[c]);
        move(pass.state[1][c], batch.second()[c] / degrees_of_freedom);
      }
    } else {
      for (std::size_t c = 0; c < s.channels; ++c)
        kept.set(c, static_cast<double>(pass.state[0][c]), static_cast<double>(pass.state[1][c]));
    }
    for (std::size_t c = 0; c < s.channels; ++c) {
      kept.scale[c] = kept.inverse[c];
      if constexpr (Options.scale) kept.scale[c] *= pass.weights[0][c];
      kept.offset[c] = T(0);
      if constexpr (Options.center) kept.offset[c] = pass.weights[beta][c];
    }
    kernels::dispatch(kernels::ScaleChannels<T>{
        s, pass.x.data(), kept.mean, kept.scale, kept.offset,
        detail::is_identity<Activation> ? pass.minimum : detail::fused_minimum<Activation, T>(),
        pass.y.data(), pass.addend});
    if constexpr (!detail::is_fused<Activation, T>)
      detail::activate<Activation, T>(In::size * s.stride, pass.y.data(), pass.y.data(),
                                      kept.activation_slope);
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    weight_gradient<In, T>(pass);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const kernels::ChannelSize s = detail::channel_size<In>(pass.x);
    const Kept<T> kept(pass.scratch, s.channels, mask_size<In>(s.stride));
    Sums<In> gradients = weight_gradient<In, T>(pass);
    if constexpr (Options.synchronized)
      if (in_training(pass.context)) pass.context.cross_replica_sum(gradients.values);
    // In training, mean and variance depend on x as well.
    const double share =
        in_training(pass.context) && gradients.count() > 0 ? 1 / gradients.count() : 0;
    for (std::size_t c = 0; c < s.channels; ++c) {
      const double scale = static_cast<double>(kept.scale[c]) * share;
      const double inverse = static_cast<double>(kept.inverse[c]);
      kept.rest[c] = static_cast<T>(-scale * gradients.first()[c]);
      kept.slope[c] = static_cast<T>(-scale * inverse * inverse * gradients.second()[c]);
    }
    if (const T* const mask = kept.mask_of(pass.context))
      masked_input_gradient<T>(pass, kept, mask);
    else
      kernels::dispatch(kernels::ChannelInputGradient<T>{s, delta<T>(pass, kept), kept.slope,
                                                         kept.rest, pass.dx.data()});
  }

 private:
  /// (Keras: frozen statistics are those of inference.)
  static bool in_training(const StepContext& context) {
    return context.training && !context.frozen;
  }

  static constexpr std::size_t beta = Options.scale ? 1 : 0;  ///< its place among the variables

  /// Of Kept: flat samples, or tokens, may be masked.
  template <class In>
  static constexpr std::size_t mask_size(std::size_t stride) {
    return In::rank == 1 ? 1 + stride : 0;
  }

  template <class In>
  using Sums = detail::ChannelStatistics<detail::channels<In>>;

  /// What is kept for each channel from forward to backward.
  template <class T>
  struct Kept {
    T *mean, *inverse, *scale, *offset;  ///< inverse: 1 / sqrt(variance + epsilon)
    T *slope, *rest;                     ///< of backward alone
    T* has_mask;                         ///< 1 or 0, and behind it the mask, for flat rows
    T* activation_slope;                 ///< for each value, if the activation needs it

    Kept(std::span<T> scratch, std::size_t n, std::size_t mask_elements)
        : mean(scratch.data()),
          inverse(mean + n),
          scale(inverse + n),
          offset(scale + n),
          slope(offset + n),
          rest(slope + n),
          has_mask(mask_elements > 0 ? rest + n : nullptr),
          activation_slope(rest + n + mask_elements) {}
    const T* keep_mask(const T* mask, std::size_t rows) const {
      if (has_mask == nullptr) return nullptr;
      *has_mask = mask == nullptr ? T(0) : T(1);
      return mask == nullptr ? nullptr : std::copy_n(mask, rows, has_mask + 1) - rows;
    }
    /// Null: all rows count.
    [[nodiscard]] const T* mask_of(const StepContext& context) const {
      return in_training(context) && has_mask != nullptr && *has_mask != T(0) ? has_mask + 1
                                                                              : nullptr;
    }
    void set(std::size_t channel, double channel_mean, double variance) const {
      mean[channel] = static_cast<T>(channel_mean);
      inverse[channel] = static_cast<T>(1 / std::sqrt(variance + Options.epsilon));
    }
  };

  template <class T>
  static kernels::ScaledDelta<T> delta(const BackwardPass<T>& pass, const Kept<T>& kept) {
    return {
        pass.x.data(), kept.mean, kept.scale, kept.offset, detail::fused_minimum<Activation, T>(),
        pass.dy.data()};
  }

  /// Mean and variance depend on the rows that count alone.
  template <class T>
  static void masked_input_gradient(const BackwardPass<T>& pass, const Kept<T>& kept,
                                    const T* mask) {
    constexpr T minimum = detail::fused_minimum<Activation, T>();
    for (std::size_t c = 0; c < pass.x.features(); ++c)
      for (std::size_t row = 0; row < pass.x.samples(); ++row) {
        const T deviation = pass.x(row, c) - kept.mean[c];
        const T dy = deviation * kept.scale[c] + kept.offset[c] <= minimum ? T(0) : pass.dy(row, c);
        const T rest = mask[row] == T(0) ? T(0) : deviation * kept.slope[c] + kept.rest[c];
        pass.dx(row, c) = dy * kept.scale[c] + rest;
      }
    pass.dx.clear_padding();
  }

  template <class T>
  static void move(T& moving, double value) {
    const double before = static_cast<double>(moving);
    moving = static_cast<T>(before + (value - before) * (1 - Options.momentum));
  }

  /// Sets the gradients of gamma and beta. Returns the sums of dy and of dy * (x - mean) over this
  /// replica's samples.
  template <class In, class T>
  static Sums<In> weight_gradient(const BackwardPass<T>& pass) {
    const kernels::ChannelSize s = detail::channel_size<In>(pass.x);
    const Kept<T> kept(pass.scratch, s.channels, mask_size<In>(s.stride));
    Sums<In> sums;
    const T* const mask = kept.mask_of(pass.context);
    sums.count() = mask != nullptr ? static_cast<double>(std::count(mask, mask + s.samples, T(1)))
                                   : static_cast<double>(s.pixels * s.samples);
    if constexpr (!detail::is_fused<Activation, T>)
      detail::activation_gradient<Activation, T>(In::size * s.stride, pass.dy.data(), pass.y.data(),
                                                 kept.activation_slope, pass.dy.data());
    kernels::dispatch(
        kernels::ChannelGradients<T>{s, delta<T>(pass, kept), sums.first(), sums.second()});
    for (std::size_t c = 0; c < s.channels; ++c) {
      // (Without samples nothing is kept.)
      const double product =
          s.samples > 0 ? sums.second()[c] * static_cast<double>(kept.inverse[c]) : 0;
      if constexpr (Options.scale) pass.gradients[0][c] = static_cast<T>(product);
      if constexpr (Options.center) pass.gradients[beta][c] = static_cast<T>(sums.first()[c]);
    }
    return sums;
  }
};

}}  // namespace lockstep
