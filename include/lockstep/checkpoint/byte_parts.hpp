// Bytes that need not be joined to be written.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Bytes in one place or in several, which follow one another in a file. Refers to them.
class ByteParts {
 public:
  ByteParts() = default;
  /// A single part; as a span, a vector becomes one by itself.
  template <class Bytes>
    requires std::convertible_to<const Bytes&, std::span<const std::byte>>
  ByteParts(const Bytes& bytes) {
    add(bytes);
  }

  void add(std::span<const std::byte> part);

  [[nodiscard]] auto begin() const noexcept { return parts_.begin(); }
  [[nodiscard]] auto end() const noexcept { return parts_.end(); }
  /// Of all parts together.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  std::vector<std::span<const std::byte>> parts_;
};

namespace detail {

/// Copies `source` into the memory that `bytes` has, if that is enough. New memory asks for huge
/// pages, because it will be used again (the first use of a huge page is dearer).
void copy_bytes(std::span<const std::byte> source, std::vector<std::byte>& bytes);

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/byte_parts.ipp"
#endif
