// Files of weights: the format is chosen by the name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/hdf5.hpp"
#include "lockstep/checkpoint/keras_layout.hpp"
#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Whether `path` names a file of Keras 3: .weights.h5, or the .keras that has one in it.
[[nodiscard]] inline bool is_keras_file(std::string_view path) noexcept {
  return path.ends_with(".weights.h5") || path.ends_with(".keras");
}

/// Throws ConfigurationError, which begins with `caller`, when `path` names a file of Keras that
/// cannot be written here, or with `reading` not read: one of another format than .weights.h5
/// (.keras is read, too), or any when the program does not link lockstep::hdf5.
void check_weights_path(std::string_view caller, std::string_view path, bool reading = false);

/// The bytes of a file of weights: by the extension of `path` .safetensors, .npz, .weights.h5
/// (Keras's, for which `layout` is needed, and which has the state of an optimizer with a name), or
/// else lockstep's own format. Throws DataError when two arrays have the same name, or a name is
/// not UTF-8: such a file could not be loaded.
[[nodiscard]] std::vector<std::byte> encode_weights(std::string_view path,
                                                    std::vector<SavedArray> arrays,
                                                    const KerasLayout& layout = {},
                                                    const KerasOptimizer& optimizer = {});

/// Writes such a file, as write_file_atomically does. Throws Error naming the path.
void save_weights_file(const std::string& path, std::vector<SavedArray> arrays,
                       const KerasLayout& layout = {}, const KerasOptimizer& optimizer = {});

/// The arrays of such a file; of a whole training state in lockstep's own format, its parameters
/// and untrained state; of Keras's files, those of layers, named by their places: "dense_1/0" (see
/// keras_place). Throws DataError when it is damaged, or decompresses to far more than the
/// `expected` bytes of the model that will take them.
[[nodiscard]] std::vector<SavedArray> decode_weights(std::string_view path,
                                                     std::span<const std::byte> bytes,
                                                     std::optional<std::uint64_t> expected = {});

/// The same of one of Keras's files, with the state of its optimizer; where this has more than
/// `variables` ones, their number alone.
[[nodiscard]] KerasWeights decode_keras_file(std::string_view path,
                                             std::span<const std::byte> bytes,
                                             std::optional<std::uint64_t> expected,
                                             std::size_t variables);

/// For read_file: refuses a file that does not begin like one of the path's format, and one with
/// far more than the `expected` bytes of the model that will take them.
[[nodiscard]] HeadCheck weights_check(std::string_view path,
                                      std::optional<std::uint64_t> expected = {});

/// Throws ConfigurationError, which begins with `caller`, when `path` names a format that has room
/// for weights alone.
void refuse_weights_format(std::string_view caller, std::string_view path);

/// The same array with elements of "float32" or "float64".
[[nodiscard]] SavedArray convert_array(SavedArray array, std::string_view scalar);

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/weights_file.ipp"
#endif
