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
  std::vector<std::string> variables;  ///< its own; of a container none, whose layers are checked by themselves
};

/// Throws ConfigurationError, naming the layers, when two of them have one name, or a name is empty, no UTF-8, or has a slash or NUL in it;
/// the same for the variables of a layer. `inside` is the container that the layers are in; empty for the model itself.
void check_layer_names(const std::string& inside, const std::vector<LayerNames>& layers);

/// Throws ConfigurationError when two variables of a model have one name (which a container gives that makes names itself).
void check_variable_names(std::vector<std::string> trained, std::vector<std::string> untrained);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/model/name_checks.ipp"
#endif
