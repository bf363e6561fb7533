// Whether files of weights can have the names of a model's layers and variables.
#pragma once

#include <string>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/network/name_checks.ipp"
#endif
