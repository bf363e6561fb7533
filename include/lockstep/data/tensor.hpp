// Arrays of samples, as read from files or given by the user.
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"

namespace Eigen {
template <class Derived>
class DenseBase;  // a caller with a matrix has the rest of Eigen
}

namespace lockstep::inline LOCKSTEP_ABI {

/// A constant array of [rows x sample shape], row-major: the elements of one sample are contiguous.
/// Copies and slices share the elements.
///
/// U is the stored type; samples become float or double when they are read. `images / 255.0f`
/// therefore still holds bytes, and is divided at that moment.
///
/// Copies share the values, which are constant: any number of threads may read them.
template <class U>
class Tensor {
  static_assert(std::is_arithmetic_v<U> && !std::is_same_v<U, bool>,
                "lockstep: a Tensor holds numbers: std::uint8_t, int, float, double, ... (for bool "
                "use std::uint8_t)");

 public:
  using value_type = U;

  /// No rows.
  Tensor() = default;

  /// `values` in row-major order. The first extent is the number of rows: {60000, 28, 28}. Throws
  /// DataError when the shape has another number of elements.
  Tensor(std::vector<U> values, const std::vector<std::size_t>& shape) {
    if (shape.empty())
      throw DataError("Tensor: the shape is empty; its first extent must be the number of rows");
    std::size_t expected = 1;
    for (const std::size_t extent : shape) {
      if (extent != 0 && expected > std::numeric_limits<std::size_t>::max() / extent)
        throw DataError(concat(
            {"Tensor: the shape ", shape_text(shape), " has more elements than memory can hold"}));
      expected *= extent;
    }
    if (values.size() != expected)
      throw DataError(concat({"Tensor: the shape ", shape_text(shape), " needs ", expected,
                              " values, got ", values.size()}));
    adopt(std::move(values), shape);
  }

  /// One number a row, as for labels: the sample shape is ().
  Tensor(std::vector<U> values) {
    const std::size_t rows = values.size();
    adopt(std::move(values), {rows});
  }

  /// An Eigen matrix or array of [rows x features], in any storage order, or a vector of one number
  /// a row. The elements are copied.
  template <class Derived>
    requires std::same_as<typename Derived::Scalar, U>
  Tensor(const Eigen::DenseBase<Derived>& expression) {
    const auto& matrix = expression.derived().eval();
    std::vector<U> values;
    values.reserve(static_cast<std::size_t>(matrix.size()));
    using Index = decltype(matrix.rows());
    for (Index row = 0; row < matrix.rows(); ++row)
      for (Index column = 0; column < matrix.cols(); ++column)
        values.push_back(matrix(row, column));
    if constexpr (Derived::IsVectorAtCompileTime)
      adopt(std::move(values), {static_cast<std::size_t>(matrix.size())});
    else
      adopt(std::move(values),
            {static_cast<std::size_t>(matrix.rows()), static_cast<std::size_t>(matrix.cols())});
  }

  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  /// The shape of one sample, without the rows; () for labels.
  [[nodiscard]] const std::vector<std::size_t>& sample_shape() const noexcept {
    return sample_shape_;
  }
  /// Elements per sample.
  [[nodiscard]] std::size_t sample_size() const noexcept { return sample_size_; }
  /// The rows and the sample shape: {60000, 28, 28}.
  [[nodiscard]] std::vector<std::size_t> shape() const {
    std::vector<std::size_t> all{rows_};
    all.insert(all.end(), sample_shape_.begin(), sample_shape_.end());
    return all;
  }

  /// All elements, as stored.
  [[nodiscard]] std::span<const U> values() const noexcept {
    return {data_.get(), rows_ * sample_size_};
  }
  /// The elements of one sample, as stored. i < rows().
  [[nodiscard]] std::span<const U> row(std::size_t i) const noexcept {
    assert(i < rows_);
    return {data_.get() + i * sample_size_, sample_size_};
  }

  /// Samples are divided by this when they are read.
  [[nodiscard]] double divisor() const noexcept { return divisor_; }

  /// The same elements, each divided when it is read: exactly T(element) / T(divisor), no
  /// multiplication by the inverse. Of two divisions the divisors are multiplied.
  [[nodiscard]] Tensor operator/(std::type_identity_t<float> divisor) const {
    if (divisor == 0.0f) throw DataError("Tensor: division by zero");
    Tensor result = *this;
    result.divisor_ *= static_cast<double>(divisor);
    return result;
  }

  /// For samples of (channels, height, width): a copy with samples of (height, width, channels),
  /// the order that layers expect. Throws DataError unless samples have three extents.
  [[nodiscard]] Tensor channels_last() const {
    if (sample_shape_.size() != 3)
      throw DataError(
          concat({"Tensor: channels_last() is for samples of (channels, height, width), these are ",
                  shape_text(sample_shape_)}));
    const std::size_t channels = sample_shape_[0];
    const std::size_t pixels = sample_shape_[1] * sample_shape_[2];
    std::vector<U> values;
    values.reserve(rows_ * sample_size_);
    for (std::size_t i = 0; i < rows_; ++i)
      for (std::size_t pixel = 0; pixel < pixels; ++pixel)
        for (std::size_t channel = 0; channel < channels; ++channel)
          values.push_back(row(i)[channel * pixels + pixel]);
    Tensor result(std::move(values), {rows_, sample_shape_[1], sample_shape_[2], channels});
    result.divisor_ = divisor_;
    return result;
  }

  /// The rows [begin, end), without copying. Throws DataError when they do not exist.
  [[nodiscard]] Tensor slice(std::size_t begin, std::size_t end) const {
    if (begin > end || end > rows_)
      throw DataError(concat({"Tensor: cannot take the rows [", begin, ", ", end,
                              ") of a tensor with ", rows_, " rows"}));
    Tensor result = *this;
    result.data_ = std::shared_ptr<const U>(data_, data_.get() + begin * sample_size_);
    result.rows_ = end - begin;
    return result;
  }

 private:
  void adopt(std::vector<U> values, const std::vector<std::size_t>& shape) {
    rows_ = shape.front();
    sample_shape_.assign(shape.begin() + 1, shape.end());
    for (const std::size_t extent : sample_shape_) sample_size_ *= extent;
    const auto owner = std::make_shared<const std::vector<U>>(std::move(values));
    data_ = std::shared_ptr<const U>(owner, owner->data());
  }

  std::shared_ptr<const U> data_;
  std::size_t rows_ = 0;
  std::vector<std::size_t> sample_shape_;
  std::size_t sample_size_ = 1;
  double divisor_ = 1.0;
};

template <class Derived>
Tensor(const Eigen::DenseBase<Derived>&) -> Tensor<typename Derived::Scalar>;

}  // namespace lockstep::inline LOCKSTEP_ABI
