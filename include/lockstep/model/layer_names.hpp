// Keras's names for the layers and variables of a model.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/model/layer_traits.hpp"
#include "lockstep/model/summary.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The names of the layers, made unique as Keras does: dense, dense_1, dense_2.
template <class... At>
std::vector<std::string> unique_layer_names(LayerList<At...>) {
  const std::vector<std::string_view> names{At::Layer::name...};
  std::vector<std::string> unique;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::size_t earlier = 0;
    for (std::size_t k = 0; k < i; ++k) earlier += names[k] == names[i];
    unique.push_back(earlier ? concat({names[i], "_", earlier}) : std::string(names[i]));
  }
  return unique;
}

/// The names of the layers of the flattened model; those of a container's layers begin with its own name and a slash.
template <class... At>
std::vector<std::string> layer_names(LayerList<At...> list) {
  const std::vector<std::string> own = unique_layer_names(list);
  std::vector<std::string> names;
  std::size_t layer = 0;
  const auto append = [&]<class A>() {
    const std::string& name = own[layer++];
    if constexpr (requires { A::Layer::template layer_names<typename A::Input>(); })
      for (const std::string& inner : A::Layer::template layer_names<typename A::Input>())
        names.push_back(name + "/" + inner);
    else
      names.insert(names.end(), A::layer_count, name);
  };
  (append.template operator()<At>(), ...);
  return names;
}

/// "layer/variable" for every variable, in the order of Sequential::variables (or state_variables).
template <bool Trained, class... At>
std::vector<std::string> variable_names(LayerList<At...> list) {
  const std::vector<std::string> layers = unique_layer_names(list);
  std::vector<std::string> names;
  std::size_t layer = 0;
  const auto append = [&]<class A>() {
    const std::string prefix = layers[layer++] + "/";
    if constexpr (requires { A::Layer::template variable_names<typename A::Input>(); }) {
      for (const std::string& inner : Trained ? A::Layer::template variable_names<typename A::Input>()
                                              : A::Layer::template state_variable_names<typename A::Input>())
        names.push_back(prefix + inner);
    } else {
      for (const Variable& variable : [] {
             if constexpr (Trained)
               return A::variables;
             else
               return A::state_variables;
           }())
        names.push_back(prefix + std::string(variable.name));
    }
  };
  (append.template operator()<At>(), ...);
  return names;
}

/// For every variable, layer by layer and in each layer the trained ones first: whether it is trained.
template <class... At>
std::vector<bool> variable_order(LayerList<At...>) {
  std::vector<bool> trained;
  const auto append = [&]<class A>() {
    if constexpr (requires { A::Layer::template variable_order<typename A::Input>(); }) {
      for (const bool inner : A::Layer::template variable_order<typename A::Input>()) trained.push_back(inner);
    } else {
      trained.insert(trained.end(), A::variables.size(), true);
      trained.insert(trained.end(), A::state_variables.size(), false);
    }
  };
  (append.template operator()<At>(), ...);
  return trained;
}

/// The class name that summary() prints: the layer's own, or its name in CamelCase.
template <class L>
std::string class_name() {
  if constexpr (requires { L::class_name; }) {
    return std::string(L::class_name);
  } else {
    std::string camel;
    bool upper = true;
    for (const char c : L::name) {
      if (c != '_') camel += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      upper = c == '_';
    }
    return camel;
  }
}

/// The table of a list of layers, with a row for each but Input, as Keras's Sequential.summary() has it.
template <class... At>
std::string summary_of(std::string_view model_name, LayerList<At...> list) {
  const std::vector<std::string> names = unique_layer_names(list);
  std::vector<SummaryRow> rows;
  std::size_t layer = 0;
  const auto append = [&]<class A>() {
    const std::string& unique = names[layer++];
    if constexpr (!is_input<typename A::Layer>) {
      SummaryRow row{.name = unique,
                     .class_name = class_name<typename A::Layer>(),
                     .output_extents = {A::Output::extents.begin(), A::Output::extents.end()}};
      for (const Variable& variable : A::variables) row.trainable_parameters += variable.size();
      for (const Variable& variable : A::state_variables) row.non_trainable_parameters += variable.size();
      rows.push_back(std::move(row));
    }
  };
  (append.template operator()<At>(), ...);
  return render_summary(model_name, rows);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
