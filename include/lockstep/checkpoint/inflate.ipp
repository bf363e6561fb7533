#pragma once

#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "lockstep/checkpoint/inflate.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

#if defined(LOCKSTEP_HAS_ZLIB)
#include <zlib.h>
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

#if defined(LOCKSTEP_HAS_ZLIB)

LOCKSTEP_INLINE bool can_inflate() noexcept { return true; }

LOCKSTEP_INLINE std::optional<std::vector<std::byte>> inflate_exactly(
    std::span<const std::byte> data, std::uint64_t size, DeflateForm form) {
  constexpr std::uint64_t most = std::numeric_limits<uInt>::max();
  if (data.size() > most || size > most || size > (data.size() + 1) * largest_inflation)
    return std::nullopt;
  std::vector<std::byte> contents(static_cast<std::size_t>(size));
  z_stream stream{};
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(contents.data());
  stream.avail_out = static_cast<uInt>(contents.size());
  if (inflateInit2(&stream, form == DeflateForm::zlib ? MAX_WBITS : -MAX_WBITS) != Z_OK)
    throw std::bad_alloc();
  const int result = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (result != Z_STREAM_END || stream.avail_in != 0 || stream.avail_out != 0) return std::nullopt;
  return contents;
}

#else

LOCKSTEP_INLINE bool can_inflate() noexcept { return false; }

LOCKSTEP_INLINE std::optional<std::vector<std::byte>> inflate_exactly(std::span<const std::byte>,
                                                                      std::uint64_t, DeflateForm) {
  return std::nullopt;
}

#endif

/// Bytes behind the last whole element stay where they are.
LOCKSTEP_INLINE std::vector<std::byte> unshuffle(std::span<const std::byte> bytes,
                                                 std::size_t element) {
  std::vector<std::byte> ordered(bytes.begin(), bytes.end());
  const std::size_t count = bytes.size() / element;
  for (std::size_t byte = 0; byte < element; ++byte)
    for (std::size_t i = 0; i < count; ++i) ordered[i * element + byte] = bytes[byte * count + i];
  return ordered;
}

LOCKSTEP_INLINE std::vector<std::byte> undo_filters(std::string_view where,
                                                    std::span<const std::byte> stored,
                                                    std::span<const ChunkFilter> filters,
                                                    std::uint32_t skipped, std::size_t element,
                                                    std::uint64_t size) {
  const auto refuse = [&](std::string_view why) {
    throw DataError(concat({"HDF5: ", printable(where, 80), ": ", why}));
  };
  std::vector<std::byte> bytes(stored.begin(), stored.end());
  for (std::size_t i = filters.size(); i > 0; --i) {
    if (i <= 32 && (skipped >> (i - 1) & 1) != 0) continue;
    if (filters[i - 1] == ChunkFilter::shuffle) {
      bytes = unshuffle(bytes, element);
      continue;
    }
    if (!can_inflate())
      refuse(
          "it is compressed, and this program was built without zlib: write it without "
          "(h5repack -f NONE)");
    std::optional<std::vector<std::byte>> inflated =
        inflate_exactly(bytes, size, DeflateForm::zlib);
    if (!inflated)
      refuse(
          concat({"damaged: a compressed part does not become the ", size, " bytes that it has"}));
    bytes = std::move(*inflated);
  }
  if (bytes.size() != size)
    refuse(concat({"damaged: a part has ", bytes.size(), " bytes, expected ", size}));
  return bytes;
}

}}}  // namespace lockstep::detail
