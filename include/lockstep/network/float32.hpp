// Float32: a layer that computes in float32 whatever the policy of the model.
#pragma once

#include "lockstep/core/config.hpp"
#include "lockstep/network/parallel.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// L (a layer or a container), which computes in float32 whatever the policy of the model; without
/// a policy (MixedBFloat16) it is L. For a last layer that makes probabilities, as Keras's guides
/// advise:
/// @code
/// using Net = Sequential<Input<784>, Dense<512, ReLU>, Float32<Dense<10, Softmax>>>;
/// @endcode
/// Use: `Float32<Dense<10>>`: Shape<20> -> Shape<10>; kernel (20, 10), bias (10). Keras:
/// `dtype="float32"`.
template <class L>
struct Float32 : L {};

namespace detail {

template <class L>
inline constexpr bool is_sequential<Float32<L>> = is_sequential<L>;

}  // namespace detail

}}  // namespace lockstep
