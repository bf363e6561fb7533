// What optimizers share that update whole variables, because they need norms.
#pragma once

#include <cmath>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/sum_of_squares.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/concepts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The mean gradient, clipped by value, of a pack of sums. Made before a sweep, and copied into it.
template <class T>
struct WholeGradient {
  explicit WholeGradient(const UpdateContext& context) noexcept
      : scale(static_cast<T>(context.gradient_scale)),
        limit(static_cast<T>(context.gradient_limit)) {}

  template <class P>
  LOCKSTEP_KERNEL P operator()(const P& sum) const {
    return max(P(-limit), min(P(limit), P(scale) * sum));  // NaN stays NaN
  }

  T scale;
  T limit;
};

/// The same bits for any number of ranks and threads: the order of summation depends on the size.
template <class T>
[[nodiscard]] double norm(std::span<const T> values) {
  return std::sqrt(kernels::sum_of_squares(values));
}

/// By how much an update of norm `of_update` is stretched to the norm `of_weights`; 1 where either
/// is 0.
[[nodiscard]] constexpr double trust_ratio(double of_weights, double of_update) noexcept {
  return of_weights > 0 && of_update > 0 ? of_weights / of_update : 1;
}

}}}  // namespace lockstep::detail
