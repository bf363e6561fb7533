// The memory of a batch, as a workspace lays it out.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// An array of [samples x features], or of rows.
struct BatchArray {
  std::size_t features = 0;
  std::size_t samples = 0;

  [[nodiscard]] constexpr std::size_t elements() const { return features * padded_batch(samples); }
};

/// The samples, the targets as they are read, those of a Sequence row by row, the predictions and
/// their gradient, one after the other in memory. `layout` is a Program's; `weight_size`: weights
/// behind each target.
template <class Layout>
[[nodiscard]] constexpr std::array<BatchArray, 5> batch_arrays(const Layout& layout,
                                                               std::size_t samples,
                                                               std::size_t weight_size = 0) {
  const std::size_t rows = samples * layout.positions;
  return {BatchArray{layout.inputs, samples},
          BatchArray{layout.targets * layout.positions + weight_size, samples},
          BatchArray{layout.positions == 1 ? 0 : layout.targets, rows},
          BatchArray{layout.outputs, rows}, BatchArray{layout.outputs, rows}};
}
[[nodiscard]] constexpr std::size_t elements_of(std::span<const BatchArray> arrays) {
  std::size_t elements = 0;
  for (const BatchArray& array : arrays) elements += array.elements();
  return elements;
}

/// For each row: its loss, and two weights of type T.
template <class T>
inline constexpr std::size_t bytes_of_row = sizeof(double) + 2 * sizeof(T);

}}}  // namespace lockstep::detail
