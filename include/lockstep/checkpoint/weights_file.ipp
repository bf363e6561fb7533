#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/detail/checkpoint_header.hpp"
#include "lockstep/checkpoint/inflate.hpp"
#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/half.hpp"
#include "lockstep/core/json.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/npy_header.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/zip.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

// --- safetensors ---------------------------------------------------------------------------------

namespace detail {

// as the format's own library has it
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;
inline constexpr std::string_view safetensors_metadata = "__metadata__";

[[noreturn, gnu::cold]] LOCKSTEP_INLINE void refuse_safetensors(std::string_view why) {
  throw DataError(concat({"safetensors: ", why}));
}

/// What the header says about an array.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
};

/// Receives the header's JSON, and accepts what the format has and nothing else: an object of
/// objects whose values are texts or lists of numbers.
class SafetensorsHeader final : public JsonEvents {
 public:
  [[nodiscard]] std::vector<SafetensorsEntry> take_entries() { return std::move(entries_); }

  void begin_object() override {
    if (depth_ == 2 || list_ != nullptr) unexpected("an object");
    ++depth_;
  }
  void end_object() override {
    if (--depth_ == 1 && !in_metadata_) {
      const SafetensorsEntry& entry = entries_.back();
      for (const std::string_view needed : {"dtype", "shape", "data_offsets"})
        if (!fields_.contains(needed))
          refuse_safetensors(concat({"array ", in_quotes(entry.name), " has no ", needed}));
      if (entry.offsets.size() != 2)
        refuse_safetensors(concat({"array ", in_quotes(entry.name), " has ", entry.offsets.size(),
                                   " data_offsets, expected begin and end"}));
    }
  }
  void key(std::string name) override {
    if (depth_ == 1) {
      if (!names_.insert(name).second)
        refuse_safetensors(concat({in_quotes(name), " stands twice in the header"}));
      in_metadata_ = name == safetensors_metadata;
      if (!in_metadata_)
        entries_.push_back({.name = name, .dtype = {}, .shape = {}, .offsets = {}});
      fields_.clear();
    } else {
      if (!fields_.insert(name).second)
        refuse_safetensors(concat({in_quotes(name), " stands twice in one object"}));
      if (!in_metadata_ && name != "dtype" && name != "shape" && name != "data_offsets")
        refuse_safetensors(concat({"array ", in_quotes(entries_.back().name),
                                   " has the unknown field ", in_quotes(name)}));
    }
    key_ = std::move(name);
  }
  void begin_array() override {
    if (depth_ != 2 || list_ != nullptr || in_metadata_ || key_ == "dtype") unexpected("a list");
    list_ = key_ == "shape" ? &entries_.back().shape : &entries_.back().offsets;
  }
  void end_array() override { list_ = nullptr; }
  void value(JsonScalar value) override {
    static constexpr std::string_view kinds[] = {
        "null",  "a truth value", "a negative number", "a number", "a number that is not whole",
        "a text"};
    auto* const text = std::get_if<std::string>(&value);
    const auto* const number = std::get_if<std::uint64_t>(&value);
    if (text != nullptr && depth_ == 2 && list_ == nullptr && (in_metadata_ || key_ == "dtype")) {
      if (!in_metadata_) entries_.back().dtype = std::move(*text);
    } else if (number != nullptr && list_ != nullptr) {
      if (list_->size() == most_extents)
        refuse_safetensors(concat({"array ", in_quotes(entries_.back().name),
                                   ": a list has more than ", most_extents, " numbers"}));
      list_->push_back(*number);
    } else {
      unexpected(kinds[value.index()]);
    }
  }

 private:
  [[noreturn, gnu::cold]] void unexpected(std::string_view what) const {
    refuse_safetensors(concat({"unexpected ", what, " in the header at ", in_quotes(key_)}));
  }

  std::vector<SafetensorsEntry> entries_;
  std::set<std::string, std::less<>> names_, fields_;
  std::string key_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::vector<std::uint64_t>* list_ = nullptr;  // of the last entry
};

struct SafetensorsType {
  std::string_view dtype;
  std::size_t size;
  const char* scalar;                        ///< in memory
  float (*convert)(std::uint16_t) noexcept;  ///< null: as it is
};

inline constexpr SafetensorsType safetensors_types[] = {{"F32", 4, "float32", nullptr},
                                                        {"F64", 8, "float64", nullptr},
                                                        {"F16", 2, "float32", &Float16::decode},
                                                        {"BF16", 2, "float32", &Bfloat16::decode}};

/// Null for a type that is left out.
LOCKSTEP_INLINE const SafetensorsType* safetensors_type(const SafetensorsEntry& entry,
                                                        bool leave_out_others) {
  for (const SafetensorsType& type : safetensors_types)
    if (type.dtype == entry.dtype) return &type;
  if (leave_out_others) return nullptr;
  refuse_safetensors(concat({"array ", in_quotes(entry.name), " has dtype ", in_quotes(entry.dtype),
                             ", expected F32, F64, F16 or BF16"}));
}

LOCKSTEP_INLINE void check_safetensors_head(std::span<const std::byte> head, std::uint64_t size) {
  if (head.size() < 8)
    refuse_safetensors(concat({"these ", size, " bytes are no safetensors file"}));
  // (A safetensors file may begin like anything, as it begins with a number.)
  const auto note = [&] {
    return format_note({reinterpret_cast<const char*>(head.data()), head.size()});
  };
  const std::uint64_t header_size = get_number(head.data(), 8);
  if (header_size > safetensors_header_limit || header_size > size - 8)
    refuse_safetensors(
        concat({"the header is said to have ", header_size, " bytes; the file has ", size,
                ", and at most ", safetensors_header_limit, " are read", note()}));
  if (header_size == 0 || head[8] != std::byte{'{'})
    refuse_safetensors(concat({"the header does not begin with '{'", note()}));
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<std::byte> encode_safetensors(std::span<const SavedArray> arrays) {
  std::string header = "{";
  std::uint64_t size = 0;
  for (const SavedArray& array : arrays) {
    header += header.size() > 1 ? "," : "";
    header += concat({detail::json_text(array.name), ":{\"dtype\":\"",
                      detail::scalar_size(array.scalar) == 4 ? "F32" : "F64", "\",\"shape\":["});
    for (std::size_t i = 0; i < array.extents.size(); ++i)
      header += concat({i > 0 ? "," : "", array.extents[i]});
    header += concat({"],\"data_offsets\":[", size, ",", size + array.bytes.size(), "]}"});
    size += array.bytes.size();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the elements are then aligned

  std::vector<std::byte> bytes;
  bytes.reserve(8 + header.size() + static_cast<std::size_t>(size));
  bytes.resize(8);
  detail::put_number(bytes.data(), header.size(), 8);
  const auto text = std::as_bytes(std::span(header));
  bytes.insert(bytes.end(), text.begin(), text.end());
  for (const SavedArray& array : arrays)
    bytes.insert(bytes.end(), array.bytes.begin(), array.bytes.end());
  return bytes;
}

namespace detail {

LOCKSTEP_INLINE std::vector<SavedArray> decode_safetensors(std::span<const std::byte> bytes,
                                                           bool leave_out_others) {
  check_safetensors_head(bytes, bytes.size());
  const std::uint64_t header_size = get_number(bytes.data(), 8);
  const std::span<const std::byte> data = bytes.subspan(8 + static_cast<std::size_t>(header_size));
  const auto* const text = reinterpret_cast<const char*>(bytes.data() + 8);
  SafetensorsHeader header;
  try {
    read_json({text, static_cast<std::size_t>(header_size)}, header);
  } catch (const JsonError& error) {
    refuse_safetensors(concat({"the header is no JSON: ", error.what()}));
  }

  std::vector<SafetensorsEntry> entries = header.take_entries();
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offsets, a.name) < std::tie(b.offsets, b.name);
  });
  std::vector<SavedArray> arrays;
  std::uint64_t at = 0;  // up to here the data belong to arrays
  for (SafetensorsEntry& entry : entries) {
    const SafetensorsType* const type = safetensors_type(entry, leave_out_others);
    const auto [begin, end] = std::pair(entry.offsets[0], entry.offsets[1]);
    if (begin != at || end < begin || end > data.size())
      refuse_safetensors(
          concat({"array ", in_quotes(entry.name), " is at bytes ", begin, " to ", end,
                  ", expected a begin at ", at, " and an end up to ", data.size()}));
    at = end;
    if (type == nullptr) continue;
    if (array_size(entry.shape, type->size) != end - begin)
      refuse_safetensors(concat({"array ", in_quotes(entry.name), " ", shape_text(entry.shape),
                                 " of ", entry.dtype, " cannot have ", end - begin, " bytes"}));
    const auto elements =
        data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    SavedArray& array = arrays.emplace_back(SavedArray{
        .name = std::move(entry.name), .scalar = type->scalar, .extents = std::move(entry.shape)});
    if (type->convert != nullptr)
      array.bytes = widen(elements, type->convert);
    else
      array.bytes.assign(elements.begin(), elements.end());
  }
  if (at != data.size())
    refuse_safetensors(
        concat({data.size() - at, " bytes at the end belong to no array: the file is damaged"}));
  return arrays;
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<SavedArray> decode_safetensors(std::span<const std::byte> bytes) {
  return detail::decode_safetensors(bytes, false);
}
LOCKSTEP_INLINE std::vector<SavedArray> decode_safetensors_numbers(
    std::span<const std::byte> bytes) {
  return detail::decode_safetensors(bytes, true);
}

// --- npz -----------------------------------------------------------------------------------------

namespace detail {

[[noreturn, gnu::cold]] LOCKSTEP_INLINE void refuse_npz(std::string_view name,
                                                        std::string_view why) {
  throw DataError(concat({"npz: array ", in_quotes(name), ": ", why}));
}

struct NpyType {
  std::string_view descr;
  std::size_t size;
  const char* scalar;                        ///< in memory
  float (*convert)(std::uint16_t) noexcept;  ///< null: as it is
};
inline constexpr NpyType npy_types[] = {{"<f4", 4, "float32", nullptr},
                                        {"<f8", 8, "float64", nullptr},
                                        {"<f2", 2, "float32", &Float16::decode}};

/// The elements in row-major order, of an array that is stored with the first extent fastest.
LOCKSTEP_INLINE std::vector<std::byte> row_major(std::span<const std::byte> elements,
                                                 std::span<const std::uint64_t> shape,
                                                 std::size_t size) {
  std::vector<std::byte> ordered(elements.size());
  std::vector<std::uint64_t> index(shape.size());
  for (std::size_t to = 0; to < ordered.size(); to += size) {
    std::uint64_t from = 0;
    for (std::size_t d = shape.size(); d > 0; --d) from = from * shape[d - 1] + index[d - 1];
    std::memcpy(ordered.data() + to, elements.data() + from * size, size);
    for (std::size_t d = shape.size(); d > 0 && ++index[d - 1] == shape[d - 1]; --d)
      index[d - 1] = 0;
  }
  return ordered;
}

LOCKSTEP_INLINE SavedArray decode_npy(std::string name, std::span<const std::byte> npy) {
  const NpyHeader header(concat({"npz: array ", in_quotes(name)}), npy);
  const std::span<const std::byte> elements = npy.subspan(header.size());

  const auto* const type =
      std::find_if(std::begin(npy_types), std::end(npy_types),
                   [&](const NpyType& candidate) { return candidate.descr == header.descr(); });
  if (type == std::end(npy_types))
    refuse_npz(name, concat({"expected elements of type '<f4', '<f8' or '<f2', got ",
                             npy_type_text(header.descr())}));
  if (array_size(header.shape(), type->size) != elements.size())
    refuse_npz(name, concat({"the shape ", shape_text(header.shape()), " cannot have ",
                             elements.size(), " bytes"}));
  SavedArray array{.name = std::move(name), .scalar = type->scalar, .extents = header.shape()};
  if (header.fortran_order())
    array.bytes = row_major(elements, header.shape(), type->size);
  else
    array.bytes.assign(elements.begin(), elements.end());
  if (type->convert != nullptr) array.bytes = widen(array.bytes, type->convert);
  return array;
}

/// The contents of a deflated entry.
LOCKSTEP_INLINE std::vector<std::byte> inflate_entry(const ZipEntry& entry) {
  if (!can_inflate())
    refuse_npz(entry.name,
               "it is compressed, and this program was built without zlib: use numpy.savez");
  if (entry.size > (entry.data.size() + 1) * largest_inflation)
    refuse_npz(entry.name,
               concat({entry.data.size(), " deflated bytes cannot become ", entry.size}));
  std::optional<std::vector<std::byte>> contents =
      inflate_exactly(entry.data, entry.size, DeflateForm::none);
  if (!contents) refuse_npz(entry.name, "the deflated data are damaged");
  return std::move(*contents);
}

LOCKSTEP_INLINE void check_npz_head(std::span<const std::byte> head, std::uint64_t size) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (!text.starts_with("PK\x03\x04") && !text.starts_with("PK\x05\x06"))
    throw DataError(concat({"npz: these ", size, " bytes are no zip file", format_note(text)}));
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<std::byte> encode_npz(std::span<const SavedArray> arrays) {
  // (headers of arrays with a rank and a name as usual)
  constexpr std::size_t alignment = 64, entry_overhead = 512;
  std::size_t size = 0;
  for (const SavedArray& array : arrays) size += array.bytes.size() + entry_overhead;
  detail::ZipWriter writer(size);
  for (const SavedArray& array : arrays) {
    std::string shape;
    for (const std::uint64_t extent : array.extents) shape += concat({extent, ", "});
    std::string header = concat({detail::npy_magic, std::string_view("\x01\0..", 4), "{'descr': '",
                                 detail::scalar_size(array.scalar) == 4 ? "<f4" : "<f8",
                                 "', 'fortran_order': False, 'shape': (", shape, "), }"});
    header.resize((header.size() + alignment) / alignment * alignment - 1, ' ');
    header += '\n';
    detail::put_number(reinterpret_cast<std::byte*>(header.data()) + 8, header.size() - 10, 2);
    writer.add(array.name + ".npy", std::as_bytes(std::span(header)), array.bytes);
  }
  return std::move(writer).finish();
}

LOCKSTEP_INLINE std::vector<SavedArray> decode_npz_at_most(std::uint64_t most,
                                                           std::span<const std::byte> bytes) {
  constexpr std::string_view extension = ".npy";
  std::vector<SavedArray> arrays;
  std::set<std::string> names;
  std::uint64_t left = most;
  for (const detail::ZipEntry& entry : detail::read_zip_directory(bytes)) {
    if (entry.size > left)
      detail::refuse_npz(
          entry.name,
          concat({"it has ", entry.size, " bytes, and of all arrays at most ", most, " are read"}));
    left -= entry.size;
    if (!entry.name.ends_with(extension))
      detail::refuse_npz(entry.name, "the entry is no .npy file");
    const std::string name = entry.name.substr(0, entry.name.size() - extension.size());
    if (!names.insert(name).second) detail::refuse_npz(name, "it is there twice");
    const std::vector<std::byte> inflated =
        entry.deflated ? detail::inflate_entry(entry) : std::vector<std::byte>{};
    const std::span<const std::byte> contents = entry.deflated ? inflated : entry.data;
    if (crc32(contents) != entry.crc)
      detail::refuse_npz(name, "damaged: the checksum does not match");
    arrays.push_back(detail::decode_npy(name, contents));
  }
  return arrays;
}

LOCKSTEP_INLINE std::vector<SavedArray> decode_npz(std::span<const std::byte> bytes) {
  return decode_npz_at_most(std::numeric_limits<std::uint64_t>::max(), bytes);
}

// --- the format is chosen by the name ------------------------------------------------------------

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
