// Compressed bytes, and the filters of HDF5's parts of arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Whether this library was built with zlib.
[[nodiscard]] bool can_inflate() noexcept;

/// What stands around deflated data.
enum class DeflateForm : std::uint8_t { zlib, none };

/// deflate makes at most this many bytes of one.
inline constexpr std::uint64_t largest_inflation = 1032;

/// The `size` bytes that compressed data become; nothing when they are damaged or become another
/// number of bytes, and without zlib. Memory is taken only if the data can become that many.
[[nodiscard]] std::optional<std::vector<std::byte>> inflate_exactly(std::span<const std::byte> data,
                                                                    std::uint64_t size,
                                                                    DeflateForm form);

enum class ChunkFilter : std::uint8_t {
  deflate,  ///< zlib's
  shuffle,  ///< the first bytes of all elements, then the second ones, ...
};

/// The `size` bytes that a chunk of elements of `element` bytes had before `filters`, in the order
/// in which they were applied, made `stored` of them. Bit i of `skipped`: filter i was not applied.
/// Throws DataError, "HDF5: <where>: ...", when they become another number of bytes.
[[nodiscard]] std::vector<std::byte> undo_filters(std::string_view where,
                                                  std::span<const std::byte> stored,
                                                  std::span<const ChunkFilter> filters,
                                                  std::uint32_t skipped, std::size_t element,
                                                  std::uint64_t size);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/inflate.ipp"
#endif
