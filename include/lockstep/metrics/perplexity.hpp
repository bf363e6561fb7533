// How many tokens a language model hesitates between.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/sparse_categorical_crossentropy.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/mean_loss.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// e to the mean crossentropy of the rows (tokens), whose targets are class labels; KerasHub's.
/// Tokens that are masked do not count, nor do those that the model's loss ignores.
struct Perplexity {
  bool from_logits = false;               ///< true: the model ends without softmax
  std::optional<int> mask_token_id = {};  ///< tokens with this label do not count
  std::string_view name = "perplexity";

  static constexpr std::size_t state_size = 2;  // sum of crossentropies, tokens

  [[nodiscard]] std::string description() const {
    return detail::describe_metric(
        "perplexity",
        {{"from_logits", from_logits, false},
         {"mask_token_id", detail::optional_text(mask_token_id), std::string("none")}});
  }

  /// Throws DataError unless there is one target for several outputs; BadSample for a label that is
  /// no class.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    mean().update(predictions, targets, weights, state);
  }
  [[nodiscard]] double result(std::span<const double> state) const {
    return state[1] > 0 ? std::exp(state[0] / state[1]) : 0.0;
  }

 private:
  [[nodiscard]] MeanLoss<SparseCategoricalCrossentropy> mean() const {
    return {.loss = {.from_logits = from_logits, .ignore_class = mask_token_id}};
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
