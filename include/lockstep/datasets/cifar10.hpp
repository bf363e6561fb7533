// The CIFAR-10 files.
#pragma once

#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/datasets/labelled_images.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Reads the binary version of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html) from a
/// directory: data_batch_1.bin to data_batch_5.bin, or one train.bin of the same form, and
/// test_batch.bin. Images become [n x 32 x 32 x 3], channels last; they stay bytes.
///
/// Format: for each image its label, a byte of 0 .. 9, and 1024 red, 1024 green, 1024 blue bytes,
/// row by row. Throws DataError that names the file and, for a damaged one, the offset.
[[nodiscard]] ImageDataset load_cifar10(const std::string& directory);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/datasets/cifar10.ipp"
#endif
