#pragma once

#include "lockstep/data/any_stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void parts_numbered(ElementSpan samples, std::size_t number, ElementBatch& out) {
  out.clear();
  for (std::size_t i = 0; i < samples.indices.size(); ++i) out.push_back(samples.parts[i][number]);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
