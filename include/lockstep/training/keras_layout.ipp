#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/training/keras_layout.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What Keras calls a layer inside a layer, by the name that is part of the variables' names.
LOCKSTEP_INLINE std::string keras_part(const std::string& name) {
  if (name.ends_with("_cell")) return "cell";
  if (name.starts_with("forward_")) return "forward_layer";
  if (name.starts_with("backward_")) return "backward_layer";
  if (name == "query" || name == "key" || name == "value") return name + "_dense";
  return name == "attention_output" ? "output_dense" : name;
}

/// The layers of one Keras model, collected from the last to the first.
class KerasModel {
 public:
  explicit KerasModel(std::span<const LayerInfo> layers, const std::string& inside = {}) {
    add_row(layers, inside, 0, true);
    std::reverse(found_.begin(), found_.end());
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Found& a, const Found& b) { return a.height > b.height; });
  }

  /// Appends the groups of the layers. `path` is that of the model: "layers/sequential/", or empty.
  void append_to(KerasLayout& layout, const std::string& path) const {
    std::vector<std::string_view> names;
    for (const Found& found : found_) names.push_back(found.layer->name);
    const std::vector<std::string> unique = unique_names(names);
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const std::string own = path + "layers/" + unique[i];
      const std::size_t first = layout.groups.size();
      layout.groups.push_back({.path = own, .name = unique[i]});
      if (found_[i].layer->layers.empty())
        append_variables(layout, first, found_[i]);
      else
        KerasModel(found_[i].layer->layers, found_[i].name + "/").append_to(layout, own + "/");
    }
  }

 private:
  struct Found {
    const LayerInfo* layer;
    std::string name;    ///< as this library's names of variables begin
    std::size_t height;  ///< of all ways to the output, the number of layers on the longest
  };

  /// The layers one after the other. Returns the height of the first one. `inside`: "residual/".
  /// `nests`: a Sequential among them is a model of its own.
  std::size_t add_row(std::span<const LayerInfo> layers, const std::string& inside,
                      std::size_t height, bool nests) {
    const std::vector<std::string> unique = unique_layer_names(layers);
    for (std::size_t i = layers.size(); i-- > 0;)
      height = add(layers[i], inside + unique[i], height, nests);
    return height;
  }

  /// A layer whose output goes to one of that height.
  std::size_t add(const LayerInfo& layer, const std::string& name, std::size_t height, bool nests) {
    if (layer.is_input) return height;
    const bool is_sequential = layer.name == "sequential";
    if (layer.layers.empty() || (is_sequential && nests)) {
      found_.push_back({&layer, name, height + 1});
      return height + 1;
    }
    if (layer.name == "parallel" || layer.name == "cross_attention")
      return add_branches(layer.layers, name + "/", height + 1, layer.name != "parallel");
    if (layer.name == "residual")  // one branch does nothing, or both are a Sequential
      return std::all_of(layer.layers.begin(), layer.layers.end(), is_sequential_layer) &&
                     layer.layers.size() == 2
                 ? add_branches(layer.layers, name + "/", height + 1, false)
                 : add_row(layer.layers, name + "/", height + 1, false);
    return add_row(layer.layers, name + "/", height, nests && !is_sequential);
  }

  /// Layers beside each other. The last may be what joins them.
  std::size_t add_branches(std::span<const LayerInfo> branches, const std::string& inside,
                           std::size_t height, bool last_joins) {
    const std::vector<std::string> unique = unique_layer_names(branches);
    std::size_t end = branches.size();
    if (last_joins) found_.push_back({&branches[end - 1], inside + unique[end - 1], height});
    if (last_joins) --end;
    std::size_t highest = height;
    for (std::size_t i = end; i-- > 0;)
      highest = std::max(highest, add(branches[i], inside + unique[i], height, false));
    return highest;
  }

  static bool is_sequential_layer(const LayerInfo& layer) { return layer.name == "sequential"; }

  /// Those of a layer, whose group is the last one, and of its parts.
  static void append_variables(KerasLayout& layout, std::size_t first, const Found& found) {
    for (const std::string& variable : unique_variable_names(*found.layer)) {
      std::size_t at = first;
      for (std::size_t begin = 0, slash = 0;
           (slash = variable.find('/', begin)) != std::string::npos; begin = slash + 1) {
        const std::string part = variable.substr(begin, slash - begin);
        const std::string path = layout.groups[at].path + "/" + keras_part(part);
        at = first;
        while (at < layout.groups.size() && layout.groups[at].path != path) ++at;
        if (at == layout.groups.size()) layout.groups.push_back({.path = path, .name = part});
      }
      layout.groups[at].variables.push_back(found.name + "/" + variable);
    }
    if (found.layer->name == "normalization")
      layout.groups[first].variables.emplace_back();  // Keras's count of samples
  }

  std::vector<Found> found_;
};

LOCKSTEP_INLINE KerasLayout keras_layout_of(std::span<const LayerInfo> layers) {
  KerasLayout layout;
  KerasModel(layers).append_to(layout, "");
  return layout;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
