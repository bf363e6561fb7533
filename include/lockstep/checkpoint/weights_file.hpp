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

// --- safetensors: named arrays that PyTorch, JAX, TensorFlow and NumPy read ----------------------

/// A safetensors file: the size of a JSON header, the header (names, dtypes, shapes, offsets), the
/// elements.
[[nodiscard]] std::vector<std::byte> encode_safetensors(std::span<const SavedArray> arrays);

/// The arrays in the order of their elements. F32 and F64 are taken as they are, F16 and BF16
/// become float32. Throws DataError, naming the array, for other dtypes, and when the file is
/// incomplete or inconsistent. Verifies sizes before memory is allocated. The format has no
/// checksum, so a changed element goes unnoticed.
[[nodiscard]] std::vector<SavedArray> decode_safetensors(std::span<const std::byte> bytes);
/// The same, but arrays of other dtypes are left out.
[[nodiscard]] std::vector<SavedArray> decode_safetensors_numbers(std::span<const std::byte> bytes);

namespace detail {

/// Throws DataError unless a file that begins with `head` and has `size` bytes can be a safetensors
/// file.
void check_safetensors_head(std::span<const std::byte> head, std::uint64_t size);

}  // namespace detail

// --- NumPy's .npz: a zip file with an .npy file for each array -----------------------------------

/// What numpy.load reads; entries are stored, not compressed. Throws DataError when the file would
/// pass 4 GiB or have more than 65,535 arrays (it would need zip64).
[[nodiscard]] std::vector<std::byte> encode_npz(std::span<const SavedArray> arrays);

/// What numpy.savez and, where zlib is there, numpy.savez_compressed wrote. float32 and float64 are
/// taken as they are, float16 becomes float32; arrays in Fortran's order are brought to row-major.
/// Throws DataError, naming the array, for other types, and when the file is incomplete or
/// inconsistent. Verifies zip's checksums, and sizes before memory is allocated.
[[nodiscard]] std::vector<SavedArray> decode_npz(std::span<const std::byte> bytes);

/// The same, but refuses a file whose arrays have more than `most` bytes together.
[[nodiscard]] std::vector<SavedArray> decode_npz_at_most(std::uint64_t most,
                                                         std::span<const std::byte> bytes);

namespace detail {

/// Throws DataError unless a file that begins with `head` and has `size` bytes can be a zip file.
void check_npz_head(std::span<const std::byte> head, std::uint64_t size);

}  // namespace detail

// --- HDF5, in programs that link the CMake target lockstep::hdf5 ---------------------------------

namespace detail {

/// What such a library does here.
struct Hdf5Codec {
  /// A file with the groups of `layout`, and in them `arrays`, as Keras 3 writes it; with the state
  /// of an optimizer that has a name.
  std::vector<std::byte> (*encode)(std::span<const SavedArray> arrays, const KerasLayout& layout,
                                   const KerasOptimizer& optimizer);
  /// The arrays of numbers with a point in Keras 3's file. Refuses more than `most` bytes of them.
  /// If the optimizer has more variables than `variables`, returns only how many.
  KerasWeights (*decode)(std::span<const std::byte> bytes, std::uint64_t most,
                         std::size_t variables);
};

/// Null where there is none. It is set before main, so that the library need not know.
inline const Hdf5Codec* hdf5_codec = nullptr;

}  // namespace detail
}}  // namespace lockstep

#include "lockstep/checkpoint/detail/hdf5_file.hpp"  // empty without LOCKSTEP_HAS_HDF5

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/weights_file.ipp"
#endif
