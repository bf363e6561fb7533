// What a Regularizer makes of an array.
#pragma once

#include <cstddef>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/sweep.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// The penalty of n values.
template <class T>
[[nodiscard]] double penalty(const Regularizer& regularizer, std::size_t n, const T* values) {
  double sum = 0;
  if (regularizer.l1 != 0)
    sum += regularizer.l1 *
           sweep_sum(
               n, [](const auto& v) LOCKSTEP_KERNEL_LAMBDA { return abs(v); }, values);
  if (regularizer.l2 != 0)
    sum +=
        regularizer.l2 * sweep_sum(
                             n, [](const auto& v) LOCKSTEP_KERNEL_LAMBDA { return v * v; }, values);
  return sum;
}

/// gradient += scale * the penalty's gradient, for n values.
template <class T>
void add_penalty_gradient(const Regularizer& regularizer, double scale, std::size_t n,
                          const T* values, T* gradient) {
  const T l1 = static_cast<T>(scale * regularizer.l1),
          l2 = static_cast<T>(2 * scale * regularizer.l2);
  sweep(
      n,
      [=](auto& sum, const auto& v) LOCKSTEP_KERNEL_LAMBDA {
        using P = std::remove_cvref_t<decltype(v)>;
        const P signed_l1 = select(v > P(0), P(l1), select(v < P(0), P(-l1), P(0)));
        sum += multiply_add(P(l2), v, signed_l1);
      },
      gradient, values);
}

}}}  // namespace lockstep::kernels
