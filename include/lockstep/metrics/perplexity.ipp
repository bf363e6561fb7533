#pragma once

#include <cmath>

#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/perplexity.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string Perplexity::description() const {
  return detail::describe_metric(
      "perplexity", {{"from_logits", from_logits, false},
                     {"mask_token_id", detail::optional_text(mask_token_id), std::string("none")}});
}

template <class T>
void Perplexity::update(TensorView<const T> predictions, TensorView<const T> targets,
                        std::span<const T> weights, std::span<double> state) const {
  mean().update(predictions, targets, weights, state);
}

LOCKSTEP_INLINE double Perplexity::result(std::span<const double> state) const {
  return state[1] > 0 ? std::exp(state[0] / state[1]) : 0.0;
}

LOCKSTEP_INLINE MeanLoss<SparseCategoricalCrossentropy> Perplexity::mean() const {
  return {.loss = {.from_logits = from_logits, .ignore_class = mask_token_id}};
}

}  // namespace lockstep::inline LOCKSTEP_ABI
