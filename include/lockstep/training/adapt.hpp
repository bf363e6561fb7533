// Passes over a dataset for the moments of what goes into Normalization layers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/step/step.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The moments of the input of one Normalization layer, over all batches.
class LayerMoments {
 public:
  /// `number`: the layer's, among the Normalization layers in the order in which they run.
  explicit LayerMoments(std::size_t number) : number_(number) {}

  /// For one forward.
  [[nodiscard]] MomentSink sink() {
    seen_ = 0;
    return {this, [](void* self, const InputMoments& moments) {
              static_cast<LayerMoments*>(self)->take(moments);
            }};
  }

  /// Whether the last forward has come to that layer.
  [[nodiscard]] bool exists() const noexcept { return seen_ > number_; }
  [[nodiscard]] double count() const noexcept { return count_; }

  /// Combines the moments of all ranks: first the mean, and then the deviations from it, so that
  /// no large number is subtracted from another.
  void combine(AnyReplica& replica) {
    std::vector<double> sums(mean_);
    for (double& sum : sums) sum *= count_;
    sums.push_back(count_);
    replica.collective().all_reduce(std::span(sums), ReduceOp::sum);
    const double count = sums.back();
    for (std::size_t c = 0; c < mean_.size(); ++c) {
      const double mean = count > 0 ? sums[c] / count : 0;
      squares_[c] += count_ * (mean_[c] - mean) * (mean_[c] - mean);
      mean_[c] = mean;
    }
    count_ = count;
    replica.collective().all_reduce(std::span(squares_), ReduceOp::sum);
  }

  /// Sets the layer's variables.
  template <class T>
  void write() const {
    for (std::size_t c = 0; c < mean_.size(); ++c) {
      static_cast<T*>(mean_variable_)[c] = static_cast<T>(mean_[c]);
      static_cast<T*>(variance_variable_)[c] = static_cast<T>(squares_[c] / count_);
    }
  }

 private:
  void take(const InputMoments& batch) {
    if (seen_++ != number_) return;
    mean_.resize(batch.mean.size());
    squares_.resize(batch.mean.size());
    mean_variable_ = batch.mean_variable;
    variance_variable_ = batch.variance_variable;
    if (batch.count == 0) return;
    const double share = batch.count / (count_ + batch.count);
    for (std::size_t c = 0; c < mean_.size(); ++c) {
      const double distance = batch.mean[c] - mean_[c];
      mean_[c] += distance * share;
      squares_[c] += batch.squares[c] + distance * distance * count_ * share;
    }
    count_ += batch.count;
  }

  std::size_t number_;
  std::size_t seen_ = 0;
  double count_ = 0;
  std::vector<double> mean_, squares_;
  void* mean_variable_ = nullptr;
  void* variance_variable_ = nullptr;
};

/// What adapt_pass has done.
struct Adapted {
  std::size_t layers = 0;
  bool had_data = true;
  std::int64_t batches = 0;  ///< of this rank, in the last pass
};

/// Sets mean and variance of the Normalization layers to those of their input over `data`,
/// for at most `steps` batches: a pass for each such layer, as the input of a later one
/// depends on those before it. The ranks need not have equally many batches. Without data nothing
/// is changed.
template <class T>
Adapted adapt_pass(const Parts<T>& parts, BatchLoader<T>& data,
                   const std::optional<std::int64_t>& steps) {
  Adapted done;
  for (;; ++done.layers) {
    LayerMoments moments(done.layers);
    forward_batch(parts, data, false, nullptr, moments.sink());  // (a rank may have no data)
    if (!moments.exists()) return done;
    data.begin({.seed = parts.variables.seed, .number = 0});
    for (done.batches = 0; (!steps || done.batches < *steps) && data.next(); ++done.batches)
      forward_batch(parts, data, true, nullptr, moments.sink());
    moments.combine(parts.replica);
    done.had_data = moments.count() > 0;
    if (!done.had_data) return done;
    moments.template write<T>();
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
