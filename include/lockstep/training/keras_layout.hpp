// Where Keras would keep a model's variables in a file.
#pragma once

#include <span>

#include "lockstep/checkpoint/keras_layout.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/network/layer_names.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The places of the variables in the .weights.h5 file of the model that Keras's user would write:
/// a Sequential inside a Sequential is one, and the layers of Residual, Parallel, Repeat and
/// TiedHead are those of a functional model, without a place of their own, by their distance to the
/// output as Keras orders them. Layers are numbered by class. Empty when there are no layers.
[[nodiscard]] KerasLayout keras_layout_of(std::span<const LayerInfo> layers);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/keras_layout.ipp"
#endif
