#pragma once

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::size_t scalar_size(std::string_view scalar) {
  if (scalar == scalar_name<float>()) return sizeof(float);
  if (scalar == scalar_name<double>()) return sizeof(double);
  throw DataError(
      concat({"unknown scalar type ", in_quotes(scalar), ", expected float32 or float64"}));
}

LOCKSTEP_INLINE std::optional<std::uint64_t> array_size(std::span<const std::uint64_t> extents,
                                                        std::size_t element) {
  std::uint64_t size = element;
  bool overflow = false, empty = false;
  for (const std::uint64_t extent : extents) {
    empty = empty || extent == 0;
    overflow = overflow || __builtin_mul_overflow(size, extent, &size);
  }
  if (empty) return 0;
  return overflow ? std::nullopt : std::optional(size);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
