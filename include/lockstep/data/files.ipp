#pragma once

#include "lockstep/core/shape.hpp"
#include "lockstep/data/files.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void check_same_shapes(const FileShapes& first, const FileShapes& next) {
  if (is_same_shape(first.sample, next.sample) && first.targets == next.targets) return;
  const auto text = [](const FileShapes& shapes) {
    return concat({shapes.path, " has samples of ", shape_text(shapes.sample),
                   shapes.targets > 0 ? concat({" with targets of (", shapes.targets, ")"})
                                      : " without targets"});
  };
  throw DataError(concat({"from_files: the files differ: ", text(next), ", ", text(first)}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
