// Hinge loss.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Mean over the outputs of a row of max(1 - y p, 0), for predictions p and targets y of -1 and 1.
/// A target of 0 means -1, so that 0 and 1 may be given. (Keras does so only in batches that hold
/// nothing but 0 and 1; here a row does not depend on the others.)
struct Hinge {
  static constexpr std::string_view name = "hinge";
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
#include "lockstep/losses/hinge.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(Hinge);
}  // namespace lockstep::inline LOCKSTEP_ABI
