// MNIST and CIFAR-10, from the files that everybody has.
#pragma once

#include <cstdint>
#include <string>

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

/// Reads the four files of MNIST (or of another dataset of its format: Fashion-MNIST, KMNIST,
/// QMNIST, ...) from a directory: train-images-idx3-ubyte, train-labels-idx1-ubyte,
/// t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each plain or with .gz, also in the spelling
/// train-images.idx3-ubyte.
///
/// Throws DataError that names the files that are missing, malformed (see read_idx), or do not
/// belong together.
/// Use: `load_mnist("mnist")`. Keras: `datasets.mnist.load_data`.
[[nodiscard]] ImageDataset load_mnist(const std::string& directory);

/// Reads the binary version of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html) from a
/// directory: data_batch_1.bin to data_batch_5.bin, or one train.bin of the same form, and
/// test_batch.bin. Images become [n x 32 x 32 x 3], channels last; they stay bytes.
///
/// Format: for each image its label, a byte of 0 .. 9, and 1024 red, 1024 green, 1024 blue bytes,
/// row by row. Throws DataError that names the file and, for a damaged one, the offset.
/// Use: `load_cifar10("cifar-10-batches-bin")`. Keras: `datasets.cifar10.load_data`.
[[nodiscard]] ImageDataset load_cifar10(const std::string& directory);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/image_sets.ipp"
#endif
