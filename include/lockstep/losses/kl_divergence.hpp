// Kullback-Leibler divergence.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/labels.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Sum over the classes of y log(y / p), for distributions y (targets) and p (predictions, a flat
/// output). In nats. Both are clipped to [1e-7, 1], as in Keras; the gradient through a clipped p
/// is 0.
struct KLDivergence {
  static constexpr std::string_view name = "kl_divergence";
  template <class Out>
  static constexpr std::size_t target_size = Out::size * detail::one_label<Out>();

  [[nodiscard]] std::string description() const { return std::string(name); }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/losses/kl_divergence.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(KLDivergence);
}  // namespace lockstep::inline LOCKSTEP_ABI
