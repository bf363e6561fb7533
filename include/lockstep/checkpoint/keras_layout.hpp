// Where Keras's .weights.h5 files keep the variables of a model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A layer in such a file, or a part of a layer with variables (the cell of an
/// LSTM). Variable i is the dataset "<path>/vars/<i>".
struct KerasGroup {
  std::string path;  ///< "layers/lstm/cell"
  std::string name;  ///< the layer's own, which Keras writes down and does not read: "lstm_cell"
  /// The names that this library gives them: "lstm/lstm_cell/kernel". An empty name stands for a
  /// whole number that Keras keeps there and this library does not have; 0 is written.
  std::vector<std::string> variables = {};
};

/// The layers of a model in Keras's order. Empty when the model does not tell its layers.
struct KerasLayout {
  std::vector<KerasGroup> groups;
};

/// The state of an optimizer in such a file. What these variables are is the optimizer's own.
struct KerasOptimizer {
  std::string name = {};        ///< "adam"
  std::int64_t iterations = 0;  ///< the dataset "optimizer/vars/0": steps made
  /// "optimizer/vars/1" and so on: the learning rate, unless it follows a schedule, and arrays.
  std::vector<SavedArray> variables = {};
  std::size_t count = 0;  ///< of all datasets, also of those that were not read
};

/// What is in such a file.
struct KerasWeights {
  std::vector<SavedArray> arrays = {};  ///< of the layers, named by keras_place
  std::optional<KerasOptimizer> optimizer = {};
};

namespace detail {

/// "layers/sequential/layers/dense_1/vars/0" without what all have: "sequential/dense_1/0".
[[nodiscard]] std::string keras_place(const std::string& path);

}  // namespace detail
}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline std::string keras_place(const std::string& path) {
  std::string place;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    std::string part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part == "layers" || part == "_layer_checkpoint_dependencies" || part == "vars") continue;
    if (part.starts_with('_')) part.erase(0, 1);  // "_query_dense" of earlier versions
    place += (place.empty() ? "" : "/") + part;
  }
  return place;
}

}}}  // namespace lockstep::detail
