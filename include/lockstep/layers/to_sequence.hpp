// ToSequence: the first extent of a sample as positions.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/sequence_copies.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {
template <class S>
struct SequenceOfShape {
  using Type = S;
};
template <std::size_t Positions>
struct SequenceOfShape<Shape<Positions>> {
  using Type = Sequence<Positions, 1>;
};
template <std::size_t Positions, std::size_t... Extents>
struct SequenceOfShape<Shape<Positions, Extents...>> {
  using Type = Sequence<Positions, Extents...>;
};
}  // namespace detail

/// Makes a sequence of each sample, for the layers that want one (LSTM, Conv1D, attention): of
/// Shape<T, D> a Sequence<T, D>, of Shape<T> a Sequence<T, 1>. It copies. Keras has no such layer,
/// since there a sequence is an array like any other.
///
/// @code
/// using Net = Sequential<Input<28, 28>, ToSequence, LSTM<64>, Dense<10>>;
/// @endcode
struct ToSequence {
  static constexpr std::string_view name = "to_sequence";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <class In>
  using Output = typename detail::SequenceOfShape<In>::Type;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(!is_sequence<In>,
                  "lockstep: the input of ToSequence is a Sequence already: leave it out");
    return true;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    detail::copy_to_rows<Output<In>, T>(pass.x, pass.y);
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    detail::copy_to_samples<Output<In>, T>(pass.dy, pass.dx);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
