// Layers that do the work of their neighbours: which ones, and what runs in their place.
#pragma once

#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/layers/concepts.hpp"

// Forward: an Activation after a FusibleLayer is done by that layer's WithActivation. Both stay in
// the list of layers, for names and summary; the first one's Work is the fused layer, that of the
// Activation is void: it then aliases its input.
//
// Backward: a BackwardThroughLayer goes on through the activation of the layer below it. That
// layer's Preactivation then goes backward in its place.

namespace lockstep::inline LOCKSTEP_ABI::detail {

struct SomeActivation;

/// Whether L would take over an activation now.
template <class L>
inline constexpr bool takes_activation =
    requires { typename L::template WithActivation<SomeActivation>; };

/// Whether layer L can do the work of layer A after it: then that is A::FusedInto<L>.
template <class L, class A>
concept FusesWith = requires { typename A::template FusedInto<L>; };

/// Whether Work, which runs after Below, goes backward through Below's activation too.
template <class Work, class Below, class In, class T>
inline constexpr bool passes_through = false;
template <class Work, FusibleLayer Below, class In, class T>
inline constexpr bool passes_through<Work, Below, In, T> =
    BackwardThroughLayer<Work, typename Below::OutputActivation, In, T>;

/// What goes backward for Work: its Preactivation, if dy has come through its activation already.
template <class Work, bool CameThrough>
struct BackwardWork {
  using Type = Work;
};
template <class Work>
struct BackwardWork<Work, true> {
  using Type = typename Work::Preactivation;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
