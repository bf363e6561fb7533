// Static shapes of one sample (the batch dimension is a run-time value and not part of a shape).
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The shape of one sample, e.g. Shape<28, 28, 1> (height, width, channels). Elements are ordered
/// row-major, the last extent fastest, as in Keras.
template <std::size_t... Extents>
struct Shape {
  static_assert(((Extents > 0) && ...), "lockstep: every extent of a Shape must be at least 1");
  static constexpr std::size_t rank = sizeof...(Extents);
  static constexpr std::size_t size = (std::size_t{1} * ... * Extents);  ///< number of elements
  static constexpr std::array<std::size_t, rank> extents{Extents...};

  /// "(28, 28, 1)"
  static std::string to_string() { return shape_text(extents); }
};

/// The shape of a sample that is a sequence, e.g. Sequence<64, 128>: 64 positions, each a token of
/// shape Shape<128>. Tokens lie in memory as samples do (see the architecture page): most layers
/// are applied to each token by itself.
template <std::size_t Positions, std::size_t... TokenExtents>
struct Sequence {
  static_assert(Positions > 0 && ((TokenExtents > 0) && ...),
                "lockstep: every extent of a Sequence must be at least 1");
  static constexpr std::size_t positions = Positions;
  using Token = Shape<TokenExtents...>;
  static constexpr std::size_t rank = 1 + Token::rank;
  static constexpr std::size_t size = Positions * Token::size;  ///< number of elements
  static constexpr std::array<std::size_t, rank> extents{Positions, TokenExtents...};

  /// "(64, 128)"
  static std::string to_string() { return shape_text(extents); }
};

template <class>
inline constexpr bool is_sequence = false;
template <std::size_t Positions, std::size_t... TokenExtents>
inline constexpr bool is_sequence<Sequence<Positions, TokenExtents...>> = true;

template <class S>
inline constexpr bool is_shape = is_sequence<S>;
template <std::size_t... Extents>
inline constexpr bool is_shape<Shape<Extents...>> = true;

/// A Shape or a Sequence.
template <class S>
concept StaticShape = is_shape<S>;

namespace detail {
template <class S>
struct ShapeParts {
  static constexpr std::size_t positions = 1;
  using Token = S;
};
template <std::size_t Positions, std::size_t... TokenExtents>
struct ShapeParts<Sequence<Positions, TokenExtents...>> {
  static constexpr std::size_t positions = Positions;
  using Token = Shape<TokenExtents...>;
};
}  // namespace detail

/// Tokens of a sample: 1 for a Shape, which is one token.
template <StaticShape S>
inline constexpr std::size_t positions_of = detail::ShapeParts<S>::positions;
/// The shape of a token: of a Shape, the Shape itself.
template <StaticShape S>
using TokenOf = typename detail::ShapeParts<S>::Token;

namespace detail {
template <std::size_t Positions, class Token>
struct SequenceOfTokens;
template <std::size_t Positions, std::size_t... Extents>
struct SequenceOfTokens<Positions, Shape<Extents...>> {
  using Type = Sequence<Positions, Extents...>;
};
}  // namespace detail

/// A sequence of that many tokens: SequenceOf<64, Shape<128>> is Sequence<64, 128>.
template <std::size_t Positions, class Token>
using SequenceOf = typename detail::SequenceOfTokens<Positions, Token>::Type;

}}  // namespace lockstep
