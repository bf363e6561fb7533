#pragma once

#include <algorithm>
#include <cstring>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/training/saved_arrays.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void save_arrays(std::vector<SavedArray>& saved, std::size_t first,
                                 const ArrayList& list, const std::string& suffix) {
  saved.resize(std::max(saved.size(), first + list.variables.size()));
  for (std::size_t i = 0; i < list.variables.size(); ++i) {
    const std::span<const std::size_t> shape = list.variables[i].shape();
    SavedArray& array = saved[first + i];
    array.name = list.names[i] + suffix;
    array.scalar = list.scalar;
    array.extents.assign(shape.begin(), shape.end());
    copy_bytes(list.bytes[i], array.bytes);
  }
}

LOCKSTEP_INLINE void load_arrays(const std::vector<SavedArray>& saved, std::size_t first,
                                 const ArrayList& list, bool check_only) {
  for (std::size_t i = 0; i < list.variables.size(); ++i) {
    const std::span<const std::size_t> shape = list.variables[i].shape();
    if (first + i >= saved.size())
      throw ConfigurationError(concat({"restore: the saved state has no array for ", list.names[i],
                                       " ", shape_text(shape), ": it belongs to another model"}));
    const SavedArray& array = saved[first + i];
    if (array.scalar != list.scalar ||
        !std::equal(array.extents.begin(), array.extents.end(), shape.begin(), shape.end()) ||
        array.bytes.size() != list.bytes[i].size())
      throw ConfigurationError(
          concat({"restore: expected ", list.names[i], " ", shape_text(shape), " of ", list.scalar,
                  ", the saved state has '", array.name, "' ", shape_text(array.extents), " of ",
                  array.scalar, ": it belongs to another model"}));
    if (!check_only) std::copy(array.bytes.begin(), array.bytes.end(), list.bytes[i].begin());
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
