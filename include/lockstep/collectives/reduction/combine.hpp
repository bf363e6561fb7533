// Adding one array to another, element by element.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// What all_reduce works on.
template <class T>
concept Reducible = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int64_t>;

namespace detail {

// Integers wrap around on overflow. The maximum of anything and NaN is NaN: a rank must not hide another's.
template <ReduceOp op, Reducible T>
[[nodiscard]] constexpr T combine(T a, T b) noexcept {
  if constexpr (op == ReduceOp::max) {
    return b > a || b != b ? b : a;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

/// target[i] = combine(first[i], second[i]); target may be first or second.
template <ReduceOp op, Reducible T>
void combine(T* target, const T* first, const T* second, std::size_t count) noexcept {
  // A constant trip count lets g++ vectorise at -O2, where it refuses loops that would need a remainder.
  constexpr std::size_t chunk = 64 / sizeof(T);
  std::size_t i = 0;
  for (; i + chunk <= count; i += chunk) {
    T sums[chunk];
    for (std::size_t j = 0; j < chunk; ++j) sums[j] = combine<op>(first[i + j], second[i + j]);
    for (std::size_t j = 0; j < chunk; ++j) target[i + j] = sums[j];
  }
  for (; i < count; ++i) target[i] = combine<op>(first[i], second[i]);
}

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI
