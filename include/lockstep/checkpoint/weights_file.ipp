#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/detail/checkpoint_header.hpp"
#include "lockstep/checkpoint/npz.hpp"
#include "lockstep/checkpoint/safetensors.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/zip.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

template <class From, class To>
std::vector<std::byte> convert_elements(std::span<const std::byte> bytes) {
  std::vector<std::byte> converted(bytes.size() / sizeof(From) * sizeof(To));
  for (std::size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    From from;
    std::memcpy(&from, bytes.data() + i * sizeof(From), sizeof(From));
    const To to = static_cast<To>(from);
    std::memcpy(converted.data() + i * sizeof(To), &to, sizeof(To));
  }
  return converted;
}

LOCKSTEP_INLINE void check_names(std::span<const SavedArray> arrays) {
  std::set<std::string_view> names;
  for (const SavedArray& array : arrays) {
    if (!is_utf8(array.name))
      throw DataError(concat({"weights: the name of array ", names.size(), " is no UTF-8"}));
    if (!names.insert(array.name).second)
      throw DataError(concat({"weights: two arrays are named ", in_quotes(array.name),
                              ": no program could load them"}));
  }
}

/// Throws DataError unless a file begins as Keras's.
LOCKSTEP_INLINE void check_keras_head(std::string_view path, std::span<const std::byte> head) {
  const bool is_archive = path.ends_with(".keras");
  const std::string_view magic = is_archive ? "PK\3\4" : "\x89HDF\r\n\x1a\n";
  const std::string_view begin(reinterpret_cast<const char*>(head.data()), head.size());
  if (!begin.starts_with(magic))
    throw DataError(
        concat({"expected a file of ", is_archive ? "zip" : "HDF5",
                ", which Keras 3 writes, and it does not begin like one", format_note(begin)}));
}

/// The file of weights in a .keras file.
LOCKSTEP_INLINE std::span<const std::byte> keras_member(std::span<const std::byte> archive) {
  const std::vector<ZipEntry> entries = read_zip_directory(archive);
  const auto found = std::find_if(entries.begin(), entries.end(), [](const ZipEntry& entry) {
    return entry.name == "model.weights.h5";
  });
  if (found == entries.end() || found->deflated)
    throw DataError("expected an entry model.weights.h5, stored as Keras 3 does it");
  if (crc32(found->data) != found->crc)
    throw DataError("model.weights.h5 is damaged: the checksum does not match");
  return found->data;
}

/// Files that other programs would not know by these names.
LOCKSTEP_INLINE void refuse_foreign_format(std::string_view caller, std::string_view path) {
  for (const char* const extension : {".pt", ".pth", ".onnx"})
    if (path.ends_with(extension))
      throw ConfigurationError(
          concat({caller, ": ", in_quotes(path), ": files of the kind ", extension, " are not ",
                  "written or read here: PyTorch and others read weights as .safetensors or .npz, ",
                  "and export_onnx writes a model for onnxruntime"}));
  for (const char* const index : {".index.json", ".weights.json"})
    if (path.ends_with(index))
      throw ConfigurationError(concat(
          {caller, ": ", in_quotes(path), ": an index of shards names the files that have the ",
           "weights, and has none: give one file, which the program that wrote it can save"}));
}

}  // namespace detail

LOCKSTEP_INLINE void check_weights_path(std::string_view caller, std::string_view path,
                                        bool reading) {
  detail::refuse_foreign_format(caller, path);
  const bool is_supported = reading ? is_keras_file(path) : path.ends_with(".weights.h5");
  const bool is_any = path.ends_with(".h5") || path.ends_with(".hdf5") || path.ends_with(".keras");
  if (is_any && !is_supported)
    throw ConfigurationError(
        concat({caller, ": ", in_quotes(path), ": of Keras's files, ",
                reading ? ".weights.h5 and .keras, which Keras 3 writes, are read"
                        : ".weights.h5 is written, which Keras 3 reads: choose such a name, or "
                          "another extension"}));
  if (is_any && detail::hdf5_codec == nullptr)
    throw ConfigurationError(
        concat({caller, ": ", in_quotes(path),
                ": it is a file of HDF5, and this program has no library for ",
                "them: link the CMake target lockstep::hdf5 to it "
                "(find_package(lockstep COMPONENTS hdf5); Debian: libhdf5-dev)"}));
}

LOCKSTEP_INLINE std::vector<std::byte> encode_weights(std::string_view path,
                                                      std::vector<SavedArray> arrays,
                                                      const KerasLayout& layout,
                                                      const KerasOptimizer& optimizer) {
  check_weights_path("save_weights", path);
  detail::check_names(arrays);
  if (is_keras_file(path)) return detail::hdf5_codec->encode(arrays, layout, optimizer);
  if (path.ends_with(".safetensors")) return encode_safetensors(arrays);
  if (path.ends_with(".npz")) return encode_npz(arrays);
  TrainingState weights;
  if (!arrays.empty()) weights.scalar = arrays.front().scalar;
  weights.parameters = std::move(arrays);
  return encode_checkpoint(weights);
}

LOCKSTEP_INLINE void save_weights_file(const std::string& path, std::vector<SavedArray> arrays,
                                       const KerasLayout& layout, const KerasOptimizer& optimizer) {
  write_file_atomically(path, encode_weights(path, std::move(arrays), layout, optimizer));
}

LOCKSTEP_INLINE HeadCheck weights_check(std::string_view path,
                                        std::optional<std::uint64_t> expected) {
  if (is_keras_file(path))
    return
        [name = std::string(path), expected](std::span<const std::byte> head, std::uint64_t size) {
          detail::check_keras_head(name, head);
          at_most(detail::size_limit(expected), "weights for this model")(head, size);
        };
  const bool is_safetensors = path.ends_with(".safetensors");
  if (!is_safetensors && !path.ends_with(".npz")) return checkpoint_check(expected);
  return [is_safetensors, expected](std::span<const std::byte> head, std::uint64_t size) {
    is_safetensors ? detail::check_safetensors_head(head, size)
                   : detail::check_npz_head(head, size);
    at_most(detail::size_limit(expected), "weights for this model")(head, size);
  };
}

LOCKSTEP_INLINE KerasWeights decode_keras_file(std::string_view path,
                                               std::span<const std::byte> bytes,
                                               std::optional<std::uint64_t> expected,
                                               std::size_t variables) {
  check_weights_path("load_weights", path, true);
  detail::check_keras_head(path, bytes);
  return detail::hdf5_codec->decode(path.ends_with(".keras") ? detail::keras_member(bytes) : bytes,
                                    detail::size_limit(expected), variables);
}

LOCKSTEP_INLINE std::vector<SavedArray> decode_weights(std::string_view path,
                                                       std::span<const std::byte> bytes,
                                                       std::optional<std::uint64_t> expected) {
  if (is_keras_file(path)) return decode_keras_file(path, bytes, expected, 0).arrays;
  if (path.ends_with(".safetensors")) return decode_safetensors(bytes);
  if (path.ends_with(".npz")) return decode_npz_at_most(detail::size_limit(expected), bytes);
  TrainingState saved = decode_checkpoint(bytes);
  std::move(saved.state.begin(), saved.state.end(), std::back_inserter(saved.parameters));
  return std::move(saved.parameters);
}

LOCKSTEP_INLINE void refuse_weights_format(std::string_view caller, std::string_view path) {
  detail::refuse_foreign_format(caller, path);
  for (const char* const extension : {".safetensors", ".npz", ".h5", ".hdf5", ".keras"})
    if (path.ends_with(extension))
      throw ConfigurationError(
          concat({caller, ": ", in_quotes(path), ": ", extension,
                  " files have weights alone, and not what ",
                  "this library needs to go on: choose another extension for the whole training ",
                  "state, or save the weights only"}));
}

LOCKSTEP_INLINE SavedArray convert_array(SavedArray array, std::string_view scalar) {
  const std::size_t size = detail::scalar_size(array.scalar);
  if (detail::scalar_size(scalar) != size) {
    array.bytes = size == sizeof(float) ? detail::convert_elements<float, double>(array.bytes)
                                        : detail::convert_elements<double, float>(array.bytes);
    array.scalar = scalar;
  }
  return array;
}

}}  // namespace lockstep
