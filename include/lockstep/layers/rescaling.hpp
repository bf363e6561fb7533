// Rescaling: values times a number, plus a number.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/number.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// y = x * Scale + Offset, for samples of any shape: `Rescaling<1.0 / 127.5, -1.0>` takes bytes to
/// [-1, 1].
/// Use: `Rescaling<1.0 / 255>`: Shape<28, 28> -> Shape<28, 28>.
template <Number Scale, Number Offset = 0.0>
struct Rescaling {
  static constexpr std::string_view name = "rescaling";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <class In>
  using Output = In;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    sweep(In::size * pass.x.stride(), Offset.value, pass.x.data(), pass.y.data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    sweep<T>(In::size * pass.dy.stride(), 0, pass.dy.data(), pass.dx.data());
  }

 private:
  template <class T>
  static void sweep(std::size_t n, double offset, const T* from, T* to) {
    const T factor = static_cast<T>(Scale.value), term = static_cast<T>(offset);
    kernels::sweep(
        n,
        [=](const auto& in, auto& out) LOCKSTEP_KERNEL_LAMBDA {
          using P = std::remove_cvref_t<decltype(in)>;
          out = multiply_add(in, P(factor), P(term));
        },
        from, to);
  }
};

}}  // namespace lockstep
