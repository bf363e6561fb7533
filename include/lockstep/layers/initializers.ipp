#pragma once

#include "lockstep/layers/initializers.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE double truncated_normal(RandomStream& random) {
  double value = random.normal();
  while (std::abs(value) > 2.0) value = random.normal();
  return value;
}

LOCKSTEP_INLINE void fill_identity(RandomStream&, const InitialArray& array,
                                   InitializerNumbers gain) {
  if (array.shape.size() != 2)
    throw ConfigurationError(
        concat({"the initialiser identity needs a variable of two dimensions, and this one has ",
                array.shape.size()}));
  for (std::size_t i = 0; i < std::min(array.shape[0], array.shape[1]); ++i)
    array.values[i * array.shape[1] + i] = gain.first;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
