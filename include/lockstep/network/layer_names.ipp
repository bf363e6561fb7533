#pragma once

#include <algorithm>
#include <array>
#include <iterator>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/network/layer_names.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

inline constexpr std::size_t summary_width = 65;

// keras.utils.layer_utils.print_row: each column ends with two spaces, and a text that does not fit
// goes on in the next line. The space in front of the first column is not counted, so that a full
// first column moves the second by one.
LOCKSTEP_INLINE std::string summary_row(std::array<std::string, 3> columns) {
  constexpr std::size_t ends[] = {29, 55, summary_width};
  std::string text;
  while (!columns[0].empty() || !columns[1].empty() || !columns[2].empty()) {
    std::string line = " ";
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t gap = i < 2 ? 2 : 0;
      const std::size_t room = ends[i] - (i > 0 ? ends[i - 1] : 0) - gap;
      line += columns[i].substr(0, room);
      line.append(gap, ' ');
      columns[i].erase(0, room);
      if (line.size() < ends[i]) line.append(ends[i] - line.size(), ' ');
    }
    text += line + '\n';
  }
  return text;
}

LOCKSTEP_INLINE std::string with_thousands_separators(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

}  // namespace detail

LOCKSTEP_INLINE std::string render_summary(std::string_view model_name,
                                           std::span<const SummaryRow> rows) {
  const auto rule = [](char character) {
    return std::string(detail::summary_width, character) + '\n';
  };
  std::string text = "Model: \"" + std::string(model_name) + "\"\n";
  text += rule('_') + detail::summary_row({"Layer (type)", "Output Shape", "Param #"}) + rule('=');
  std::size_t trainable = 0, non_trainable = 0;
  for (const SummaryRow& row : rows) {
    trainable += row.trainable_parameters;
    non_trainable += row.non_trainable_parameters;
    std::string shape = "(None";
    for (const std::size_t extent : row.output_extents) shape += ", " + std::to_string(extent);
    shape += row.output_extents.empty() ? ",)" : ")";
    text += detail::summary_row(
        {row.name + " (" + row.class_name + ")", shape,
         std::to_string(row.trainable_parameters + row.non_trainable_parameters)});
    text += rule(' ');
  }
  text += rule('=');
  text += "Total params: " + detail::with_thousands_separators(trainable + non_trainable) + '\n';
  text += "Trainable params: " + detail::with_thousands_separators(trainable) + '\n';
  text += "Non-trainable params: " + detail::with_thousands_separators(non_trainable) + '\n';
  return text + rule('_');
}

}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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

/// The name, with what cannot be printed as \xHH.
LOCKSTEP_INLINE std::string printable_name(std::string_view name) {
  constexpr std::string_view digits = "0123456789abcdef";
  const bool printable = is_utf8(name);
  std::string text;
  for (const char c : name) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7F || (code >= 0x80 && !printable))
      text += concat({"\\x", digits.substr(code / 16, 1), digits.substr(code % 16, 1)});
    else
      text += c;
  }
  return text;
}

LOCKSTEP_INLINE std::string quoted_name(std::string_view name) {
  return "'" + printable_name(name) + "'";
}

LOCKSTEP_INLINE void check_name(std::string_view owner, std::string_view name) {
  const char* const fault = name.empty()     ? "it is empty"
                            : !is_utf8(name) ? "it is no UTF-8"
                            : name.find('/') != std::string_view::npos
                                ? "it has a slash in it, which separates names"
                            : name.find('\0') != std::string_view::npos ? "it has a NUL in it"
                                                                        : nullptr;
  if (fault != nullptr)
    throw ConfigurationError(
        concat({"compile: ", owner, " is named ", quoted_name(name), ": ", fault,
                ", and the files of weights could not be read: give it another name"}));
}

LOCKSTEP_INLINE void check_layer_names(const std::string& inside,
                                       const std::vector<LayerNames>& layers) {
  const std::string where = inside.empty() ? "" : concat({" of '", inside, "'"});
  const auto layer_text = [&](std::size_t i) {
    return concat({"layer ", i, where, " (", printable_name(layers[i].class_name), ")"});
  };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    check_name(layer_text(i), layers[i].name);
    for (std::size_t k = 0; k < i; ++k)
      if (layers[k].name == layers[i].name)
        throw ConfigurationError(
            concat({"compile: ", layer_text(k), " and ", layer_text(i), " are both named ",
                    quoted_name(layers[i].name),
                    ": files of their weights would be ambiguous: give one another name"}));
    const std::vector<std::string>& variables = layers[i].variables;
    for (auto variable = variables.begin(); variable != variables.end(); ++variable) {
      // (A variable may have several names, as those of a part of a layer: "query/kernel".)
      for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
        end = variable->find('/', begin);
        check_name("a variable of " + layer_text(i),
                   std::string_view(*variable).substr(begin, end - begin));
      }
      if (std::find(variables.begin(), variable, *variable) != variable)
        throw ConfigurationError(concat(
            {"compile: two variables of ", layer_text(i), " are named ", quoted_name(*variable),
             ": files of its weights would be ambiguous: give one another name"}));
    }
  }
}

LOCKSTEP_INLINE void check_variable_names(std::vector<std::string> trained,
                                          std::vector<std::string> untrained) {
  std::vector<std::string>& names = trained;
  std::move(untrained.begin(), untrained.end(), std::back_inserter(names));
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw ConfigurationError(
        concat({"compile: two variables of the model are named ", quoted_name(*twice),
                ": files of its weights would be ambiguous: let the layer's variable_names give "
                "each a different name"}));
}

LOCKSTEP_INLINE std::string model_json(std::string_view model_name,
                                       std::span<const LayerInfo> layers, std::string_view dtype) {
  const std::vector<std::string> names = unique_layer_names(layers);
  std::string list;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerInfo& layer = layers[i];
    if (i > 0) list += ", ";
    const std::string class_name = class_name_of(layer);
    if (class_name == "Sequential" && !layer.layers.empty()) {
      list += model_json(names[i], layer.layers, dtype);
      continue;
    }
    std::string shape;
    for (const std::size_t extent : layer.output_extents) shape += concat({", ", extent});
    list += concat(
        {"{\"class_name\": ", json_text(layer.is_input ? "InputLayer" : class_name),
         ", \"config\": {\"name\": ", json_text(names[i]), ", \"dtype\": ", json_text(dtype),
         layer.is_input ? ", \"batch_shape\": [null" : ", \"output_shape\": [null", shape, "]}}"});
  }
  return concat({"{\"class_name\": \"Sequential\", \"config\": {\"name\": ", json_text(model_name),
                 ", \"layers\": [", list, "]}}"});
}

}}}  // namespace lockstep::detail
