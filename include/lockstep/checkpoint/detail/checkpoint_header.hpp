// The header of a checkpoint file: format version, sizes and checksums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The most bytes, of arrays or of anything else, that are read for a model whose state has
/// `expected` bytes of arrays. The limit leaves room for the somewhat larger file of another model,
/// so that its difference can be named. Without a model there is no limit.
[[nodiscard]] constexpr std::uint64_t size_limit(std::optional<std::uint64_t> expected) noexcept {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max(), factor = 16,
                          more = std::uint64_t{1} << 28;
  if (!expected || *expected > (most - more) / factor) return most;
  return factor * *expected + more;
}

inline constexpr std::array<char, 8> checkpoint_magic{'L', 'O', 'C', 'K', 'S', 'T', 'E', 'P'};
/// Bytes of the header, as archive.hpp lists them.
inline constexpr std::size_t checkpoint_header = 8 + 4 + 8 + 8 + 4 + 4;

[[noreturn, gnu::cold]] inline void refuse_size(std::string_view what, std::uint64_t expected,
                                                std::uint64_t got) {
  throw DataError(concat({"checkpoint: expected ", expected, " bytes of ", what, ", got ", got,
                          ": the file is cut off or has grown"}));
}

/// Throws DataError unless a file of `size` bytes that begins with `head` is of this version.
inline void check_checkpoint_version(std::span<const std::byte> head, std::uint64_t size) {
  if (head.size() < 12 ||
      std::memcmp(head.data(), checkpoint_magic.data(), checkpoint_magic.size()) != 0)
    throw DataError(
        concat({"checkpoint: these ", size, " bytes are no lockstep checkpoint",
                format_note({reinterpret_cast<const char*>(head.data()), head.size()})}));
  const std::uint64_t version = get_number(head.data() + 8, 4);
  if (version != checkpoint_format_version)
    throw DataError(concat({"checkpoint: format version ", version, ", this library reads ",
                            checkpoint_format_version, ": use a newer lockstep"}));
}

/// Throws DataError unless a part of the file has the size that the header announces, and is no
/// larger than the caller's model allows.
inline void check_part(std::string_view what, std::uint64_t announced, std::uint64_t there,
                       std::uint64_t limit) {
  if (announced != there) refuse_size(what, announced, there);
  if (announced > limit)
    throw DataError(
        concat({"checkpoint: it has ", announced, " bytes of ", what,
                ", and for this model at most ", limit, " are read: it belongs to another model"}));
}

/// Throws DataError unless a file of `size` bytes has the sizes that its header, in `head`, says.
inline void check_checkpoint_size(std::span<const std::byte> head, std::uint64_t size,
                                  std::uint64_t limit) {
  check_checkpoint_version(head, size);
  constexpr std::size_t header = checkpoint_header;
  if (head.size() < header) refuse_size("header", header, head.size());
  const std::uint64_t rest = size - header;
  if (crc32c(head.first(header - 4)) != get_number(head.data() + header - 4, 4))
    throw DataError("checkpoint: damaged: the checksum of the header does not match");
  const std::uint64_t manifest = get_number(head.data() + 12, 8),
                      data = get_number(head.data() + 20, 8);
  if (manifest > rest) refuse_size("manifest", manifest, rest);
  check_part("manifest", manifest, manifest, limit);
  check_part("data", data, rest - manifest, limit);
}

}}}  // namespace lockstep::detail
