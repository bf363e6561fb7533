// The standard normal distribution at a Pack.
#pragma once

#include <cstddef>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/exp.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

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
