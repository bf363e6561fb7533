// Samples that a function makes, and whole numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/pipeline.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct GeneratorSizes {
  std::int64_t size = 0;        ///< number of samples
  std::size_t sample_size = 0;  ///< elements per sample
  std::size_t target_size = 0;  ///< elements per target
};

namespace detail {

struct BlankSource {
  GeneratorSizes sizes;

  [[nodiscard]] std::int64_t size() const noexcept { return sizes.size; }
  [[nodiscard]] std::size_t sample_size() const noexcept { return sizes.sample_size; }
  [[nodiscard]] std::size_t target_size() const noexcept { return sizes.target_size; }
  void describe(PipelineDescription& description) const { description.add({"from_generator"}); }
  [[nodiscard]] SourceFingerprint fingerprint() const noexcept { return {.samples = sizes.size}; }
  template <class T>
  void read(std::span<const std::int64_t>, TensorView<T> x, TensorView<T> y) const {
    for (const TensorView<T>& view : {x, y})
      for (std::size_t f = 0; f < view.features(); ++f)
        for (std::size_t row = 0; row < view.samples(); ++row) view(row, f) = T(0);
  }
};

}  // namespace detail

/// A pipeline of `size` samples that `f(Sample<T>&)` makes up from the sample's index, or from its
/// random key (which depends on seed, iteration and repetition, too). x and y are zero before.
/// Unlike tf.data's, f is called for any sample in any order, so that pipelines over it shuffle,
/// shard and seek like others.
/// Use: `from_generator([](auto& sample) { sample.x[0] = static_cast<float>(sample.index); },
/// {.size = 100, .sample_size = 1, .target_size = 0})`.
template <class F, class Made = detail::BlankSource>
[[nodiscard]] auto from_generator(F f, GeneratorSizes sizes) {
  return from_source(Made{sizes}).map(std::move(f));
}

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
/// Use: `range(100)`.
template <class Made = RangeSource>
[[nodiscard]] auto range(std::int64_t stop) {
  return from_source(Made(0, stop, 1));
}
/// A pipeline of start, start + step, ... before stop, as Python's range.
template <class Made = RangeSource>
[[nodiscard]] auto range(std::int64_t start, std::int64_t stop, std::int64_t step = 1) {
  return from_source(Made(start, stop, step));
}

inline RangeSource::RangeSource(std::int64_t start, std::int64_t stop, std::int64_t step)
    : start_(start), step_(step) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  if (step == 0) throw ConfigurationError("range: step must not be 0");
  for (const std::int64_t number : {start, stop, step})
    if (number > most || number < -most)
      throw ConfigurationError(concat({"range: numbers must be in [-2^62, 2^62], got ", number}));
  if (step > 0 ? stop > start : stop < start)
    size_ = (stop - start + step - (step > 0 ? 1 : -1)) / step;
}

inline void RangeSource::describe(PipelineDescription& description) const {
  description.add({"range(", start_, ", ", size_, " numbers, step ", step_, ")"});
}

}}  // namespace lockstep
