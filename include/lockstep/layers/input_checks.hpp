// Conditions on a layer's input, for the static_asserts of its check().
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

template <std::size_t Position, class In>
inline constexpr bool is_flat = In::rank == 1;
template <std::size_t Position, class In>
inline constexpr bool is_image = In::rank == 3 && !is_sequence<In>;
template <std::size_t Position, class In>
inline constexpr bool is_volume = In::rank == 4 && !is_sequence<In>;
template <std::size_t Position, class In>
inline constexpr bool is_sequence_at = is_sequence<In>;
template <std::size_t Position, class In>
inline constexpr bool holds_ids = In::rank == 1 && !is_sequence<In>;
template <std::size_t Position, class In>
inline constexpr bool has_flat_tokens = is_sequence<In> && In::rank == 2;
template <std::size_t Position, class In, std::size_t Positions>
inline constexpr bool has_at_most_positions = positions_of<In> <= Positions;
template <std::size_t Position, class In, class Wanted>
inline constexpr bool has_size_of = In::size == Wanted::size;
template <std::size_t Position, class In, class Kernel>
inline constexpr bool has_room_for = [] {
  bool fits = true;
  for (std::size_t d = 0; d < Kernel::rank; ++d) fits &= In::extents[d] >= Kernel::extents[d];
  return fits;
}();
template <std::size_t Position, class In, std::size_t Groups>
inline constexpr bool has_channel_groups = In::extents[In::rank - 1] % Groups == 0;

}  // namespace detail

// Concepts over the layer's position in its model and its input shape, because a compiler prints
// the arguments of a concept that is not satisfied beside the message of the static_assert.

/// One dimension.
template <std::size_t Position, class In>
concept FlatInput = detail::is_flat<Position, In>;

/// Height, width and channels.
template <std::size_t Position, class In>
concept ImageInput = detail::is_image<Position, In>;

/// Depth, height, width and channels.
template <std::size_t Position, class In>
concept VolumeInput = detail::is_volume<Position, In>;

/// A Sequence.
template <std::size_t Position, class In>
concept SequenceInput = detail::is_sequence_at<Position, In>;

/// A Shape of one dimension: ids.
template <std::size_t Position, class In>
concept IdInput = detail::holds_ids<Position, In>;

/// A Sequence whose tokens have one dimension.
template <std::size_t Position, class In>
concept FlatTokens = detail::has_flat_tokens<Position, In>;

/// A Sequence of at most this many positions.
template <std::size_t Position, class In, std::size_t Positions>
concept SequenceOfAtMost = detail::has_at_most_positions<Position, In, Positions>;

/// As many elements as Wanted, a Shape.
template <std::size_t Position, class In, class Wanted>
concept InputOfSize = detail::has_size_of<Position, In, Wanted>;

/// First extents (height and width, say) at least those of Kernel, a Shape.
template <std::size_t Position, class In, class Kernel>
concept InputWithRoomFor = detail::has_room_for<Position, In, Kernel>;

/// Channels, the last dimension, that fall into Groups of equal size.
template <std::size_t Position, class In, std::size_t Groups>
concept InputOfChannelGroups = detail::has_channel_groups<Position, In, Groups>;

}}  // namespace lockstep
