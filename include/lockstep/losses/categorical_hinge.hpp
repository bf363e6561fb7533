// Hinge loss over classes.
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

/// max(largest - right + 1, 0) for targets y that are one-hot vectors and a flat output of scores
/// p: right is sum_i y_i p_i, the score of the class, and largest is max_i (1 - y_i) p_i, the
/// highest of the others (or 0, if that is more), as in Keras. Of equal scores the first has the
/// gradient.
struct CategoricalHinge {
  static constexpr std::string_view name = "categorical_hinge";
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
#include "lockstep/losses/categorical_hinge.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(CategoricalHinge);
}  // namespace lockstep::inline LOCKSTEP_ABI
