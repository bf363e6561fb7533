// Adding one array to another, element by element.
#pragma once

#include <cstddef>

#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What is combined, and how.
struct Combination {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
};

/// target[i] = first[i] and second[i] combined, for `count` elements; target may be first or
/// second. Integers wrap around on overflow. The maximum of anything and NaN is NaN: a rank must
/// not hide another's.
void combine(const Combination& how, void* target, const void* first, const void* second,
             std::size_t count) noexcept;

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/reduction/combine.ipp"
#endif
