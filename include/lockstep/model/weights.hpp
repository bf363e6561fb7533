// Weight: a variable of a model as get_weights gives it and set_weights takes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/variable.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// One variable, as get_weights gives it.
template <class T>
struct Weight {
  std::string name;  ///< "dense_1/kernel"
  std::vector<std::size_t> shape;
  std::vector<T> values;  ///< row-major, in Keras's order of dimensions
};

namespace detail {

/// A variable of a model, and its values in one replica.
template <class T>
struct NamedArray {
  std::string name;
  const Variable* variable = nullptr;
  std::span<T> values;
};

/// Net's variables layer by layer, the trained ones before the others, with their values in two arenas.
template <class Net, class T>
[[nodiscard]] std::vector<NamedArray<T>> named_arrays(const Arena<T>& trained, const Arena<T>& untrained) {
  using In = typename Net::InputShape;
  std::vector<NamedArray<T>> arrays;
  const auto trained_names = Net::template variable_names<In>();
  const auto untrained_names = Net::template state_variable_names<In>();
  std::size_t t = 0, u = 0;
  for (const bool is_trained : Net::template variable_order<In>()) {
    if (is_trained) {
      arrays.push_back({trained_names[t], &Net::template variables<In>[t], trained.slices()[t]});
      ++t;
    } else {
      arrays.push_back({untrained_names[u], &Net::template state_variables<In>[u], untrained.slices()[u]});
      ++u;
    }
  }
  return arrays;
}

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
void check_weights(const std::vector<Weight<T>>& weights, const std::vector<NamedArray<T>>& arrays) {
  if (weights.size() != arrays.size())
    throw ConfigurationError(concat({"set_weights: expected ", arrays.size(), " arrays, got ", weights.size()}));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::span<const std::size_t> shape = arrays[i].variable->shape();
    if (!std::equal(weights[i].shape.begin(), weights[i].shape.end(), shape.begin(), shape.end()) ||
        weights[i].values.size() != arrays[i].values.size())
      throw ConfigurationError(
          concat({"set_weights: expected ", arrays[i].name, " ", shape_text(shape), ", got '", weights[i].name, "' ",
                  shape_text(weights[i].shape), " with ", weights[i].values.size(), " values"}));
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
