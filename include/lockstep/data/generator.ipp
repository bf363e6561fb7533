#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/generator.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE RangeSource::RangeSource(std::int64_t start, std::int64_t stop, std::int64_t step)
    : start_(start), step_(step) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  if (step == 0) throw ConfigurationError("range: step must not be 0");
  for (const std::int64_t number : {start, stop, step})
    if (number > most || number < -most)
      throw ConfigurationError(concat({"range: numbers must be in [-2^62, 2^62], got ", number}));
  if (step > 0 ? stop > start : stop < start)
    size_ = (stop - start + step - (step > 0 ? 1 : -1)) / step;
}

LOCKSTEP_INLINE void RangeSource::describe(PipelineDescription& description) const {
  description.add({"range(", start_, ", ", size_, " numbers, step ", step_, ")"});
}

}  // namespace lockstep::inline LOCKSTEP_ABI
