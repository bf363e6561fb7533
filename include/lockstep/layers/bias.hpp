// What Dense and Conv2D do with their bias, which they may do without.
#pragma once

#include <array>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <bool UseBias>
consteval auto kernel_and_bias(const Variable& kernel, const Variable& bias) {
  if constexpr (UseBias)
    return std::array{kernel, bias};
  else
    return std::array{kernel};
}

/// The bias among the variables or their gradients; null without one.
template <bool UseBias, class T>
T* bias(Slices<T> slices) {
  if constexpr (UseBias)
    return slices[1].data();
  else
    return nullptr;
}

}}}  // namespace lockstep::detail
