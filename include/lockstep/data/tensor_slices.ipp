#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/tensor_slices.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void throw_other_rows(const char* needed, const std::vector<std::size_t>& samples,
                                      const char* things, const std::vector<std::size_t>& shape) {
  throw DataError(concat({"from_tensor_slices: every sample needs ", needed, ", got ",
                          samples.front(), " samples ", shape_text(samples), " and ", shape.front(),
                          " ", things, " ", shape_text(shape)}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
