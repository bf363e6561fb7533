// A variable that is looked for in a file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A variable that a file of weights must have.
struct WantedArray {
  std::string name;
  std::span<const std::size_t> shape;
  std::string place = {};  ///< what it is called in Keras's files: "dense/0"
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
