#pragma once

#include <algorithm>

#include "lockstep/core/shape.hpp"
#include "lockstep/saving/model_files.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::vector<SavedArray> match_arrays(std::vector<SavedArray> found, std::span<const WantedArray> wanted,
                                                     std::string_view scalar) {
  std::vector<SavedArray> matched;
  for (const WantedArray& variable : wanted) {
    const std::string& name = variable.name;
    const std::span<const std::size_t> shape = variable.shape;
    const auto array =
        std::find_if(found.begin(), found.end(), [&](const SavedArray& candidate) { return candidate.name == name; });
    if (array == found.end())
      throw ConfigurationError(
          concat({"expected an array '", name, "' ", shape_text(shape), ", the file has none of that name"}));
    if (!std::equal(array->extents.begin(), array->extents.end(), shape.begin(), shape.end()))
      throw ConfigurationError(concat(
          {"expected '", name, "' to be ", shape_text(shape), ", in the file it is ", shape_text(array->extents)}));
    if (array_size(array->extents, scalar_size(array->scalar)) != array->bytes.size())
      throw DataError(concat({"'", name, "' ", shape_text(array->extents), " of ", array->scalar, " cannot have ",
                              array->bytes.size(), " bytes: the file is damaged"}));
    matched.push_back(convert_array(std::move(*array), scalar));
    found.erase(array);
  }
  if (!found.empty())
    throw ConfigurationError(concat({"the file has an array '", found.front().name, "' ",
                                     shape_text(found.front().extents), ", which is no variable of this model"}));
  return matched;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
