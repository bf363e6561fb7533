// Whole numbers as samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
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
  RangeSource(std::int64_t start, std::int64_t stop, std::int64_t step)
      : start_(start), step_(step) {
    constexpr std::int64_t most = std::int64_t{1} << 62;
    if (step == 0) throw ConfigurationError("range: step must not be 0");
    for (const std::int64_t number : {start, stop, step})
      if (number > most || number < -most)
        throw ConfigurationError(concat({"range: numbers must be in [-2^62, 2^62], got ", number}));
    if (step > 0 ? stop > start : stop < start)
      size_ = (stop - start + step - (step > 0 ? 1 : -1)) / step;
  }

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t sample_size() const noexcept { return 1; }
  [[nodiscard]] std::size_t target_size() const noexcept { return 0; }
  void describe(PipelineDescription& description) const {
    description.add({"range(", start_, ", ", size_, " numbers, step ", step_, ")"});
  }
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
[[nodiscard]] inline auto range(std::int64_t stop) { return from_source(RangeSource(0, stop, 1)); }
/// A pipeline of start, start + step, ... before stop, as Python's range.
[[nodiscard]] inline auto range(std::int64_t start, std::int64_t stop, std::int64_t step = 1) {
  return from_source(RangeSource(start, stop, step));
}

}  // namespace lockstep::inline LOCKSTEP_ABI
