#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/text.hpp"
#include "lockstep/network/layer_names.hpp"
#include "lockstep/network/name_checks.hpp"
#include "lockstep/network/summary.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::vector<std::string> unique_names(std::span<const std::string_view> names) {
  std::vector<std::string> unique;
  for (auto name = names.begin(); name != names.end(); ++name) {
    const auto earlier = std::count(names.begin(), name, *name);
    unique.push_back(earlier > 0 ? concat({*name, "_", earlier}) : std::string(*name));
  }
  return unique;
}

LOCKSTEP_INLINE std::vector<std::string> unique_layer_names(std::span<const LayerInfo> layers) {
  std::vector<std::string_view> names;
  for (const LayerInfo& layer : layers) names.push_back(layer.name);
  return unique_names(names);
}

LOCKSTEP_INLINE std::vector<std::string> unique_variable_names(const LayerInfo& layer) {
  std::vector<std::string_view> names;
  for (const Variable& variable : layer.variables) names.push_back(variable.name);
  for (const Variable& variable : layer.state_variables) names.push_back(variable.name);
  return unique_names(names);
}

LOCKSTEP_INLINE std::string class_name_of(const LayerInfo& layer) {
  if (!layer.class_name.empty()) return std::string(layer.class_name);
  std::string camel;
  bool upper = true;
  for (const char c : layer.name) {
    if (c != '_') camel += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == '_';
  }
  return camel;
}

LOCKSTEP_INLINE std::vector<std::string> layer_names(std::span<const LayerInfo> layers) {
  const std::vector<std::string> unique = unique_layer_names(layers);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].layers.empty())
      names.push_back(unique[i]);
    else
      for (const std::string& inner : layer_names(layers[i].layers))
        names.push_back(unique[i] + "/" + inner);
  }
  return names;
}

LOCKSTEP_INLINE std::vector<std::string> variable_names(std::span<const LayerInfo> layers,
                                                        bool trained) {
  const std::vector<std::string> unique = unique_layer_names(layers);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::vector<std::string> inner;
    if (layers[i].layers.empty()) {
      inner = unique_variable_names(layers[i]);
      const auto trained_end =
          inner.begin() + static_cast<std::ptrdiff_t>(layers[i].variables.size());
      inner.erase(trained ? trained_end : inner.begin(), trained ? inner.end() : trained_end);
    } else if (!layers[i].is_frozen) {
      inner = variable_names(layers[i].layers, trained);
    } else if (!trained) {
      inner = variable_names(layers[i].layers, true);
      const std::vector<std::string> others = variable_names(layers[i].layers, false);
      inner.insert(inner.end(), others.begin(), others.end());
    }
    for (const std::string& name : inner) names.push_back(unique[i] + "/" + name);
  }
  return names;
}

LOCKSTEP_INLINE std::vector<VariablePlace> variable_order(std::span<const LayerInfo> layers) {
  std::vector<VariablePlace> order;
  std::size_t trained = 0, others = 0;
  for (const LayerInfo& layer : layers) {
    std::vector<VariablePlace> inner;
    if (layer.layers.empty()) {
      for (std::size_t i = 0; i < layer.variables.size(); ++i) inner.push_back({true, i});
      for (std::size_t i = 0; i < layer.state_variables.size(); ++i) inner.push_back({false, i});
    } else {
      inner = variable_order(layer.layers);
    }
    const auto trained_inside = static_cast<std::size_t>(std::count_if(
        inner.begin(), inner.end(), [](const VariablePlace& place) { return place.is_trained; }));
    // A frozen container has all that its layers would train before what they would not.
    const bool freezes = layer.is_frozen && !layer.layers.empty();
    for (const VariablePlace& place : inner)
      if (place.is_trained)
        order.push_back(freezes ? VariablePlace{false, others + place.index}
                                : VariablePlace{true, trained + place.index});
      else
        order.push_back({false, others + (freezes ? trained_inside : 0) + place.index});
    trained += freezes ? 0 : trained_inside;
    others += inner.size() - (freezes ? 0 : trained_inside);
  }
  return order;
}

LOCKSTEP_INLINE void check_names(std::span<const LayerInfo> layers, const std::string& inside) {
  const std::vector<std::string> unique = unique_layer_names(layers);
  std::vector<LayerNames> names;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    names.push_back({.name = unique[i], .class_name = class_name_of(layers[i]), .variables = {}});
    if (layers[i].layers.empty()) names.back().variables = unique_variable_names(layers[i]);
  }
  check_layer_names(inside, names);
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (!layers[i].layers.empty())
      check_names(layers[i].layers, inside.empty() ? unique[i] : inside + "/" + unique[i]);
}

LOCKSTEP_INLINE std::string summary_of(std::string_view model_name,
                                       std::span<const LayerInfo> layers) {
  const std::vector<std::string> unique = unique_layer_names(layers);
  std::vector<SummaryRow> rows;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerInfo& layer = layers[i];
    if (layer.is_input) continue;
    SummaryRow row{.name = unique[i],
                   .class_name = class_name_of(layer),
                   .output_extents = {layer.output_extents.begin(), layer.output_extents.end()}};
    for (const Variable& variable : layer.variables) row.trainable_parameters += variable.size();
    for (const Variable& variable : layer.state_variables)
      row.non_trainable_parameters += variable.size();
    rows.push_back(std::move(row));
  }
  return render_summary(model_name, rows);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
