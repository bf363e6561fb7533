// Views of activations: a batch of samples, the batch dimension innermost.
#pragma once

#include <cassert>
#include <cstddef>
#include <type_traits>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The batch dimension is padded to a multiple of this, on every instruction set, so that kernels
/// need no remainder loop over the batch. A batch of 1 therefore costs as much as one of 16 (but
/// see FewSamplesLayer).
inline constexpr std::size_t batch_multiple = 16;

[[nodiscard]] constexpr std::size_t padded_batch(std::size_t samples) noexcept {
  return (samples + batch_multiple - 1) / batch_multiple * batch_multiple;
}

/// A non-owning view of [samples x features] in column-major order: the samples of one feature are
/// contiguous, feature f starts at data() + f * stride(). stride() is the padded batch: rows
/// samples()..stride()-1 are padding, finite in activations and zero in gradients. data() and every
/// feature are aligned to 64 bytes for float and double.
template <class T>
class TensorView {
 public:
  using value_type = std::remove_const_t<T>;

  constexpr TensorView() noexcept = default;
  constexpr TensorView(T* data, std::size_t samples, std::size_t features,
                       std::size_t stride) noexcept
      : data_(data), samples_(samples), features_(features), stride_(stride) {
    assert(samples <= stride);
  }

  /// TensorView<T> converts to TensorView<const T>.
  constexpr operator TensorView<const value_type>() const noexcept {
    return {data_, samples_, features_, stride_};
  }

  [[nodiscard]] constexpr T* data() const noexcept { return data_; }
  [[nodiscard]] constexpr std::size_t samples() const noexcept { return samples_; }
  [[nodiscard]] constexpr std::size_t features() const noexcept { return features_; }
  /// Distance between features, in elements: the padded batch, a multiple of batch_multiple.
  [[nodiscard]] constexpr std::size_t stride() const noexcept { return stride_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return data_ == nullptr; }

  /// The (padded) samples of feature f.
  [[nodiscard]] constexpr T* feature(std::size_t f) const noexcept { return data_ + f * stride_; }
  [[nodiscard]] constexpr T& operator()(std::size_t sample, std::size_t f) const noexcept {
    return data_[f * stride_ + sample];
  }

  /// The features [first, first + count): one of several outputs that lie side by side.
  [[nodiscard]] constexpr TensorView part(std::size_t first, std::size_t count) const noexcept {
    assert(first + count <= features_);
    return {feature(first), samples_, count, stride_};
  }

  /// The samples without padding as an Eigen matrix of [samples x features]. With
  /// "lockstep/core/tensor_matrix.hpp", which a program with a model has.
  [[nodiscard]] auto matrix() const;

  /// Sets the padding of every feature to zero.
  void clear_padding() const noexcept
    requires(!std::is_const_v<T>)
  {
    for (std::size_t f = 0; f < features_; ++f)
      for (std::size_t i = samples_; i < stride_; ++i) data_[f * stride_ + i] = T(0);
  }

 private:
  T* data_ = nullptr;
  std::size_t samples_ = 0;
  std::size_t features_ = 0;
  std::size_t stride_ = 0;
};

}}  // namespace lockstep
