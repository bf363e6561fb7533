#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/utf8.hpp"
#include "lockstep/network/name_checks.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
                "each a name of its own"}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
