// A model as Keras's JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/layers/layer_info.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The layers in the JSON of Keras's Sequential.to_json(), as much of it as TensorBoard's tab
/// Graphs reads: class, name, type of numbers and shape of the output; `dtype` is "float32" or
/// "float64". A nested Sequential is one there, too; another container stands for its layers.
[[nodiscard]] std::string model_json(std::string_view model_name, std::span<const LayerInfo> layers,
                                     std::string_view dtype);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/network/model_json.ipp"
#endif
