// Windows that slide over sequences: of Conv1D and the 1-D pooling layers.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A window over `Extent` positions, whose places are `Stride` apart. (Where it does not fit, there
/// is one place: the message of check() says enough.)
template <std::size_t Extent, std::size_t Stride, Padding How>
struct SequenceWindows {
  template <class In>
  static constexpr bool fits = How != Padding::valid || positions_of<In> >= Extent;
  template <class In>
  static constexpr std::size_t outputs =
      fits<In> ? window_outputs(positions_of<In>, Extent, Stride, How) : 1;
  /// Positions before the first that the first window covers.
  template <class In>
  static constexpr std::size_t pad = window_padding(positions_of<In>, Extent, Stride, How);
};

template <std::size_t Position, class In, class Windows>
concept LongEnough = Windows::template fits<In>;

template <std::size_t Position, class In, class Windows>
consteval bool check_sequence_window() {
  static_assert(SequenceInput<Position, In>,
                "lockstep: a 1-D convolution or pooling needs a sequence of tokens, Sequence<T, "
                "features>: put "
                "ls::Embedding or ls::ToSequence before it");
  static_assert(FlatInput<Position, TokenOf<In>>,
                "lockstep: a 1-D convolution or pooling needs flat tokens, and its tokens have "
                "more dimensions");
  static_assert(LongEnough<Position, In, Windows>,
                "lockstep: the window of a 1-D convolution or pooling is longer than its input: "
                "make it smaller, or pad "
                "the input with ls::Padding::same");
  return true;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
