#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/checkpoint/inflate.hpp"
#include "lockstep/checkpoint/npz.hpp"
#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/half.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/npy_header.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/zip.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
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

}}  // namespace lockstep
