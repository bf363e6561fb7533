// Poisson loss.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Mean over the outputs of a row of p - y log(p + 1e-7), for predictions p above 0 and targets y
/// that are counts: the negative logarithm of the Poisson probability without what depends on y
/// alone.
struct Poisson {
  static constexpr std::string_view name = "poisson";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;

  [[nodiscard]] std::string description() const { return std::string(name); }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/losses/poisson.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(Poisson);
}  // namespace lockstep::inline LOCKSTEP_ABI
