// MNIST and CIFAR-10, from the files that everybody has.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/tensor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

struct IdxContents {
  std::vector<std::size_t> shape;
  std::vector<std::uint8_t> bytes;  ///< the elements, big-endian
};

/// Reads a whole file and throws DataError unless it has this type of elements.
IdxContents read_idx_bytes(const std::string& path, std::uint8_t type_code,
                           std::size_t element_size);

template <class U>
consteval std::uint8_t idx_type_code() {
  if constexpr (std::same_as<U, std::uint8_t>) return 0x08;
  if constexpr (std::same_as<U, std::int8_t>) return 0x09;
  if constexpr (std::same_as<U, std::int16_t>) return 0x0B;
  if constexpr (std::same_as<U, std::int32_t>) return 0x0C;
  if constexpr (std::same_as<U, float>) return 0x0D;
  if constexpr (std::same_as<U, double>) return 0x0E;
  return 0;
}

}  // namespace detail

/// Reads an IDX file, plain or compressed with gzip (recognised by its contents). U is the file's
/// type of elements: std::uint8_t (MNIST), std::int8_t, std::int16_t, std::int32_t, float or
/// double. The first extent is the number of rows.
///
/// Format (http://yann.lecun.com/exdb/mnist): two zero bytes, a type code, the number of extents,
/// the extents as 32-bit big-endian numbers, the elements, big-endian, the last extent fastest.
///
/// Throws DataError, naming the path, what was expected and what was found, when the file cannot be
/// read, is not IDX, has another type, or is shorter or longer than its header says. Memory is
/// taken only after the header was compared with the size of the file.
/// Use: `read_idx("train-images-idx3-ubyte.gz")`. Keras: none.
template <class U = std::uint8_t>
[[nodiscard]] Tensor<U> read_idx(const std::string& path) {
  constexpr std::uint8_t code = detail::idx_type_code<U>();
  static_assert(code != 0,
                "lockstep: IDX files hold std::uint8_t, int8_t, int16_t, int32_t, float or double");
  detail::IdxContents contents = detail::read_idx_bytes(path, code, sizeof(U));
  if constexpr (std::same_as<U, std::uint8_t>) {
    return Tensor<U>(std::move(contents.bytes), contents.shape);
  } else {
    std::vector<U> values(contents.bytes.size() / sizeof(U));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::array<std::uint8_t, sizeof(U)> element;
      for (std::size_t b = 0; b < sizeof(U); ++b)
        element[std::endian::native == std::endian::little ? sizeof(U) - 1 - b : b] =
            contents.bytes[i * sizeof(U) + b];
      std::memcpy(&values[i], element.data(), sizeof(U));
    }
    return Tensor<U>(std::move(values), contents.shape);
  }
}

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

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/image_sets.ipp"
#endif
