// Slice: some of the numbers of a sample.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {
template <std::size_t Position, class In, std::size_t Begin, std::size_t Count>
concept HoldsSlice = (Begin + Count <= In::size);
}

/// The features Begin to Begin + Count - 1 of a flat sample, or of each token. With Parallel, one
/// sample holds several inputs:
/// @code
/// // Three numbers and a category, one after the other in each sample.
/// using Net = Sequential<
///     Input<4>,
///     Parallel<Concatenate, Slice<0, 3>, Sequential<Slice<3, 1>, Embedding<10, 8>, Flatten>>,
///     Dense<1>>;
/// @endcode
template <std::size_t Begin, std::size_t Count>
struct Slice {
  static_assert(Count > 0, "lockstep: Slice<Begin, Count> needs a count of at least 1");
  static constexpr std::string_view name = "slice";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(FlatInput<Position, In>,
                  "lockstep: Slice needs a flat input: put ls::Flatten before it");
    static_assert(detail::HoldsSlice<Position, In, Begin, Count>,
                  "lockstep: Slice<Begin, Count> reaches beyond the end of its input");
    return true;
  }

  template <class In>
  using Output = Shape<Count>;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    std::copy_n(pass.x.feature(Begin), Count * pass.x.stride(), pass.y.data());
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    std::fill_n(pass.dx.data(), In::size * pass.dx.stride(), T(0));
    std::copy_n(pass.dy.data(), Count * pass.dy.stride(), pass.dx.feature(Begin));
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
