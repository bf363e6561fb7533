// The arena: all variables of a model in one block of memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// One value for each element of a list of variables, in one block. Slices lie in reverse order of
/// the list: the order in which backward finishes gradients, so that what is ready is always a
/// growing range from the start. Each slice is aligned to 64 bytes; what lies between slices is
/// zero and stays zero.
///
/// Threads may write different elements of it at once.
template <class T>
class Arena {
 public:
  static constexpr std::size_t slice_multiple = cache_line / sizeof(float);

  Arena() noexcept = default;

  /// Zeros. `allocate(bytes)` gives the Buffer.
  template <class Allocate>
  Arena(std::span<const Variable> variables, Allocate&& allocate)
      : size_(size_of(variables)),
        buffer_(allocate(size_of(variables) * sizeof(T))),
        slices_(variables.size()) {
    std::size_t offset = 0;
    for (std::size_t i = variables.size(); i > 0; --i) {
      slices_[i - 1] = values().subspan(offset, variables[i - 1].size());
      offset += rounded(variables[i - 1].size());
    }
  }
  explicit Arena(std::span<const Variable> variables)
      : Arena(variables, [](std::size_t bytes) { return Buffer(bytes); }) {}

  /// All elements, with the zeros between slices.
  [[nodiscard]] std::span<T> values() noexcept {
    return {reinterpret_cast<T*>(buffer_.data()), size_};
  }
  [[nodiscard]] std::span<const T> values() const noexcept {
    return {reinterpret_cast<const T*>(buffer_.data()), size_};
  }

  /// How many these are.
  [[nodiscard]] static constexpr std::size_t size_of(std::span<const Variable> variables) noexcept {
    std::size_t size = 0;
    for (const Variable& variable : variables) size += rounded(variable.size());
    return size;
  }

  /// One span for each variable, in the order of the list.
  [[nodiscard]] std::span<const std::span<T>> slices() const noexcept { return slices_; }

  /// Calls f(i, element, count, offset) for each slice that has some of elements [begin, begin +
  /// size), as they lie in memory: `count` of slice i, from `element` on, which are `offset` behind
  /// `begin`.
  template <class F>
  void each_slice(std::size_t begin, std::size_t size, F f) const {
    for (std::size_t i = slices_.size(); i > 0; --i) {
      const std::span<T> slice = slices_[i - 1];
      const auto first = static_cast<std::size_t>(slice.data() - values().data());
      const std::size_t from = std::max(first, begin);
      const std::size_t end = std::min(first + slice.size(), begin + size);
      if (from < end) f(i - 1, from - first, end - from, from - begin);
      if (first >= begin + size) return;
    }
  }

  /// Part `index` of `count` nearly equal parts of values(), cut at multiples of 64 bytes.
  [[nodiscard]] std::pair<std::size_t, std::size_t> part(std::size_t index,
                                                         std::size_t count) const noexcept {
    return part_of(size_, index, count);
  }
  /// The part of an arena of `elements` elements.
  [[nodiscard]] static constexpr std::pair<std::size_t, std::size_t> part_of(
      std::size_t elements, std::size_t index, std::size_t count) noexcept {
    const std::size_t blocks = elements / slice_multiple;
    const std::size_t begin = blocks * index / count * slice_multiple;
    const std::size_t end = blocks * (index + 1) / count * slice_multiple;
    return {begin, end - begin};
  }

 private:
  static constexpr std::size_t rounded(std::size_t size) noexcept {
    return (size + slice_multiple - 1) / slice_multiple * slice_multiple;
  }

  std::size_t size_ = 0;
  Buffer buffer_;
  std::vector<std::span<T>> slices_;
};

}}  // namespace lockstep
