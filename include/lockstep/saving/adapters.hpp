// The factors of LoRA: in files without their layers, and merged into these.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/training/loops.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// "dense/" of a factor's name, "dense/lora_kernel_a"; empty if it is none.
inline std::string_view layer_of_factor(std::string_view name) {
  const std::size_t at = name.rfind("lora_kernel_");
  return at == std::string_view::npos ? std::string_view{} : name.substr(0, at);
}

template <class T>
const Weight<T>* find_weight(const std::vector<Weight<T>>& weights, const std::string& name) {
  const auto at = std::find_if(weights.begin(), weights.end(),
                               [&](const Weight<T>& weight) { return weight.name == name; });
  return at == weights.end() ? nullptr : &*at;
}

}  // namespace detail

/// Writes the factors of a model's LoRA layers alone, by the extension as .safetensors, .npz or
/// lockstep's own format; `model.load_weights(path, {.by_name = true})` takes them back. The chief
/// alone writes. Throws ConfigurationError when the model has none, Error naming the path.
/// Use: `save_adapters(model, "lora.safetensors")`. Keras: none.
template <class Model>
void save_adapters(const Model& model, const std::string& path) {
  std::vector<SavedArray> arrays;
  for (const auto& weight : model.get_weights()) {
    if (detail::layer_of_factor(weight.name).empty()) continue;
    const auto bytes = std::as_bytes(std::span(weight.values));
    arrays.push_back(
        {.name = weight.name,
         .scalar = detail::scalar_name<std::remove_cvref_t<decltype(weight.values[0])>>(),
         .extents = {weight.shape.begin(), weight.shape.end()},
         .bytes = {bytes.begin(), bytes.end()}});
  }
  if (arrays.empty())
    throw ConfigurationError(
        "save_adapters: the model has no LoRA layer, so there is nothing to "
        "save; save_weights saves all variables");
  if (detail::strategy_of(detail::ModelFiles<Model>::trainer(model)).is_chief())
    save_weights_file(path, std::move(arrays));
}

/// The weights, with kernel + A B in place of each kernel that has factors, and without these: for
/// `set_weights` of the model without LoRA, which then predicts the same. Throws ConfigurationError
/// for factors that do not fit their kernel.
/// Use: `merged_weights(model.get_weights())`. Keras: none.
template <class T>
[[nodiscard]] std::vector<Weight<T>> merged_weights(const std::vector<Weight<T>>& weights) {
  std::vector<Weight<T>> merged;
  for (const Weight<T>& weight : weights) {
    if (!detail::layer_of_factor(weight.name).empty()) continue;
    merged.push_back(weight);
    if (!weight.name.ends_with("kernel")) continue;
    const std::string layer = weight.name.substr(0, weight.name.size() - 6);
    const Weight<T>* const a = detail::find_weight(weights, layer + "lora_kernel_a");
    const Weight<T>* const b = detail::find_weight(weights, layer + "lora_kernel_b");
    if (a == nullptr || b == nullptr) continue;
    const std::size_t rank = a->shape.empty() ? 0 : a->shape.back();
    const std::size_t units = rank == 0 ? 0 : b->values.size() / rank;
    if (rank == 0 || b->values.size() != rank * units ||
        a->values.size() / rank * units != weight.values.size())
      throw ConfigurationError(concat(
          {"merged_weights: the factors of ", weight.name, " have ", a->values.size(), " and ",
           b->values.size(), " numbers, expected (inputs, rank) and (rank, units) of its ",
           weight.values.size()}));
    for (std::size_t i = 0; i < weight.values.size(); ++i) {
      T sum = T(0);
      for (std::size_t r = 0; r < rank; ++r)
        sum += a->values[i / units * rank + r] * b->values[r * units + i % units];
      merged.back().values[i] += sum;
    }
  }
  return merged;
}

}}  // namespace lockstep
