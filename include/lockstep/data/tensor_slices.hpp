// Arrays as sources, of samples that have one length or many.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/data/tensor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Sample i is row i of x, its target row i of y.
template <class X, class Y = std::uint8_t>
class TensorSlices {
 public:
  /// Without targets.
  explicit TensorSlices(Tensor<X> x) : x_(std::move(x)) {}

  /// Throws DataError when the numbers of rows differ.
  TensorSlices(Tensor<X> x, Tensor<Y> y)
      : x_(std::move(x)), y_(std::move(y)), target_size_(y_.sample_size()) {
    if (x_.rows() != y_.rows())
      detail::throw_other_rows("one target", x_.shape(), "targets", y_.shape());
  }

  /// With weights: one for each sample, or one for each of its positions. Throws DataError when the
  /// numbers of rows differ.
  TensorSlices(Tensor<X> x, Tensor<Y> y, Tensor<float> weights)
      : TensorSlices(std::move(x), std::move(y)) {
    weight_size_ = weights.sample_size();
    if (weights.rows() != x_.rows())
      detail::throw_other_rows("its weight", x_.shape(), "weights", weights.shape());
    weights_ = std::make_shared<const Tensor<float>>(std::move(weights));
  }

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(x_.rows()); }
  [[nodiscard]] std::size_t sample_size() const noexcept { return x_.sample_size(); }
  [[nodiscard]] std::size_t target_size() const noexcept { return target_size_ + weight_size_; }
  [[nodiscard]] std::size_t weight_size() const noexcept { return weight_size_; }
  [[nodiscard]] const std::vector<std::size_t>& sample_shape() const noexcept {
    return x_.sample_shape();
  }
  void describe(PipelineDescription& description) const {
    description.add({weight_size_ > 0 ? "from_tensor_slices(weights)" : "from_tensor_slices"});
  }

  template <class T>
  void read(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) const {
    detail::gather(x_, indices, x);
    if (y.empty()) return;
    detail::gather(y_, indices, TensorView<T>(y.data(), y.samples(), target_size_, y.stride()));
    if (weight_size_ > 0)
      detail::gather(*weights_, indices,
                     TensorView<T>(y.feature(target_size_), y.samples(), weight_size_, y.stride()));
  }

 private:
  Tensor<X> x_;
  Tensor<Y> y_;
  std::shared_ptr<const Tensor<float>> weights_;
  std::size_t target_size_ = 0;
  std::size_t weight_size_ = 0;
};

namespace detail {

/// Deduces Tensor's element type from what it can be made of.
template <class X>
auto to_tensor(X&& x) {
  return Tensor(std::forward<X>(x));
}

/// Weights of samples, which are float.
template <class W>
Tensor<float> weights_tensor(const Tensor<W>& weights) {
  if constexpr (std::is_same_v<W, float>) {
    return weights;
  } else {
    const Tensor<float> converted(
        std::vector<float>(weights.values().begin(), weights.values().end()), weights.shape());
    return converted / static_cast<float>(weights.divisor());
  }
}
}  // namespace detail

/// A pipeline of the rows of x, without targets. x is a Tensor, an Eigen matrix or array of
/// [samples x features], or a std::vector.
/// Use: `from_tensor_slices(x, y)`.
template <class X>
[[nodiscard]] auto from_tensor_slices(X&& x) {
  auto tensor = detail::to_tensor(std::forward<X>(x));
  return from_source(TensorSlices<typename decltype(tensor)::value_type>(std::move(tensor)));
}

/// A pipeline of the rows of x with the rows of y as their targets. Throws DataError when the
/// numbers of rows differ.
template <class X, class Y>
[[nodiscard]] auto from_tensor_slices(X&& x, Y&& y) {
  auto samples = detail::to_tensor(std::forward<X>(x));
  auto targets = detail::to_tensor(std::forward<Y>(y));
  using Slices =
      TensorSlices<typename decltype(samples)::value_type, typename decltype(targets)::value_type>;
  return from_source(Slices(std::move(samples), std::move(targets)));
}

/// The same with weights of the samples (Keras's sample_weight): one for each row of x, or, where
/// the model's output is a Sequence, [samples x positions], one for each token. Stages carry them
/// along with the targets. The loss of a row is multiplied by its weight; the mean is over the
/// number of rows. Metrics count each row once, but those that are Weighted.
template <class X, class Y, class W>
[[nodiscard]] auto from_tensor_slices(X&& x, Y&& y, W&& sample_weight) {
  auto samples = detail::to_tensor(std::forward<X>(x));
  auto targets = detail::to_tensor(std::forward<Y>(y));
  using Slices =
      TensorSlices<typename decltype(samples)::value_type, typename decltype(targets)::value_type>;
  return from_source(
      Slices(std::move(samples), std::move(targets),
             detail::weights_tensor(detail::to_tensor(std::forward<W>(sample_weight)))));
}

struct RaggedOptions {
  std::size_t padded_size = 0;  ///< elements of a sample as it is read; 0: those of the longest row
  double padding_value = 0;     ///< behind the elements of a shorter row
};

/// Sample i is row i of x, padded at its end; its target row i of y. Rows are kept without padding.
template <class X, class Y = std::uint8_t>
class RaggedSlices {
  static_assert(std::is_arithmetic_v<X> && !std::is_same_v<X, bool>,
                "lockstep: ragged rows hold numbers");

 public:
  /// Throws DataError when a row is longer than padded_size, and when y has another number of rows.
  RaggedSlices(std::vector<std::vector<X>> x, Tensor<Y> y, bool has_targets, RaggedOptions options)
      : y_(std::move(y)),
        target_size_(has_targets ? y_.sample_size() : 0),
        padding_(options.padding_value) {
    if (has_targets && y_.rows() != x.size())
      throw DataError(concat({"from_ragged_slices: every sample needs one target, got ", x.size(),
                              " samples and ", y_.rows(), " targets ", shape_text(y_.shape())}));
    std::size_t longest = 0;
    for (const auto& row : x) longest = std::max(longest, row.size());
    size_ = options.padded_size == 0 ? longest : options.padded_size;
    if (longest > size_)
      throw DataError(
          concat({"from_ragged_slices: a row has ", longest, " elements, more than padded_size, ",
                  size_, "; cut it, or make padded_size larger"}));
    x_ = std::make_shared<const std::vector<std::vector<X>>>(std::move(x));
  }

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(x_->size()); }
  [[nodiscard]] std::size_t sample_size() const noexcept { return size_; }
  [[nodiscard]] std::size_t target_size() const noexcept { return target_size_; }
  void describe(PipelineDescription& description) const {
    description.add({"from_ragged_slices(", size_, ", padding ", padding_, ")"});
  }

  template <class T>
  void read(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) const {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::vector<X>& row = (*x_)[static_cast<std::size_t>(indices[i])];
      for (std::size_t f = 0; f < row.size(); ++f) x(i, f) = static_cast<T>(row[f]);
      for (std::size_t f = row.size(); f < size_; ++f) x(i, f) = static_cast<T>(padding_);
    }
    if (!y.empty()) detail::gather(y_, indices, y);
  }

 private:
  std::shared_ptr<const std::vector<std::vector<X>>> x_;
  Tensor<Y> y_;
  std::size_t target_size_;
  std::size_t size_ = 0;
  double padding_;
};

/// A pipeline of rows of different lengths, such as texts as token numbers, padded when they are
/// read: tf.data's from_tensor_slices of a ragged tensor and padded_batch(n, padded_shapes=[size])
/// in one. (A model's input has one size, so that batches are never padded to their own longest.)
/// Use: `from_ragged_slices(std::vector<std::vector<int>>{{1, 2}, {3}}, {.padded_size = 4})`.
/// Keras: `pad_sequences`.
template <class X>
[[nodiscard]] auto from_ragged_slices(std::vector<std::vector<X>> x, RaggedOptions options = {}) {
  return from_source(RaggedSlices<X>(std::move(x), {}, false, options));
}

/// The same with the rows of y, anything that makes a Tensor, as targets.
template <class X, class Targets>
  requires(!std::is_same_v<std::remove_cvref_t<Targets>, RaggedOptions>)
[[nodiscard]] auto from_ragged_slices(std::vector<std::vector<X>> x, Targets&& y,
                                      RaggedOptions options = {}) {
  auto targets = Tensor(std::forward<Targets>(y));
  using Y = typename decltype(targets)::value_type;
  return from_source(RaggedSlices<X, Y>(std::move(x), std::move(targets), true, options));
}

}}  // namespace lockstep
