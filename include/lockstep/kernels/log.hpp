// Logarithm of a Pack.
#pragma once

#include <cstddef>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/exp.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// ln(1 + x) for x from 0 to 1, with a relative error below 3 ulp (float: 3.6e-7, double: 6.7e-16).
/// NaN stays NaN. It is 2 artanh(s) with s = x / (2 + x), and (artanh(s) / s - 1) / s^2 is a
/// polynomial in s^2, interpolated at Chebyshev's nodes.
template <class T, std::size_t Bytes>
LOCKSTEP_KERNEL Pack<T, Bytes> log1p(const Pack<T, Bytes>& x) {
  using P = Pack<T, Bytes>;
  const P twice = (x + x) / (x + P(T(2)));
  const P square = twice * twice * P(T(0.25));
  P series;
  if constexpr (std::is_same_v<T, float>)
    series = detail::polynomial(square, 0.13425749f, 0.141183099f, 0.200037803f, 0.333333202f);
  else
    series =
        detail::polynomial(square, 0.080820228059717661105, 0.044003692430723369411,
                           0.060005364047953562676, 0.066570721048274680752,
                           0.076927850324793115517, 0.090908947180664290846, 0.11111111358713931495,
                           0.14285714283554378581, 0.20000000000007291337, 0.33333333333333329281);
  return multiply_add(series * square, twice, twice);
}

}}}  // namespace lockstep::kernels
