// Masking: positions that do not count.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A number as a template argument. (A class, because clang++ 14 takes no bare floating-point
/// number there.)
struct MaskValue {
  double value = 0;
  constexpr MaskValue(double number) : value(number) {}
};

/// Masks the tokens whose features all equal Value: from here on they do not count in recurrent
/// layers, attention, pooling, losses and metrics. Their features become zero.
/// @code
/// using Net = Sequential<Input<28, 3>, ToSequence, Masking<>, LSTM<64>, Dense<10>>;
/// @endcode
/// Use: `Masking<>`: Sequence<10, 4> -> Sequence<10, 4>.
template <MaskValue Value = 0.0>
struct Masking {
  static constexpr std::string_view name = "masking";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(
        FlatInput<Position, In>,
        "lockstep: Masking looks at the tokens of a sequence, or at flat samples, and its "
        "input has more dimensions: put ls::ToSequence before it");
    return true;
  }

  template <class In>
  using Output = In;

  /// The mask.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return stride;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    T* const mask = pass.scratch.data();
    const std::size_t stride = pass.x.stride();
    std::fill_n(mask, stride, T(0));
    for (std::size_t feature = 0; feature < In::size; ++feature)
      kernels::sweep(
          stride,
          [](const auto& x, auto& counts)
              LOCKSTEP_KERNEL_LAMBDA { counts = select(x != T(Value.value), T(1), counts); },
          pass.x.feature(feature), mask);
    for (std::size_t feature = 0; feature < In::size; ++feature)
      keep(stride, pass.x.feature(feature), static_cast<const T*>(mask), pass.y.feature(feature));
    pass.set_mask(mask);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const T* const mask = pass.scratch.data();
    for (std::size_t feature = 0; feature < In::size; ++feature)
      keep(pass.dy.stride(), static_cast<const T*>(pass.dy.feature(feature)), mask,
           pass.dx.feature(feature));
  }

 private:
  template <class T>
  static void keep(std::size_t n, const T* from, const T* mask, T* to) {
    kernels::sweep(
        n,
        [](const auto& value, const auto& counts, auto& kept)
            LOCKSTEP_KERNEL_LAMBDA { kept = select(counts != T(0), value, T(0)); },
        from, mask, to);
  }
};

}}  // namespace lockstep
