// What a model knows of each of its layers as plain data.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A layer at its place in a model: what names, files and summary() need, without the layer's type.
/// All spans refer to constants.
struct LayerInfo {
  std::string_view name = {};        ///< snake_case; the model numbers repeated names
  std::string_view class_name = {};  ///< empty: `name` in CamelCase
  std::span<const std::size_t> output_extents = {};  ///< without the batch
  std::span<const Variable> variables = {};
  std::span<const Variable> state_variables = {};
  std::span<const LayerInfo> layers = {};  ///< inside a container; empty for any other layer
  std::size_t layer_count = 1;             ///< positions in the flattened model
  bool is_input = false;                   ///< an Input, which summary() leaves out
  bool is_frozen = false;                  ///< all variables count as state variables: see Frozen
};

/// Where a variable stands among those of a model that are trained, or among the others.
struct VariablePlace {
  bool is_trained = false;
  std::size_t index = 0;

  friend bool operator==(const VariablePlace&, const VariablePlace&) = default;
};

}}  // namespace lockstep
