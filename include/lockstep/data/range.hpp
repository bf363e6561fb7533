// Whole numbers as samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/data/source.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Sample i is the number start + i * step, without a target. In float the numbers are exact up to
/// 2^24.
class RangeSource {
 public:
  /// Throws ConfigurationError when step is 0, and for a range of more than 2^62 numbers or of
  /// numbers beyond 2^62.
  RangeSource(std::int64_t start, std::int64_t stop, std::int64_t step);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t sample_size() const noexcept { return 1; }
  [[nodiscard]] std::size_t target_size() const noexcept { return 0; }
  void describe(PipelineDescription& description) const;
  template <class T>
  void read(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T>) const {
    for (std::size_t i = 0; i < indices.size(); ++i)
      x(i, 0) = static_cast<T>(start_ + indices[i] * step_);
  }

 private:
  std::int64_t start_;
  std::int64_t step_;
  std::int64_t size_ = 0;
};

/// A pipeline of 0, 1, ..., stop - 1.
template <class Made = RangeSource>
[[nodiscard]] auto range(std::int64_t stop) {
  return from_source(Made(0, stop, 1));
}
/// A pipeline of start, start + step, ... before stop, as Python's range.
template <class Made = RangeSource>
[[nodiscard]] auto range(std::int64_t start, std::int64_t stop, std::int64_t step = 1) {
  return from_source(Made(start, stop, step));
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/range.ipp"
#endif
