#pragma once

#include <limits>

#include "lockstep/core/text.hpp"
#include "lockstep/data/tensor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE RowsAndExtents::RowsAndExtents(const std::vector<std::size_t>& shape,
                                               std::size_t size) {
  if (shape.empty())
    throw DataError("Tensor: the shape is empty; its first extent must be the number of rows");
  std::size_t expected = 1;
  for (const std::size_t extent : shape) {
    if (extent != 0 && expected > std::numeric_limits<std::size_t>::max() / extent)
      throw DataError(concat(
          {"Tensor: the shape ", shape_text(shape), " has more elements than memory can hold"}));
    expected *= extent;
  }
  if (size != expected)
    throw DataError(concat(
        {"Tensor: the shape ", shape_text(shape), " needs ", expected, " values, got ", size}));
  rows = shape.front();
  extents.assign(shape.begin() + 1, shape.end());
  for (const std::size_t extent : extents) row_size *= extent;
}

LOCKSTEP_INLINE std::vector<std::size_t> RowsAndExtents::shape() const {
  std::vector<std::size_t> all{rows};
  all.insert(all.end(), extents.begin(), extents.end());
  return all;
}

LOCKSTEP_INLINE void RowsAndExtents::check_slice(std::size_t begin, std::size_t end) const {
  if (begin > end || end > rows)
    throw DataError(concat({"Tensor: cannot take the rows [", begin, ", ", end,
                            ") of a tensor with ", rows, " rows"}));
}

LOCKSTEP_INLINE RowsAndExtents RowsAndExtents::channels_last() const {
  if (extents.size() != 3)
    throw DataError(
        concat({"Tensor: channels_last() is for samples of (channels, height, width), these are ",
                shape_text(extents)}));
  RowsAndExtents moved = *this;
  moved.extents = {extents[1], extents[2], extents[0]};
  return moved;
}

LOCKSTEP_INLINE void throw_other_rows(const char* needed, const std::vector<std::size_t>& samples,
                                      const char* things, const std::vector<std::size_t>& shape) {
  throw DataError(concat({"from_tensor_slices: every sample needs ", needed, ", got ",
                          samples.front(), " samples ", shape_text(samples), " and ", shape.front(),
                          " ", things, " ", shape_text(shape)}));
}

}}}  // namespace lockstep::detail
