// MomentSink: where layers tell the moments of their input.
#pragma once

#include <span>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The mean of each channel of a layer's input and the sum of squared deviations from it, over a
/// batch, and the layer's own variables that are to hold mean and variance.
struct InputMoments {
  double count = 0;  ///< values of each channel
  std::span<const double> mean = {};
  std::span<const double> squares = {};
  void* mean_variable = nullptr;  ///< arrays of the model's scalar type, as long as mean
  void* variance_variable = nullptr;
};

/// Takes the moments of one layer after the other, while a model is adapted to data
/// (Normalization).
class MomentSink {
 public:
  using Function = void (*)(void* self, const InputMoments& moments);

  constexpr MomentSink() noexcept = default;
  constexpr MomentSink(void* self, Function function) noexcept : self_(self), function_(function) {}

  [[nodiscard]] constexpr explicit operator bool() const noexcept { return function_ != nullptr; }
  void operator()(const InputMoments& moments) const { function_(self_, moments); }

 private:
  void* self_ = nullptr;
  Function function_ = nullptr;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
