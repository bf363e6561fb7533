// Layers that change nothing: Input, Identity.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The first layer of a model: the shape of one sample, e.g. Input<28, 28>. It computes nothing.
/// Use: `Input<28, 28>`: Shape<28, 28> -> Shape<28, 28>.
template <std::size_t... Extents>
struct Input {
  static_assert(sizeof...(Extents) > 0,
                "lockstep: Input needs the shape of one sample, e.g. ls::Input<28, 28>");
  static constexpr std::string_view name = "input";
  static constexpr std::string_view class_name = "InputLayer";
  static constexpr bool aliases_input = true;
  static constexpr bool begins_model = true;
  using Sample = Shape<Extents...>;

  template <class In>
  using Output = Sample;
};

template <class L>
inline constexpr bool is_input = requires { requires L::begins_model; };

/// y = x, for nothing: a branch of Parallel that hands its input on.
/// Use: `Identity`: Shape<10> -> Shape<10>.
struct Identity {
  static constexpr std::string_view name = "identity";
  static constexpr bool aliases_input = true;
  template <class In>
  using Output = In;
};

}}  // namespace lockstep
