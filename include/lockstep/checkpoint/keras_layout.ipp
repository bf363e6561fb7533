#pragma once

#include <algorithm>

#include "lockstep/checkpoint/keras_layout.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::string keras_place(const std::string& path) {
  std::string place;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    std::string part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part == "layers" || part == "_layer_checkpoint_dependencies" || part == "vars") continue;
    if (part.starts_with('_')) part.erase(0, 1);  // "_query_dense" of earlier versions
    place += (place.empty() ? "" : "/") + part;
  }
  return place;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
