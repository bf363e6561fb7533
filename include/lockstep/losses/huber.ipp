#pragma once

#include <cmath>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/huber.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE void Huber::validate() const {
  if (!(delta > 0))
    throw ConfigurationError("huber_loss: delta is " + number_text(delta) +
                             "; expected a number above 0");
}

template <class T>
void Huber::compute(TensorView<const T> predictions, TensorView<const T> targets,
                    std::span<double> losses, TensorView<T> gradient) const {
  const auto formula = [d = delta](double p, double y) {
    const double error = p - y, size = std::abs(error);
    return size <= d ? detail::LossTerm{error * error / 2, error}
                     : detail::LossTerm{d * size - d * d / 2, error > 0 ? d : -d};
  };
  detail::mean_over_outputs(predictions, targets, losses, gradient, formula);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
