// What a layer is given of its container's input, and how much memory it asks for then.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/network/layer_place.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What L is given where the container has In: a token of a Sequence, unless L is a SequenceLayer.
template <class L, class In>
struct Given {
  using Type = TokenOf<In>;
  static constexpr std::size_t positions = positions_of<In>;
  static constexpr bool by_token = is_sequence<In>;
};
template <SequenceLayer L, class In>
struct Given<L, In> {
  using Type = In;
  static constexpr std::size_t positions = 1;
  static constexpr bool by_token = false;
};

/// What the container has after L.
template <class L, class In>
struct OutputShape {
  using Type = typename L::template Output<In>;
};
template <class L, class In>
  requires Given<L, In>::by_token
struct OutputShape<L, In> {
  using OfToken = typename L::template Output<TokenOf<In>>;
  static_assert(
      !is_sequence<OfToken>,
      "lockstep: this layer makes a Sequence of each sample, and its input is a Sequence already");
  using Type = SequenceOf<In::positions, OfToken>;
};

/// (Of a Sequence, another shape is no alias.)
template <class L, class In>
inline constexpr bool aliases_input = false;
template <AliasingLayer L, class In>
inline constexpr bool aliases_input<L, In> = !(SequenceLayer<L> && is_sequence<In>);

template <class S>
inline constexpr TensorSize tensor_size{.features = TokenOf<S>::size, .positions = positions_of<S>};

/// What scratch and temporary are asked for: samples, or the stride of the rows.
template <class L, class In>
constexpr std::size_t size_given(std::size_t samples) {
  return SequenceLayer<L> ? samples : tensor_size<In>.stride(samples);
}

/// Elements that L keeps from forward to backward, rounded up so that what follows stays aligned.
template <class L, class In>
constexpr std::size_t scratch_of(std::size_t samples) {
  return padded_batch(L::template scratch<typename Given<L, In>::Type>(size_given<L, In>(samples)));
}

/// Elements that L needs while it runs, likewise.
template <class L, class In>
constexpr std::size_t temporary_of(std::size_t samples) {
  return padded_batch(
      L::template temporary<typename Given<L, In>::Type>(size_given<L, In>(samples)));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
