// Memory that a stage needs while it reads.
#pragma once

#include <cstddef>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// Grows when needed. Copies begin empty, so that an object that holds one is copyable and copies
/// share nothing.
class Scratch {
 public:
  Scratch() noexcept = default;
  Scratch(const Scratch&) noexcept {}
  Scratch& operator=(const Scratch&) noexcept { return *this; }

  /// `size` elements of undefined value.
  template <class T>
  T* get(std::size_t size) {
    if (buffer_.size() < size * sizeof(T)) buffer_ = Buffer(size * sizeof(T));
    return reinterpret_cast<T*>(buffer_.data());
  }

  /// A view of undefined values; empty() when there are no features.
  template <class T>
  TensorView<T> view(std::size_t samples, std::size_t features) {
    if (features == 0) return {};
    const std::size_t stride = padded_batch(samples);
    return {get<T>(stride * features), samples, features, stride};
  }

 private:
  Buffer buffer_;
};

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI
