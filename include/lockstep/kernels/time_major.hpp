// Sequences with their samples innermost: how a recurrence and a pool over positions want them.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/product_layout.hpp"
#include "lockstep/kernels/transpose.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// A batch of sequences in two layouts. By tokens, as layers see it: [feature][sample][step]. By
/// time: [feature][step][sample] for pools, [step][feature][sample] for recurrences, where the
/// samples of a step are padded to `batch()`.
template <class T>
struct TimeMajor {
  std::size_t features = 0;
  std::size_t samples = 0;
  std::size_t steps = 0;
  std::size_t token_stride = 0;       ///< by tokens, from feature to feature
  std::size_t time_stride = 0;        ///< by time, from feature to feature
  std::size_t step_stride = batch();  ///< by time, from step to step
  bool reverse = false;               ///< the first step of one layout is the last one of the other
  const T* of_features = nullptr;     ///< [feature][sample, padded]: factors of each step; null: 1
  const T* of_steps =
      nullptr;  ///< [step][sample, padded], by time: factors of each feature; null: 1

  [[nodiscard]] constexpr std::size_t batch() const noexcept { return padded_columns(samples); }
};

/// What becomes of that which was in the target.
enum class Merge { replace, add, multiply };

namespace detail {

/// Calls f(feature, first sample, first step) for blocks of n x n.
template <class T, class F>
LOCKSTEP_KERNEL void each_time_block(const TimeMajor<T>& s, std::size_t n, const F& f) {
  for (std::size_t step = 0; step < s.steps; step += n)
    for (std::size_t feature = 0; feature < s.features; ++feature)
      for (std::size_t sample = 0; sample < s.batch(); sample += n) f(feature, sample, step);
}

/// values *= the factors of a feature's samples at a step.
template <class T, class V>
LOCKSTEP_KERNEL void scale_step(V& values, const TimeMajor<T>& s, std::size_t feature,
                                std::size_t step, std::size_t sample) {
  V factors;
  if (s.of_features != nullptr) {
    load(factors, s.of_features + feature * s.batch() + sample);
    values *= factors;
  }
  if (s.of_steps != nullptr) {
    load(factors, s.of_steps + step * s.batch() + sample);
    values *= factors;
  }
}

}  // namespace detail

/// From tokens to time, for kernels::dispatch. Padding of the samples becomes zero.
template <class T>
struct ToTimeMajor {
  TimeMajor<T> size;
  const T* from = nullptr;
  T* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    const TimeMajor<T> s = size;
    detail::each_time_block(
        s, n,
        [&](std::size_t feature, std::size_t sample, std::size_t step) LOCKSTEP_KERNEL_LAMBDA {
          const std::size_t count = std::min(n, s.steps - step);
          const T* const tokens = from + feature * s.token_stride + step;
          V block[n];
#pragma GCC unroll 16
          for (std::size_t k = 0; k < n; ++k) {
            block[k] = V{};
            if (sample + k >= s.samples) continue;
            const T* const row = tokens + (sample + k) * s.steps;
            if (count == n) {
              load(block[k], row);
            } else {
              T values[n] = {};
              std::copy_n(row, count, values);
              load(block[k], static_cast<const T*>(values));
            }
          }
          detail::transpose_block(block);
          T* const times = to + feature * s.time_stride + sample;
#pragma GCC unroll 16
          for (std::size_t k = 0; k < n; ++k) {
            if (k >= count) break;
            const std::size_t time = s.reverse ? s.steps - 1 - (step + k) : step + k;
            detail::scale_step(block[k], s, feature, time, sample);
            store(times + time * s.step_stride, block[k]);
          }
        });
  }
};

/// From time to tokens, for kernels::dispatch. What follows the last token is not written.
template <class T>
struct FromTimeMajor {
  TimeMajor<T> size;
  const T* from = nullptr;
  T* to = nullptr;
  Merge merge = Merge::replace;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    const TimeMajor<T> s = size;
    const Merge how = merge;
    detail::each_time_block(
        s, n,
        [&](std::size_t feature, std::size_t sample, std::size_t step) LOCKSTEP_KERNEL_LAMBDA {
          const std::size_t count = std::min(n, s.steps - step);
          const T* const times = from + feature * s.time_stride + sample;
          V block[n];
#pragma GCC unroll 16
          for (std::size_t k = 0; k < n; ++k) {
            block[k] = V{};
            if (k >= count) continue;
            const std::size_t time = s.reverse ? s.steps - 1 - (step + k) : step + k;
            load(block[k], times + time * s.step_stride);
            detail::scale_step(block[k], s, feature, time, sample);
          }
          detail::transpose_block(block);
          T* const tokens = to + feature * s.token_stride + step;
#pragma GCC unroll 16
          for (std::size_t k = 0; k < n; ++k) {
            if (sample + k >= s.samples) break;
            T* const row = tokens + (sample + k) * s.steps;
            if (count == n) {
              V held;
              if (how != Merge::replace) load(held, static_cast<const T*>(row));
              if (how == Merge::add) block[k] += held;
              if (how == Merge::multiply) block[k] *= held;
              store(row, block[k]);
            } else {
              T values[n];
              store(static_cast<T*>(values), block[k]);
              for (std::size_t i = 0; i < count; ++i)
                row[i] = how == Merge::replace ? values[i]
                         : how == Merge::add   ? row[i] + values[i]
                                               : row[i] * values[i];
            }
          }
        });
  }
};

/// by_time = tokens, and the other way round.
template <class T>
void to_time_major(const TimeMajor<T>& size, const T* tokens, T* by_time) {
  dispatch(ToTimeMajor<T>{size, tokens, by_time});
}
template <class T>
void from_time_major(const TimeMajor<T>& size, const T* by_time, T* tokens,
                     Merge merge = Merge::replace) {
  dispatch(FromTimeMajor<T>{size, by_time, tokens, merge});
}

LOCKSTEP_EXTERN(void to_time_major<float>(const TimeMajor<float>&, const float*, float*));
LOCKSTEP_EXTERN_DOUBLE(void to_time_major<double>(const TimeMajor<double>&, const double*,
                                                  double*));
LOCKSTEP_EXTERN(void from_time_major<float>(const TimeMajor<float>&, const float*, float*, Merge));
LOCKSTEP_EXTERN_DOUBLE(void from_time_major<double>(const TimeMajor<double>&, const double*,
                                                    double*, Merge));

}}}  // namespace lockstep::kernels
