// Copies samples between arrays of samples (sample by sample) and the layout of activations (batch
// innermost).
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/tensor.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
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
}  // namespace lockstep::inline LOCKSTEP_ABI
