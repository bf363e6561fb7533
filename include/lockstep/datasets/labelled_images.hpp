// Images with labels, for training and for testing.
#pragma once

#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/data/tensor.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct LabelledImages {
  Tensor<std::uint8_t> images;  ///< [n x height x width], or with channels behind, 0 .. 255
  Tensor<std::uint8_t> labels;  ///< [n]
};

struct ImageDataset {
  LabelledImages train;
  LabelledImages test;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
