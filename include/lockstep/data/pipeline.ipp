#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/pipeline.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE void check_read(const ReadRequest& request) {
  const std::size_t count = request.positions.size();
  if (request.x_features != request.sample_size || request.x_samples != count ||
      (!request.without_targets &&
       (request.y_features != request.target_size || request.y_samples != count)))
    throw DataError(concat({"Pipeline: read() of ", count, " samples with ", request.sample_size,
                            " elements and ", request.target_size, " targets was given views of ",
                            request.x_samples, " x ", request.x_features, " and ",
                            request.y_samples, " x ", request.y_features}));
  for (const std::size_t p : request.positions)
    if (p >= request.batch)
      throw DataError(concat(
          {"Pipeline: read() of position ", p, " of a batch with ", request.batch, " samples"}));
}

LOCKSTEP_INLINE void check_seek(bool has_begun, std::int64_t position) {
  if (!has_begun) throw Error("Pipeline: seek() was called before begin(iteration)");
  if (position < 0)
    throw Error(concat({"Pipeline: seek() needs a position of at least 0, got ", position}));
}

}}}  // namespace lockstep::detail
