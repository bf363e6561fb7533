// GroupNormalization: groups of channels of each sample get mean 0 and variance 1.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/constraint.hpp"
#include "lockstep/core/regularizer.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/group_normalization.hpp"
#include "lockstep/layers/channels.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/sequence_groups.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
                  "input's channels, the last "
                  "dimension: give it another number, ls::GroupNormalization<8>, or -1 for a group "
                  "of each channel");
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

}  // namespace lockstep::inline LOCKSTEP_ABI
