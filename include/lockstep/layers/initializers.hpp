// Initial values of variables, after Keras.
#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/variable.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// Normal with standard deviation `stddev` after truncation at two standard deviations of the
/// distribution that is truncated.
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

/// An initialiser among a layer's options: any constant of type Initializer, those below or your
/// own.
/// @code
/// constexpr lockstep::Initializer small = [](lockstep::RandomStream& random, lockstep::Fans) {
///   return random.uniform(-0.01, 0.01);  // at namespace scope
/// };
/// using Layer = lockstep::Dense<10, lockstep::Linear,
///                               lockstep::DenseOptions{.kernel_initializer = small}>;
/// @endcode
/// (It holds the constant's address, as g++ 12 takes no function among such options.)
struct InitializerOption {
  const Initializer* constant;
  constexpr InitializerOption(const Initializer& initializer) : constant(&initializer) {}
  InitializerOption(const Initializer&&) = delete;  ///< a function by itself: make it a constant
  constexpr operator Initializer() const { return *constant; }
};

inline constexpr Initializer zeros = [](RandomStream&, Fans) { return 0.0; };
inline constexpr Initializer ones = [](RandomStream&, Fans) { return 1.0; };

/// Uniform within +-sqrt(6 / (fan_in + fan_out)). Glorot, Bengio, "Understanding the difficulty of
/// training deep feedforward neural networks", AISTATS 2010. Keras's default for kernels.
inline constexpr Initializer glorot_uniform = [](RandomStream& random, Fans fans) {
  const double limit = std::sqrt(3.0 / detail::fan_average(fans));
  return random.uniform(-limit, limit);
};

/// Truncated normal with standard deviation sqrt(2 / (fan_in + fan_out)).
inline constexpr Initializer glorot_normal = [](RandomStream& random, Fans fans) {
  return detail::truncated_normal(random, std::sqrt(1.0 / detail::fan_average(fans)));
};

/// Uniform within +-sqrt(6 / fan_in). He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV
/// 2015. For ReLU.
inline constexpr Initializer he_uniform = [](RandomStream& random, Fans fans) {
  const double limit = std::sqrt(6.0 / detail::fan_in(fans));
  return random.uniform(-limit, limit);
};

/// Truncated normal with standard deviation sqrt(2 / fan_in).
inline constexpr Initializer he_normal = [](RandomStream& random, Fans fans) {
  return detail::truncated_normal(random, std::sqrt(2.0 / detail::fan_in(fans)));
};

/// Uniform within +-sqrt(3 / fan_in). LeCun, Bottou, Orr, Mueller, "Efficient BackProp", 1998.
inline constexpr Initializer lecun_uniform = [](RandomStream& random, Fans fans) {
  const double limit = std::sqrt(3.0 / detail::fan_in(fans));
  return random.uniform(-limit, limit);
};

/// Truncated normal with standard deviation sqrt(1 / fan_in).
inline constexpr Initializer lecun_normal = [](RandomStream& random, Fans fans) {
  return detail::truncated_normal(random, std::sqrt(1.0 / detail::fan_in(fans)));
};

/// Keras's RandomUniform and RandomNormal with their defaults: within +-0.05, and standard
/// deviation 0.05.
inline constexpr Initializer random_uniform = [](RandomStream& random, Fans) { return random.uniform(-0.05, 0.05); };
inline constexpr Initializer random_normal = [](RandomStream& random, Fans) { return 0.05 * random.normal(); };

}  // namespace lockstep::inline LOCKSTEP_ABI
