// The part of zip files that .npz needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A file in a zip file, as its directory describes it, and where it lies.
struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;   ///< of the contents
  std::uint32_t size = 0;  ///< of the contents
  std::span<const std::byte> data = {};
};

/// The files of a zip file. Throws DataError for a file that is incomplete, inconsistent
/// (overlapping entries, too), encrypted, split, compressed in another way, or of 4 GiB and more.
/// Allocates no memory for contents.
[[nodiscard]] std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> zip);

/// Writes a zip file with stored entries. Throws DataError when it would need zip64.
class ZipWriter {
 public:
  /// For `size` bytes of contents and names in all: a single allocation.
  explicit ZipWriter(std::size_t size) { bytes_.reserve(size); }

  /// The contents are `head` and then `body`.
  void add(std::string_view name, std::span<const std::byte> head, std::span<const std::byte> body);
  [[nodiscard]] std::vector<std::byte> finish() &&;

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::byte> directory_;
  std::size_t count_ = 0;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/zip.ipp"
#endif
