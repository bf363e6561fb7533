#pragma once

#include "lockstep/losses/cosine_similarity.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
void CosineSimilarity::compute(TensorView<const T> predictions, TensorView<const T> targets,
                               std::span<double> losses, TensorView<T> gradient) const {
  for (std::size_t row = 0; row < predictions.samples(); ++row) {
    const detail::CosineParts parts = detail::cosine_parts(predictions, targets, row);
    const double cosine = parts.cosine(), length = parts.prediction_length;
    losses[row] = -cosine;
    if (gradient.empty()) continue;
    // (A length that counts as 1e-7 has no gradient.)
    const double along = parts.squares > 1e-14 ? cosine / parts.squares : 0;
    for (std::size_t f = 0; f < predictions.features(); ++f)
      gradient(row, f) =
          static_cast<T>(along * static_cast<double>(predictions(row, f)) -
                         static_cast<double>(targets(row, f)) / (parts.target_length * length));
  }
  if (!gradient.empty()) gradient.clear_padding();
}

}  // namespace lockstep::inline LOCKSTEP_ABI
