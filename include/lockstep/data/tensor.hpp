// Arrays of samples, as read from files or given by the user.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace Eigen {
template <class Derived>
class DenseBase;  // a caller with a matrix has the rest of Eigen
}

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// The shape of a tensor: rows, and the extents of each.
struct RowsAndExtents {
  std::size_t rows = 0;
  std::vector<std::size_t> extents = {};
  std::size_t row_size = 1;  ///< elements

  RowsAndExtents() = default;
  /// Throws DataError unless `shape` begins with the number of rows and has `size` elements.
  RowsAndExtents(const std::vector<std::size_t>& shape, std::size_t size);

  [[nodiscard]] std::vector<std::size_t> shape() const;
  /// Throws DataError.
  void check_slice(std::size_t begin, std::size_t end) const;
  /// The shape of the same rows with the channels behind. Throws DataError unless rows have three
  /// extents.
  [[nodiscard]] RowsAndExtents channels_last() const;
};

/// "from_tensor_slices: every sample needs one target, got 3 samples (3, 2) and 4 targets (4)"
[[noreturn, gnu::cold]] void throw_other_rows(const char* needed,
                                              const std::vector<std::size_t>& samples,
                                              const char* things,
                                              const std::vector<std::size_t>& shape);

}  // namespace detail

/// A constant array of [rows x sample shape], row-major: the elements of one sample are contiguous.
/// Copies and slices share the elements. It is made of a std::vector of the values and a shape,
/// whose first extent is the number of rows, `Tensor<float>(values, {60'000, 28, 28})`; of a
/// std::vector alone, one number a row, as for labels; or of an Eigen matrix. `rows()`, `shape()`,
/// `values()`, `row(i)`, `slice(begin, end)` and `channels_last()` are its members.
///
/// U is the stored type; samples become float or double when they are read. `images / 255.0f`
/// therefore still holds bytes, and is divided at that moment.
///
/// Copies share the values, which are constant: any number of threads may read them.
template <class U>
class Tensor {
  static_assert(std::is_arithmetic_v<U> && !std::is_same_v<U, bool>,
                "lockstep: a Tensor holds numbers: std::uint8_t, int, float, double, ... (for bool "
                "use std::uint8_t); in place of a std::vector of std::vectors, put all values into "
                "one, row by row: ls::Tensor<float>(values, {rows, columns})");

 public:
  using value_type = U;

  /// No rows.
  Tensor() = default;

  /// `values` in row-major order. The first extent is the number of rows: {60000, 28, 28}. Throws
  /// DataError when the shape has another number of elements.
  Tensor(std::vector<U> values, const std::vector<std::size_t>& shape)
      : shape_(shape, values.size()) {
    adopt(std::move(values));
  }

  /// One number a row, as for labels: the sample shape is ().
  Tensor(std::vector<U> values) : shape_({values.size()}, values.size()) {
    adopt(std::move(values));
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
      *this = Tensor(std::move(values));
    else
      *this = Tensor(std::move(values), {static_cast<std::size_t>(matrix.rows()),
                                         static_cast<std::size_t>(matrix.cols())});
  }

  [[nodiscard]] std::size_t rows() const noexcept { return shape_.rows; }
  /// The shape of one sample, without the rows; () for labels.
  [[nodiscard]] const std::vector<std::size_t>& sample_shape() const noexcept {
    return shape_.extents;
  }
  /// Elements per sample.
  [[nodiscard]] std::size_t sample_size() const noexcept { return shape_.row_size; }
  /// The rows and the sample shape: {60000, 28, 28}.
  [[nodiscard]] std::vector<std::size_t> shape() const { return shape_.shape(); }

  /// All elements, as stored.
  [[nodiscard]] std::span<const U> values() const noexcept {
    return {data_.get(), rows() * sample_size()};
  }
  /// The elements of one sample, as stored. i < rows().
  [[nodiscard]] std::span<const U> row(std::size_t i) const noexcept {
    assert(i < rows());
    return {data_.get() + i * sample_size(), sample_size()};
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
    detail::RowsAndExtents shape = shape_.channels_last();
    const std::size_t channels = shape.extents[2];
    const std::size_t pixels = shape.extents[0] * shape.extents[1];
    std::vector<U> values;
    values.reserve(rows() * sample_size());
    for (std::size_t i = 0; i < rows(); ++i)
      for (std::size_t pixel = 0; pixel < pixels; ++pixel)
        for (std::size_t channel = 0; channel < channels; ++channel)
          values.push_back(row(i)[channel * pixels + pixel]);
    Tensor result;
    result.shape_ = std::move(shape);
    result.adopt(std::move(values));
    result.divisor_ = divisor_;
    return result;
  }

  /// The rows [begin, end), without copying. Throws DataError when they do not exist.
  [[nodiscard]] Tensor slice(std::size_t begin, std::size_t end) const {
    shape_.check_slice(begin, end);
    Tensor result = *this;
    result.data_ = std::shared_ptr<const U>(data_, data_.get() + begin * sample_size());
    result.shape_.rows = end - begin;
    return result;
  }

 private:
  void adopt(std::vector<U> values) {
    const auto owner = std::make_shared<const std::vector<U>>(std::move(values));
    data_ = std::shared_ptr<const U>(owner, owner->data());
  }

  std::shared_ptr<const U> data_;
  detail::RowsAndExtents shape_{};
  double divisor_ = 1.0;
};

template <class Derived>
Tensor(const Eigen::DenseBase<Derived>&) -> Tensor<typename Derived::Scalar>;

namespace detail {

/// Converts a stored element. A double keeps its precision until after the division.
template <class T, class U>
struct Converter {
  using Compute =
      std::conditional_t<std::is_same_v<U, double> || std::is_same_v<U, long double>, U, T>;
  Compute divisor;
  explicit Converter(double d) : divisor(static_cast<Compute>(d)) {}
  T operator()(U value) const noexcept {
    return static_cast<T>(static_cast<Compute>(value) / divisor);
  }
};

/// Bytes have few values, so the division is done once for each value and not once for each
/// element.
template <class T, class U>
  requires(sizeof(U) == 1)
struct Converter<T, U> {
  std::array<T, 256> table;
  explicit Converter(double d) noexcept {
    for (std::size_t i = 0; i < 256; ++i)
      table[i] = static_cast<T>(static_cast<U>(i)) / static_cast<T>(d);
  }
  T operator()(U value) const noexcept { return table[static_cast<unsigned char>(value)]; }
};

/// Writes `count` samples, given by pointers to their elements, to rows first, first + 1, ... of
/// the view. In tiles of 16 so that stores are contiguous; a last tile may write to the padding,
/// which the caller clears.
template <class T, class U, class Convert, class RowAt>
void scatter_rows(std::size_t count, RowAt row_at, TensorView<T> view, const Convert& convert) {
  constexpr std::size_t tile = batch_multiple;
  std::array<const U*, tile> rows;
  for (std::size_t first = 0; first < count; first += tile) {
    const std::size_t filled = std::min(tile, count - first);
    for (std::size_t s = 0; s < tile; ++s) rows[s] = row_at(first + std::min(s, filled - 1));
    T* out = view.data() + first;
    if (first + tile <= view.stride()) {
      for (std::size_t f = 0; f < view.features(); ++f, out += view.stride())
        for (std::size_t s = 0; s < tile; ++s) out[s] = convert(rows[s][f]);
    } else {
      for (std::size_t f = 0; f < view.features(); ++f, out += view.stride())
        for (std::size_t s = 0; s < filled; ++s) out[s] = convert(rows[s][f]);
    }
  }
}

/// Writes the rows `indices` of the tensor to the samples 0, 1, ... of the view.
template <class T, class U>
void gather(const Tensor<U>& tensor, std::span<const std::int64_t> indices, TensorView<T> view) {
  assert(view.samples() == indices.size() && view.features() == tensor.sample_size());
  const U* data = tensor.values().data();
  const std::size_t size = tensor.sample_size();
  const auto row_at = [&](std::size_t i) {
    assert(indices[i] >= 0 && static_cast<std::size_t>(indices[i]) < tensor.rows());
    return data + static_cast<std::size_t>(indices[i]) * size;
  };
  if (tensor.divisor() == 1.0)
    scatter_rows<T, U>(indices.size(), row_at, view, [](U value) { return static_cast<T>(value); });
  else
    scatter_rows<T, U>(indices.size(), row_at, view, Converter<T, U>(tensor.divisor()));
}

/// Copies samples first, ..., first + count - 1 of the view to `out`, sample by sample.
template <class T, class U>
void copy_out(TensorView<const T> view, std::size_t first, std::size_t count, U* out) {
  for (std::size_t f = 0; f < view.features(); ++f)
    for (std::size_t s = 0; s < count; ++s)
      out[s * view.features() + f] = static_cast<U>(view(first + s, f));
}

/// The reverse of copy_out.
template <class T, class U>
void copy_in(const U* in, TensorView<T> view, std::size_t first, std::size_t count) {
  for (std::size_t f = 0; f < view.features(); ++f)
    for (std::size_t s = 0; s < count; ++s)
      view(first + s, f) = static_cast<T>(in[s * view.features() + f]);
}

LOCKSTEP_EXTERN(void gather<float, std::uint8_t>(const Tensor<std::uint8_t>&,
                                                 std::span<const std::int64_t>, TensorView<float>));
LOCKSTEP_EXTERN(void gather<float, float>(const Tensor<float>&, std::span<const std::int64_t>,
                                          TensorView<float>));
LOCKSTEP_EXTERN_DOUBLE(void gather<double, std::uint8_t>(const Tensor<std::uint8_t>&,
                                                         std::span<const std::int64_t>,
                                                         TensorView<double>));
LOCKSTEP_EXTERN_DOUBLE(void gather<double, float>(const Tensor<float>&,
                                                  std::span<const std::int64_t>,
                                                  TensorView<double>));

}  // namespace detail
}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/tensor.ipp"
#endif
