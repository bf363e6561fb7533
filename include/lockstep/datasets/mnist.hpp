// The MNIST files.
#pragma once

#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/datasets/labelled_images.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Reads the four files of MNIST (or of another dataset of its format: Fashion-MNIST, KMNIST,
/// QMNIST, ...) from a directory: train-images-idx3-ubyte, train-labels-idx1-ubyte,
/// t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each plain or with .gz, also in the spelling
/// train-images.idx3-ubyte.
///
/// Throws DataError that names the files that are missing, malformed (see read_idx), or do not
/// belong together.
[[nodiscard]] ImageDataset load_mnist(const std::string& directory);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/datasets/mnist.ipp"
#endif
