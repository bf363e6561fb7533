// The variables of a model, as a writer of another format takes them, layer by layer.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/saving/model_files.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A variable in this library's layout.
struct ExportedArray {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> values;
  std::size_t product_units = 0;  ///< see Variable
  bool is_table = false;          ///< likewise
};

class ExportedVariables {
 public:
  /// In the order of the layers.
  void add(const VariablePlace& place, ExportedArray array) {
    std::vector<ExportedArray>& arrays = place.is_trained ? trained_ : state_;
    if (arrays.size() <= place.index) arrays.resize(place.index + 1);
    arrays[place.index] = std::move(array);
  }

  /// The next variable, trained or not; the next trained one, which is not taken.
  const ExportedArray& take(bool trained) {
    if (trained && !is_frozen_) return trained_.at(next_trained_++);
    return trained ? state_.at(next_trained_++) : state_.at(next_state_++);
  }
  [[nodiscard]] ExportedArray& next_trained() {
    return (is_frozen_ ? state_ : trained_).at(next_trained_);
  }

  struct Cursors {
    std::size_t trained, state;
    bool is_frozen;
  };
  /// What Frozen's layers take is among the state: their trained variables, and behind those the
  /// others. Returns what unfreeze needs.
  [[nodiscard]] Cursors freeze(std::size_t trained_count) {
    const Cursors before{next_trained_, next_state_, is_frozen_};
    if (!is_frozen_) {
      next_trained_ = next_state_;
      next_state_ += trained_count;
      is_frozen_ = true;
    }
    return before;
  }
  /// Where take goes on: a layer that is used several times takes its variables each time.
  [[nodiscard]] Cursors cursors() const { return {next_trained_, next_state_, is_frozen_}; }
  void go_to(const Cursors& place) {
    next_trained_ = place.trained;
    next_state_ = place.state;
  }
  void unfreeze(const Cursors& before, std::size_t state_count) {
    if (before.is_frozen) return;
    next_trained_ = before.trained;
    next_state_ = before.state + state_count;
    is_frozen_ = false;
  }

 private:
  std::vector<ExportedArray> trained_, state_;
  std::size_t next_trained_ = 0, next_state_ = 0;
  bool is_frozen_ = false;
};

/// Where the layer of a Shared takes its variables, each time, and its parts, one after the other.
class SharedCursors {
 public:
  /// `trained`, `state`: variables of the layer, which stand before those of the parts.
  SharedCursors(const ExportedVariables& variables, std::size_t trained, std::size_t state)
      : layer_(variables.cursors()), part_(layer_) {
    part_.trained += trained;
    part_.state += state;
  }
  void begin_part(ExportedVariables& variables) const { variables.go_to(part_); }
  void begin_layer(ExportedVariables& variables) {
    part_ = variables.cursors();
    variables.go_to(layer_);
  }
  void end(ExportedVariables& variables) const { variables.go_to(part_); }

 private:
  ExportedVariables::Cursors layer_, part_;
};
/// L: the layer, In: its input.
template <class L, class In>
SharedCursors shared_cursors(const ExportedVariables& variables) {
  using G = typename Given<L, In>::Type;
  return {variables, variables_of<L, G>().size(), state_variables_of<L, G>().size()};
}

/// The variables of `model`, in float.
template <class Net, class T, Strategy S, class LossType, class OptimizerType, class... Metrics>
ExportedVariables exported_variables(Model<Net, T, S, LossType, OptimizerType, Metrics...>& model) {
  using Files = ModelFiles<Model<Net, T, S, LossType, OptimizerType, Metrics...>>;
  ExportedVariables variables;
  const auto order = Net::template variable_order<typename Net::InputShape>();
  std::size_t i = 0;
  for (const auto& array : named_arrays_of(Files::trainer(model), 0)) {
    const std::span<const std::size_t> shape = array.variable->shape();
    ExportedArray exported{array.name,
                           {shape.begin(), shape.end()},
                           {},
                           array.variable->product_units,
                           array.variable->is_table};
    exported.values.reserve(array.values.size());
    for (const T value : array.values) exported.values.push_back(static_cast<float>(value));
    variables.add(order[i++], std::move(exported));
  }
  return variables;
}

}}}  // namespace lockstep::detail
