// Bytes that need not be joined to be written.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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
  /// Bytes of all parts together.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  std::vector<std::span<const std::byte>> parts_;
};

namespace detail {

/// Copies `source` into the memory that `bytes` has, if that is enough. New memory asks for huge
/// pages, because it will be used again (the first use of a huge page is dearer).
void copy_bytes(std::span<const std::byte> source, std::vector<std::byte>& bytes);

}  // namespace detail

inline void ByteParts::add(std::span<const std::byte> part) { parts_.push_back(part); }

inline std::size_t ByteParts::size() const noexcept {
  std::size_t size = 0;
  for (const std::span<const std::byte> part : parts_) size += part.size();
  return size;
}

namespace detail {

inline void copy_bytes(std::span<const std::byte> source, std::vector<std::byte>& bytes) {
  bytes.clear();
  if (source.size() > bytes.capacity()) {
    bytes.reserve(source.size());
    ask_for_huge_pages(bytes.data(), source.size());
  }
  bytes.insert(bytes.end(), source.begin(), source.end());
}

}  // namespace detail
}}  // namespace lockstep
