// GroupNormalization of sequences, whose positions lie side by side.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/channels.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
