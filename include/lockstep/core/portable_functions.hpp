// Functions of real numbers that give the same bits on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// base^exponent, exponent at least 0. (Not std::pow: its last bit may differ between machines, and
/// with it the ranks' parameters.)
[[nodiscard]] constexpr double power(double base, std::int64_t exponent) noexcept {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 == 1) result *= base;
  return result;
}

}}}  // namespace lockstep::detail

// The last bit of std::cos, std::exp and their kin differs between versions of the C library and
// between processors. A learning rate that differs by one bit makes the ranks' parameters
// different. These are sums of series, by arithmetic that IEEE 754 prescribes, with a relative
// error below 1e-15 times the argument's size: good for a schedule, which is a matter of a few
// operations a step.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace portable {

/// e^x, for |x| up to 700.
[[nodiscard]] inline double exp(double x) noexcept {
  const double k = std::floor(x / std::numbers::ln2 + 0.5);
  const double r =
      (x - k * 0.693145751953125) - k * 1.42860682030941723212e-6;  // ln 2 in two parts
  double sum = 1;
  for (int n = 16; n > 0; --n) sum = 1 + sum * r / n;
  return std::ldexp(sum, static_cast<int>(k));
}

/// The natural logarithm of x, positive.
[[nodiscard]] inline double log(double x) noexcept {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < std::numbers::sqrt2 / 2) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;  // log m = 2 artanh s
  double sum = 0;
  for (int n = 27; n > 0; n -= 2) sum = sum * square + 1.0 / n;
  return exponent * std::numbers::ln2 + 2 * s * sum;
}

/// base^exponent, base positive or, if the exponent is positive, 0. Whole exponents: by products.
[[nodiscard]] inline double power(double base, double exponent) noexcept {
  if (exponent >= 0 && exponent <= 1e15 && exponent == std::floor(exponent))
    return detail::power(base, static_cast<std::int64_t>(exponent));
  return base == 0 ? 0 : portable::exp(exponent * portable::log(base));
}

/// The cosine of pi x, for x in [0, 1].
[[nodiscard]] inline double cos_pi(double x) noexcept {
  if (x > 0.5) return -cos_pi(1 - x);
  const bool is_small = x <= 0.25;
  const double angle = (is_small ? x : 0.5 - x) * std::numbers::pi, square = angle * angle;
  double sum = 1;  // of the cosine, or the sine divided by its angle
  for (int n = 10; n > 0; --n)
    sum = 1 - sum * square / (2 * n * (is_small ? 2 * n - 1 : 2 * n + 1));
  return is_small ? sum : sum * angle;
}

}}}  // namespace lockstep::portable
