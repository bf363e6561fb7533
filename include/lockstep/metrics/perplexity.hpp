// How many tokens a language model hesitates between.
#pragma once

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
#include "lockstep/metrics/mean_loss.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// e to the mean crossentropy of the rows (tokens), whose targets are class labels; KerasHub's.
/// Tokens that are masked do not count, nor do those that the model's loss ignores.
struct Perplexity {
  bool from_logits = false;               ///< true: the model ends without softmax
  std::optional<int> mask_token_id = {};  ///< tokens with this label do not count
  std::string_view name = "perplexity";

  static constexpr std::size_t state_size = 2;  // sum of crossentropies, tokens

  [[nodiscard]] std::string description() const;

  /// Throws DataError unless there is one target for several outputs; BadSample for a label that is
  /// no class.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;
  [[nodiscard]] double result(std::span<const double> state) const;

 private:
  [[nodiscard]] MeanLoss<SparseCategoricalCrossentropy> mean() const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/perplexity.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(Perplexity);
}  // namespace lockstep::inline LOCKSTEP_ABI
