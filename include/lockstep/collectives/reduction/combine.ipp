#pragma once

#include <cstdint>
#include <type_traits>

#include "lockstep/collectives/reduction/combine.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <ReduceOp op, Reducible T>
[[nodiscard]] constexpr T combined(T a, T b) noexcept {
  if constexpr (op == ReduceOp::max) {
    return b > a || b != b ? b : a;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <ReduceOp op, Reducible T>
void combine_arrays(void* target_data, const void* first_data, const void* second_data,
                    std::size_t count) noexcept {
  T* const target = static_cast<T*>(target_data);
  const T* const first = static_cast<const T*>(first_data);
  const T* const second = static_cast<const T*>(second_data);
  // A constant trip count lets g++ vectorise at -O2, where it refuses loops that would need a
  // remainder.
  constexpr std::size_t chunk = 64 / sizeof(T);
  std::size_t i = 0;
  for (; i + chunk <= count; i += chunk) {
    T results[chunk];
    for (std::size_t j = 0; j < chunk; ++j) results[j] = combined<op>(first[i + j], second[i + j]);
    for (std::size_t j = 0; j < chunk; ++j) target[i + j] = results[j];
  }
  for (; i < count; ++i) target[i] = combined<op>(first[i], second[i]);
}

LOCKSTEP_INLINE void combine(const Combination& how, void* target, const void* first,
                             const void* second, std::size_t count) noexcept {
  using Kernel = void (*)(void*, const void*, const void*, std::size_t) noexcept;
  static constexpr Kernel kernels[][2] = {
      {combine_arrays<ReduceOp::sum, float>, combine_arrays<ReduceOp::max, float>},
      {combine_arrays<ReduceOp::sum, double>, combine_arrays<ReduceOp::max, double>},
      {combine_arrays<ReduceOp::sum, std::int64_t>, combine_arrays<ReduceOp::max, std::int64_t>}};
  kernels[static_cast<std::size_t>(how.type)][static_cast<std::size_t>(how.op)](target, first,
                                                                                second, count);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
