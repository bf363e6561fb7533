// Keras's names for the layers and variables of a model, and what else is made of its LayerInfo.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/layers/layer_info.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Numbers repeated names: a, b, a_1, a_2. (They are unique unless one was already named a_1, which
/// check_names refuses.)
[[nodiscard]] std::vector<std::string> unique_names(std::span<const std::string_view> names);

/// The names of layers side by side, numbered as Keras does: dense, dense_1, dense_2.
[[nodiscard]] std::vector<std::string> unique_layer_names(std::span<const LayerInfo> layers);

/// The names of a layer's variables, the trained ones before the others. A layer that hands on the
/// variables of several layers repeats names: kernel, bias, kernel_1, bias_1.
[[nodiscard]] std::vector<std::string> unique_variable_names(const LayerInfo& layer);

/// The class name that summary() prints: the layer's own, or its name in CamelCase.
[[nodiscard]] std::string class_name_of(const LayerInfo& layer);

/// The name of each position of the flattened model; "block/dense" for a layer inside a container.
[[nodiscard]] std::vector<std::string> layer_names(std::span<const LayerInfo> layers);

/// "layer/variable" for every trained variable (or every other one), layer by layer.
[[nodiscard]] std::vector<std::string> variable_names(std::span<const LayerInfo> layers,
                                                      bool trained);

/// Every variable, layer by layer and in each layer the trained ones first: Keras's order, in which
/// it makes no difference whether a layer is Frozen.
[[nodiscard]] std::vector<VariablePlace> variable_order(std::span<const LayerInfo> layers);

/// Throws ConfigurationError, naming the layers, unless files can hold the names of the layers and
/// of their variables. `inside`: the name of the container of the layers; empty for the model.
void check_names(std::span<const LayerInfo> layers, const std::string& inside = {});

/// The table of the layers, with a row for each but Input, as Keras's Sequential.summary() has it.
[[nodiscard]] std::string summary_of(std::string_view model_name,
                                     std::span<const LayerInfo> layers);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/network/layer_names.ipp"
#endif
