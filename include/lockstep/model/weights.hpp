// Weight: a variable of a model as get_weights gives it and set_weights takes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/training/named_arrays.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// One variable, as get_weights gives it.
template <class T>
struct Weight {
  std::string name;  ///< "dense_1/kernel"
  std::vector<std::size_t> shape;
  std::vector<T> values;  ///< row-major, in Keras's order of dimensions
};

namespace detail {

template <class T>
[[nodiscard]] std::vector<Weight<T>> copy_weights(const std::vector<NamedArray<T>>& arrays) {
  std::vector<Weight<T>> weights;
  for (const NamedArray<T>& array : arrays)
    weights.push_back({.name = array.name,
                       .shape = {array.variable->shape().begin(), array.variable->shape().end()},
                       .values = {array.values.begin(), array.values.end()}});
  return weights;
}

/// Throws ConfigurationError when the weights' number or a shape is not that of the arrays.
template <class T>
void check_weights(const std::vector<Weight<T>>& weights,
                   const std::vector<NamedArray<T>>& arrays) {
  if (weights.size() != arrays.size())
    throw ConfigurationError(
        concat({"set_weights: expected ", arrays.size(), " arrays, got ", weights.size()}));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::span<const std::size_t> shape = arrays[i].variable->shape();
    if (!std::equal(weights[i].shape.begin(), weights[i].shape.end(), shape.begin(), shape.end()) ||
        weights[i].values.size() != arrays[i].values.size())
      throw ConfigurationError(
          concat({"set_weights: expected ", arrays[i].name, " ", shape_text(shape), ", got '",
                  weights[i].name, "' ", shape_text(weights[i].shape), " with ",
                  weights[i].values.size(), " values"}));
  }
}

/// Copies weights that check_weights has passed.
template <class T>
void put_weights(const std::vector<Weight<T>>& weights, const std::vector<NamedArray<T>>& arrays) {
  for (std::size_t i = 0; i < weights.size(); ++i)
    std::copy(weights[i].values.begin(), weights[i].values.end(), arrays[i].values.begin());
}

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI
