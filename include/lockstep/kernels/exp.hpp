// Exponentials and hyperbolic tangent of a Pack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// Polynomial by Horner's rule, highest power first.
template <class P, class... C>
LOCKSTEP_KERNEL P polynomial(const P& x, typename P::value_type first, C... rest) {
  P sum = first;
  ((sum = multiply_add(sum, x, P(rest))), ...);
  return sum;
}

/// 2^k for whole numbers k within the exponents of normal numbers.
template <class P>
LOCKSTEP_KERNEL P power_of_two(const typename P::Mask& k) {
  constexpr bool is_float = std::is_same_v<typename P::value_type, float>;
  P result;
  const auto bits = (k.v + (is_float ? 127 : 1023)) << (is_float ? 23 : 52);
  __builtin_memcpy(&result.v, &bits, sizeof bits);
  return result;
}

}  // namespace detail

namespace detail {

/// e^x = 2^power * (1 + rest).
template <class P>
struct ReducedExp {
  P rest;
  typename P::Mask power;
};

/// For x from `lowest` to `highest`; others count as these. NaN stays NaN. The rest lies between
/// sqrt(1/2) - 1 and sqrt(2) - 1. Method and coefficients: Cephes Mathematical Library (Moshier),
/// exp.c and expf.c.
template <class T, std::size_t Bytes>
LOCKSTEP_KERNEL ReducedExp<Pack<T, Bytes>> reduced_exp(const Pack<T, Bytes>& argument, T lowest,
                                                       T highest) {
  using P = Pack<T, Bytes>;
  constexpr bool is_float = std::is_same_v<T, float>;
  P x = select(argument < P(lowest), P(lowest), argument);
  x = select(x > P(highest), P(highest), x);

  // x = k ln 2 + r. Adding 1.5 * 2^(mantissa bits) rounds to a whole number, which then stands in
  // the lowest bits.
  constexpr T rounder = is_float ? T(12582912) : T(6755399441055744);
  const P rounded = multiply_add(x, P(T(1.4426950408889634074)), P(rounder));
  const P whole = rounded - P(rounder);
  ReducedExp<P> reduced;
  const P rounder_pack(rounder);
  typename VectorTypes<T, Bytes>::mask bits;
  typename VectorTypes<T, Bytes>::mask rounder_bits;
  __builtin_memcpy(&bits, &rounded.v, sizeof bits);
  __builtin_memcpy(&rounder_bits, &rounder_pack.v, sizeof bits);
  reduced.power.v = bits - rounder_bits;

  if constexpr (is_float) {
    P r = multiply_add(whole, P(-0.693359375f), x);
    r = multiply_add(whole, P(2.12194440e-4f), r);
    const P p = polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                           4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
    reduced.rest = multiply_add(p, r * r, r);
  } else {
    P r = multiply_add(whole, P(-6.93145751953125e-1), x);
    r = multiply_add(whole, P(-1.42860682030941723212e-6), r);
    const P square = r * r;
    const P p = r * polynomial(square, 1.26177193074810590878e-4, 3.02994407707441961300e-2,
                               9.99999999999999999910e-1);
    const P q = polynomial(square, 3.00198505138664455042e-6, 2.52448340349684104192e-3,
                           2.27265548208155028766e-1, 2.00000000000000000009e0);
    reduced.rest = p / (q - p) * P(2.0);
  }
  return reduced;
}

}  // namespace detail

/// e^x with a relative error below 2 ulp (float: 2.4e-7, double: 4.4e-16) where the result is a
/// normal number; 0 and infinity beyond; NaN stays NaN.
template <class T, std::size_t Bytes>
LOCKSTEP_KERNEL Pack<T, Bytes> exp(const Pack<T, Bytes>& x) {
  using P = Pack<T, Bytes>;
  constexpr bool is_float = std::is_same_v<T, float>;
  const auto [rest, power] =
      detail::reduced_exp<T, Bytes>(x, is_float ? T(-104) : T(-746), is_float ? T(89) : T(710));
  // In two factors, as 2^power itself may be beyond the normal numbers.
  typename P::Mask half;
  half.v = power.v >> 1;
  typename P::Mask other_half;
  other_half.v = power.v - half.v;
  return (rest + P(T(1))) * detail::power_of_two<P>(half) * detail::power_of_two<P>(other_half);
}

/// e^x - 1 for x <= 0, with a relative error below 3 ulp. NaN stays NaN.
template <class T, std::size_t Bytes>
LOCKSTEP_KERNEL Pack<T, Bytes> expm1(const Pack<T, Bytes>& x) {
  using P = Pack<T, Bytes>;
  constexpr T lowest = std::is_same_v<T, float> ? T(-20) : T(-40);  // there it is -1
  const auto [rest, power] = detail::reduced_exp<T, Bytes>(x, lowest, T(0));
  const P scale = detail::power_of_two<P>(power);
  return multiply_add(rest, scale, scale - P(T(1)));
}

/// tanh x with a relative error below 4 ulp (float: 4.8e-7, double: 8.9e-16). Coefficients: Cephes,
/// tanh.c and tanhf.c.
template <class T, std::size_t Bytes>
LOCKSTEP_KERNEL Pack<T, Bytes> tanh(const Pack<T, Bytes>& x) {
  using P = Pack<T, Bytes>;
  const P square = x * x;
  P small;
  if constexpr (std::is_same_v<T, float>) {
    small = detail::polynomial(square, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                               1.33314422036e-1f, -3.33332819422e-1f);
  } else {
    const P p = detail::polynomial(square, -9.64399179425052238628e-1, -9.92877231001918586564e1,
                                   -1.61468768441708447952e3);
    const P q = detail::polynomial(square, 1.0, 1.12811678491632931402e2, 2.23548839060100448583e3,
                                   4.84406305325125486048e3);
    small = p / q;
  }
  small = multiply_add(small * square, x, x);
  const P magnitude = abs(x);
  const P large = P(T(1)) - P(T(2)) / (exp(magnitude + magnitude) + P(T(1)));
  return select(magnitude < P(T(0.625)), small, select(x < P(T(0)), -large, large));
}

}}}  // namespace lockstep::kernels
