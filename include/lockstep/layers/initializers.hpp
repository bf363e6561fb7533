// Initial values of variables, after Keras.
#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/variable.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// Normal with standard deviation `stddev` after truncation at two standard deviations of the distribution that is truncated.
inline double truncated_normal(RandomStream& random, double stddev) {
  constexpr double truncated_stddev = 0.87962566103423978;  // of the standard normal distribution cut off at -2 and 2
  double value = random.normal();
  while (std::abs(value) > 2.0) value = random.normal();
  return value * stddev / truncated_stddev;
}

inline double fan_in(Fans fans) { return static_cast<double>(std::max<std::size_t>(fans.in, 1)); }
inline double fan_average(Fans fans) {
  return std::max(1.0, (static_cast<double>(fans.in) + static_cast<double>(fans.out)) / 2.0);
}

}  // namespace detail

inline double zeros(RandomStream&, Fans) { return 0.0; }
inline double ones(RandomStream&, Fans) { return 1.0; }

/// Uniform within +-sqrt(6 / (fan_in + fan_out)). Glorot, Bengio, "Understanding the difficulty of training deep feedforward
/// neural networks", AISTATS 2010. Keras's default for kernels.
inline double glorot_uniform(RandomStream& random, Fans fans) {
  const double limit = std::sqrt(3.0 / detail::fan_average(fans));
  return random.uniform(-limit, limit);
}

/// Truncated normal with standard deviation sqrt(2 / (fan_in + fan_out)).
inline double glorot_normal(RandomStream& random, Fans fans) {
  return detail::truncated_normal(random, std::sqrt(1.0 / detail::fan_average(fans)));
}

/// Uniform within +-sqrt(6 / fan_in). He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV 2015. For ReLU.
inline double he_uniform(RandomStream& random, Fans fans) {
  const double limit = std::sqrt(6.0 / detail::fan_in(fans));
  return random.uniform(-limit, limit);
}

/// Truncated normal with standard deviation sqrt(2 / fan_in).
inline double he_normal(RandomStream& random, Fans fans) {
  return detail::truncated_normal(random, std::sqrt(2.0 / detail::fan_in(fans)));
}

/// Uniform within +-sqrt(3 / fan_in). LeCun, Bottou, Orr, Mueller, "Efficient BackProp", 1998.
inline double lecun_uniform(RandomStream& random, Fans fans) {
  const double limit = std::sqrt(3.0 / detail::fan_in(fans));
  return random.uniform(-limit, limit);
}

/// Truncated normal with standard deviation sqrt(1 / fan_in).
inline double lecun_normal(RandomStream& random, Fans fans) {
  return detail::truncated_normal(random, std::sqrt(1.0 / detail::fan_in(fans)));
}

/// Keras's RandomUniform and RandomNormal with their defaults: within +-0.05, and standard deviation 0.05.
inline double random_uniform(RandomStream& random, Fans) { return random.uniform(-0.05, 0.05); }
inline double random_normal(RandomStream& random, Fans) { return 0.05 * random.normal(); }

}  // namespace lockstep::inline LOCKSTEP_ABI
