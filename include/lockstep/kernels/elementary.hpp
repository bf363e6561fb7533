// Functions of a Pack: exponentials, log1p, tanh, the normal distribution.
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

template <class P>
struct NormalDistribution {
  P density;      ///< e^(-x^2 / 2) / sqrt(2 pi)
  P probability;  ///< of a value of at most x: (1 + erf(x / sqrt(2))) / 2
};

/// Both have an absolute error below 1 ulp of 1 (float: 1.2e-7, double: 2.3e-16), and a relative
/// one below 4 + x^2 ulp where the result is a normal number. Finite for every x but NaN.
///
/// With a = |x| and q = (a - 4) / (a + 4), e^(a^2 / 2) times the probability beyond a is a
/// polynomial in q over 1 + 5/4 a, after Shepherd, Laframboise, "Chebyshev approximation of
/// (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity", Mathematics of Computation 36, 1981. The
/// coefficients are those of the interpolation at Chebyshev's nodes.
template <class T, std::size_t Bytes>
LOCKSTEP_KERNEL NormalDistribution<Pack<T, Bytes>> normal_distribution(const Pack<T, Bytes>& x) {
  using P = Pack<T, Bytes>;
  constexpr bool is_float = std::is_same_v<T, float>;
  constexpr T farthest = is_float ? T(15) : T(40);  // both are 0 there
  const P magnitude = abs(x);
  const P a = select(magnitude > P(farthest), P(farthest), magnitude);
  const P above = a + P(T(4));
  const P slope = multiply_add(a, P(T(1.25)), P(T(1)));
  const P inverse = P(T(1)) / (above * slope);
  const P q = (a - P(T(4))) * slope * inverse;
  P series;
  if constexpr (is_float)
    series = detail::polynomial(q, 0.000138118322f, 0.000965681295f, -0.000673567795f,
                                -0.0064509201f, 0.024577546f, -0.0479453191f, 0.0536743794f,
                                -0.0135966548f, -0.0782798379f, 0.566463864f);
  else
    series = detail::polynomial(
        q, 2.9010105341243961013e-10, 5.6513183768172144554e-9, 1.4036446474718208069e-8,
        -2.5954921950813696002e-8, -1.2836633355761723969e-7, 1.6020088503084407227e-8,
        7.0204339728022766091e-7, 4.5156402974769267264e-7, -3.4250362147780268888e-6,
        -4.0810132707085954788e-6, 0.000018107122689253075506, 0.000025403922389937716113,
        -0.00011697801235557414476, -0.00010664891862774930364, 0.00091541736610894960286,
        -0.00051673235916138135291, -0.0063798637503884018056, 0.024543145721854516524,
        -0.047963497812014069446, 0.053677306901315639544, -0.013595270429278172853,
        -0.07827991627104285767, 0.56646384781181359891);
  const P bell = exp(P(T(-0.5)) * a * a);
  const P tail = series * above * inverse * bell;
  return {bell * P(T(0.39894228040143267794)), select(x < P(T(0)), tail, P(T(1)) - tail)};
}

}}}  // namespace lockstep::kernels
