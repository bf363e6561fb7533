// Files of HDF5, in programs that have a library for them: those that link the CMake target
// lockstep::hdf5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/checkpoint/keras_layout.hpp"
#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What such a library does here.
struct Hdf5Codec {
  /// A file with the groups of `layout`, and in them `arrays`, as Keras 3 writes it; with the state
  /// of an optimizer that has a name.
  std::vector<std::byte> (*encode)(std::span<const SavedArray> arrays, const KerasLayout& layout,
                                   const KerasOptimizer& optimizer);
  /// The arrays of numbers with a point in Keras 3's file. Refuses more than `most` bytes of them.
  /// Of an optimizer with more than `variables` ones, their number alone is told.
  KerasWeights (*decode)(std::span<const std::byte> bytes, std::uint64_t most,
                         std::size_t variables);
};

/// Null where there is none. It is set before main, so that the library need not know.
inline const Hdf5Codec* hdf5_codec = nullptr;

}}}  // namespace lockstep::detail

#include "lockstep/checkpoint/detail/hdf5_file.hpp"  // empty without LOCKSTEP_HAS_HDF5
