// A batch of samples that owns its memory, for tests of losses, metrics and layers.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep_test {

/// [samples x features] in the library's layout. The padding holds a finite number that is easy to
/// notice.
template <class T>
class Tensor {
 public:
  static constexpr T padding = T(-77.5);

  Tensor(std::size_t samples, std::size_t features)
      : samples_(samples),
        features_(features),
        buffer_(lockstep::padded_batch(samples) * features * sizeof(T)) {
    for (std::size_t i = 0; i < stride() * features_; ++i) data()[i] = padding;
  }

  /// From rows, sample by sample.
  template <class Values>
  Tensor(std::size_t samples, std::size_t features, const Values& row_major)
      : Tensor(samples, features) {
    auto it = std::begin(row_major);
    for (std::size_t i = 0; i < samples; ++i)
      for (std::size_t f = 0; f < features; ++f) view()(i, f) = static_cast<T>(*it++);
  }

  static Tensor random(std::size_t samples, std::size_t features, std::uint64_t seed, double low,
                       double high) {
    Tensor tensor(samples, features);
    lockstep::RandomStream random{lockstep::RandomKey(seed)};
    for (std::size_t i = 0; i < samples; ++i)
      for (std::size_t f = 0; f < features; ++f)
        tensor.view()(i, f) = static_cast<T>(random.uniform(low, high));
    return tensor;
  }

  [[nodiscard]] lockstep::TensorView<T> view() const {
    return {data(), samples_, features_, stride()};
  }
  [[nodiscard]] lockstep::TensorView<const T> cview() const { return view(); }
  [[nodiscard]] T& operator()(std::size_t sample, std::size_t f) const { return view()(sample, f); }
  [[nodiscard]] std::size_t samples() const { return samples_; }
  [[nodiscard]] std::size_t features() const { return features_; }
  [[nodiscard]] std::size_t stride() const { return lockstep::padded_batch(samples_); }

  /// True if every element of the padding equals `value`.
  [[nodiscard]] bool padding_is(T value) const {
    for (std::size_t f = 0; f < features_; ++f)
      for (std::size_t i = samples_; i < stride(); ++i)
        if (!(data()[f * stride() + i] == value)) return false;
    return true;
  }

 private:
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(buffer_.data()); }

  std::size_t samples_;
  std::size_t features_;
  lockstep::Buffer buffer_;
};

}  // namespace lockstep_test
