// Keras's names for the layers and variables of a model, checks of names, and what else is made
// of its LayerInfo: the summary, JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/layers/layer_info.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// One layer of a model.
struct SummaryRow {
  std::string name;                         ///< "conv2d_1"
  std::string class_name;                   ///< "Conv2D"
  std::vector<std::size_t> output_extents;  ///< without the batch
  std::size_t trainable_parameters = 0;     ///< number of elements of all variables
  std::size_t non_trainable_parameters = 0;
};

/// The text that model.summary() prints in TensorFlow 2.11, character by character: 65 columns,
/// long names broken, totals with thousands separators. (Later versions print no separators and add
/// sizes in bytes.)
[[nodiscard]] std::string render_summary(std::string_view model_name,
                                         std::span<const SummaryRow> rows);

}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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

/// A layer as files name it.
struct LayerNames {
  std::string name;                    ///< among the layers beside it
  std::string class_name;              ///< for messages
  std::vector<std::string> variables;  ///< its own; none for a container, checked by layer
};

/// Throws ConfigurationError, naming the layers, when two of them have the same name, or a name is
/// empty, not UTF-8, or contains a slash or NUL; the same for the variables of a layer, in whose
/// names slashes may separate parts ("query/kernel"). `inside` is the container that the layers are
/// in; empty for the model itself.
void check_layer_names(const std::string& inside, const std::vector<LayerNames>& layers);

/// Throws ConfigurationError when two variables of a model have the same name (a container that
/// makes its own names may do that).
void check_variable_names(std::vector<std::string> trained, std::vector<std::string> untrained);

/// The layers in the JSON of Keras's Sequential.to_json(), as much of it as TensorBoard's tab
/// Graphs reads: class, name, type of numbers and shape of the output; `dtype` is "float32" or
/// "float64". A nested Sequential is one there, too; another container stands for its layers.
[[nodiscard]] std::string model_json(std::string_view model_name, std::span<const LayerInfo> layers,
                                     std::string_view dtype);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/network/layer_names.ipp"
#endif
