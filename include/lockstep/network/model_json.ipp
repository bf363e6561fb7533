#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/core/json_text.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/network/layer_names.hpp"
#include "lockstep/network/model_json.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
