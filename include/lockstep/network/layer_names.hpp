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
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/name_checks.hpp"
#include "lockstep/network/summary.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Numbers repeated names: a, b, a_1, a_2. (They are unique unless one was already named a_1, which
/// check_layer_names refuses.)
inline std::vector<std::string> unique_names(const std::vector<std::string_view>& names) {
  std::vector<std::string> unique;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::size_t earlier = 0;
    for (std::size_t k = 0; k < i; ++k) earlier += names[k] == names[i];
    unique.push_back(earlier ? concat({names[i], "_", earlier}) : std::string(names[i]));
  }
  return unique;
}

/// The names of the layers, numbered as Keras does: dense, dense_1, dense_2.
template <class... At>
std::vector<std::string> unique_layer_names(LayerList<At...>) {
  return unique_names({At::Layer::name...});
}

/// The names of the variables of A, the trained ones before the others. A layer that hands on the
/// variables of its inner layers repeats names: kernel, bias, kernel_1, bias_1.
template <class A>
std::vector<std::string> unique_variable_names() {
  std::vector<std::string_view> names;
  names.reserve(A::variables.size() + A::state_variables.size());
  for (const Variable& variable : A::variables) names.push_back(variable.name);
  for (const Variable& variable : A::state_variables) names.push_back(variable.name);
  return unique_names(names);
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
      const std::vector<std::string> own = unique_variable_names<A>();
      const auto trained_end = own.begin() + static_cast<std::ptrdiff_t>(A::variables.size());
      for (auto variable = Trained ? own.begin() : trained_end; variable != (Trained ? trained_end : own.end());
           ++variable)
        names.push_back(prefix + *variable);
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

/// Throws ConfigurationError, naming the layers, unless files can hold the names of the layers in a
/// list and of their variables. `inside` is the container of the layers.
template <class... At>
void check_names(LayerList<At...> list, const std::string& inside = {}) {
  const std::vector<std::string> own = unique_layer_names(list);
  std::vector<LayerNames> layers;
  const auto append = [&]<class A>() {
    LayerNames& names = layers.emplace_back(
        LayerNames{.name = own[layers.size()], .class_name = class_name<typename A::Layer>(), .variables = {}});
    if constexpr (!requires { A::Layer::template variable_names<typename A::Input>(); })
      names.variables = unique_variable_names<A>();
  };
  (append.template operator()<At>(), ...);
  check_layer_names(inside, layers);
  std::size_t layer = 0;
  const auto look_inside = [&]<class A>() {
    const std::string& name = own[layer++];
    if constexpr (requires { A::Layer::template check_names<typename A::Input>(name); })
      A::Layer::template check_names<typename A::Input>(inside.empty() ? name : inside + "/" + name);
  };
  (look_inside.template operator()<At>(), ...);
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
