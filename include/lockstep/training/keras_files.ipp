#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/training/keras_files.hpp"
#include "lockstep/training/model_state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What Keras calls a layer inside a layer, by the name that is part of the variables' names.
LOCKSTEP_INLINE std::string keras_part(const std::string& name) {
  if (name.ends_with("_cell")) return "cell";
  if (name.starts_with("forward_")) return "forward_layer";
  if (name.starts_with("backward_")) return "backward_layer";
  if (name == "query" || name == "key" || name == "value") return name + "_dense";
  return name == "attention_output" ? "output_dense" : name;
}

/// The layers of one Keras model, collected from the last to the first.
class KerasModel {
 public:
  explicit KerasModel(std::span<const LayerInfo> layers, const std::string& inside = {}) {
    add_row(layers, inside, 0, true);
    std::reverse(found_.begin(), found_.end());
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Found& a, const Found& b) { return a.height > b.height; });
  }

  /// Appends the groups of the layers. `path` is that of the model: "layers/sequential/", or empty.
  void append_to(KerasLayout& layout, const std::string& path) const {
    std::vector<std::string_view> names;
    for (const Found& found : found_) names.push_back(found.layer->name);
    const std::vector<std::string> unique = unique_names(names);
    for (std::size_t i = 0; i < found_.size(); ++i)
      append(layout, found_[i], path + "layers/" + unique[i], unique[i]);
  }

 private:
  struct Found {
    const LayerInfo* layer;
    std::string name;    ///< what this library's names of its variables begin with
    std::size_t height;  ///< the number of layers on the longest way to the output
  };

  /// Appends the groups of a layer, which begin with `path`.
  static void append(KerasLayout& layout, const Found& found, const std::string& path,
                     const std::string& name) {
    const std::span<const LayerInfo> inside = found.layer->layers;
    const std::size_t first = layout.groups.size();
    layout.groups.push_back({.path = path, .name = name});
    if (inside.empty())
      append_variables(layout, first, found);
    else if (is_wrapper(*found.layer))
      append(layout, {&inside[0], concat({found.name, "/", inside[0].name}), 0}, path + "/layer",
             std::string(inside[0].name));
    else
      KerasModel(inside, found.name + "/").append_to(layout, path + "/");
  }

  /// A layer of Keras that holds another one.
  static bool is_wrapper(const LayerInfo& layer) { return layer.name == "time_distributed"; }

  /// The layers one after the other. Returns the height of the first one. `inside`: "residual/".
  /// `nests`: a Sequential among them is itself a model.
  std::size_t add_row(std::span<const LayerInfo> layers, const std::string& inside,
                      std::size_t height, bool nests) {
    const std::vector<std::string> unique = unique_layer_names(layers);
    for (std::size_t i = layers.size(); i-- > 0;)
      height = add(layers[i], inside + unique[i], height, nests);
    return height;
  }

  /// Adds a layer whose output goes to one of that height.
  std::size_t add(const LayerInfo& layer, const std::string& name, std::size_t height, bool nests) {
    if (layer.is_input) return height;
    const bool is_sequential = layer.name == "sequential";
    if (layer.layers.empty() || (is_sequential && nests) || is_wrapper(layer)) {
      found_.push_back({&layer, name, height + 1});
      return height + 1;
    }
    if (layer.name == "parallel" || layer.name == "cross_attention")
      return add_branches(layer.layers, name + "/", height + 1, layer.name != "parallel");
    if (layer.name == "residual")  // one branch does nothing, or both are a Sequential
      return std::all_of(layer.layers.begin(), layer.layers.end(), is_sequential_layer) &&
                     layer.layers.size() == 2
                 ? add_branches(layer.layers, name + "/", height + 1, false)
                 : add_row(layer.layers, name + "/", height + 1, false);
    return add_row(layer.layers, name + "/", height, nests && !is_sequential);
  }

  /// Layers beside each other. The last may be what joins them.
  std::size_t add_branches(std::span<const LayerInfo> branches, const std::string& inside,
                           std::size_t height, bool last_joins) {
    const std::vector<std::string> unique = unique_layer_names(branches);
    std::size_t end = branches.size();
    if (last_joins) found_.push_back({&branches[end - 1], inside + unique[end - 1], height});
    if (last_joins) --end;
    std::size_t highest = height;
    for (std::size_t i = end; i-- > 0;)
      highest = std::max(highest, add(branches[i], inside + unique[i], height, false));
    return highest;
  }

  static bool is_sequential_layer(const LayerInfo& layer) { return layer.name == "sequential"; }

  /// Appends the variables of a layer, whose group is the last one, and of its parts.
  static void append_variables(KerasLayout& layout, std::size_t first, const Found& found) {
    const std::vector<std::string> variables = unique_variable_names(*found.layer);
    const bool is_wrapper = found.layer->name == "spectral_normalization";
    if (is_wrapper)  // it has its layer's kernel, too
      layout.groups[first].variables.push_back(found.name + "/" + variables.front());
    for (const std::string& variable : variables) {
      std::size_t at = first;
      for (std::size_t begin = 0, slash = 0;
           (slash = variable.find('/', begin)) != std::string::npos; begin = slash + 1) {
        const std::string part = variable.substr(begin, slash - begin);
        const std::string path =
            layout.groups[at].path + "/" + (is_wrapper ? "layer" : keras_part(part));
        at = first;
        while (at < layout.groups.size() && layout.groups[at].path != path) ++at;
        if (at == layout.groups.size()) layout.groups.push_back({.path = path, .name = part});
      }
      layout.groups[at].variables.push_back(found.name + "/" + variable);
    }
    if (found.layer->name == "normalization")
      layout.groups[first].variables.emplace_back();  // Keras's count of samples
  }

  std::vector<Found> found_;
};

LOCKSTEP_INLINE KerasLayout keras_layout_of(std::span<const LayerInfo> layers) {
  KerasLayout layout;
  KerasModel(layers).append_to(layout, "");
  return layout;
}

LOCKSTEP_INLINE double saved_number(const SavedArray& array, std::size_t i) {
  float narrow = 0;
  double wide = 0;
  if (scalar_size(array.scalar) == sizeof(double)) {
    std::memcpy(&wide, array.bytes.data() + i * sizeof(double), sizeof(double));
    return wide;
  }
  std::memcpy(&narrow, array.bytes.data() + i * sizeof(float), sizeof(float));
  return static_cast<double>(narrow);
}

LOCKSTEP_INLINE void put_saved_number(SavedArray& array, std::size_t i, double wide) {
  const float narrow = static_cast<float>(wide);
  if (scalar_size(array.scalar) == sizeof(double))
    std::memcpy(array.bytes.data() + i * sizeof(double), &wide, sizeof(double));
  else
    std::memcpy(array.bytes.data() + i * sizeof(float), &narrow, sizeof(float));
}

/// The shape of Keras's array for a slot of a variable.
LOCKSTEP_INLINE std::vector<std::uint64_t> keras_extents(KerasSlot::Part part,
                                                         const Variable& variable) {
  using Part = KerasSlot::Part;
  if (part == Part::number) return {};
  std::vector<std::uint64_t> extents(variable.shape().begin(), variable.shape().end());
  if (part == Part::rows || part == Part::row_means) extents.pop_back();
  if (part == Part::columns || part == Part::column_means) extents.erase(extents.end() - 2);
  return extents;
}

/// Keras's array, made of ours; `factor` applies to whole slots.
LOCKSTEP_INLINE SavedArray keras_array(const KerasSlot& slot, const Variable& variable,
                                       const SavedArray& ours, double factor) {
  using Part = KerasSlot::Part;
  SavedArray array{.name = {},
                   .scalar = ours.scalar,
                   .extents = keras_extents(slot.part, variable),
                   .bytes = {}};
  const std::size_t size = array_size(array.extents, 1).value_or(0);
  array.bytes.resize(size * scalar_size(array.scalar));
  const std::size_t columns = variable.rank > 1 ? variable.extents[variable.rank - 1] : 1;
  const std::size_t rows = variable.rank > 1 ? variable.extents[variable.rank - 2] : 1;
  for (std::size_t i = 0; i < size; ++i) {
    double value = 0;
    switch (slot.part) {
      case Part::whole:
        value = factor * saved_number(ours, i) + slot.added;
        break;
      case Part::rows:
        value = saved_number(ours, i);
        break;
      case Part::columns:
        value = saved_number(ours, variable.size() / columns + i);
        break;
      case Part::row_means:
        for (std::size_t j = 0; j < columns; ++j) value += saved_number(ours, i * columns + j);
        value /= static_cast<double>(columns);
        break;
      case Part::column_means:
        for (std::size_t j = 0; j < rows; ++j)
          value += saved_number(ours, (i / columns * rows + j) * columns + i % columns);
        value /= static_cast<double>(rows);
        break;
      case Part::number:
        value = slot.added;
        break;
      case Part::unread:
        break;
    }
    put_saved_number(array, i, value);
  }
  return array;
}

/// The reverse: ours, made of Keras's.
LOCKSTEP_INLINE void take_keras_array(const KerasSlot& slot, const Variable& variable,
                                      const SavedArray& found, SavedArray& ours) {
  using Part = KerasSlot::Part;
  if (slot.part != Part::whole && slot.part != Part::rows && slot.part != Part::columns) return;
  const std::size_t begin =
      slot.part == Part::columns ? variable.size() / variable.extents[variable.rank - 1] : 0;
  const std::size_t size = found.bytes.size() / scalar_size(found.scalar);
  for (std::size_t i = 0; i < size; ++i)
    put_saved_number(ours, begin + i, saved_number(found, i) - slot.added);
}

LOCKSTEP_INLINE std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

/// Which of Keras's optimizers a name stands for ("adam", "rm_sprop", "adam_w_1"); empty for a
/// user's own name. Adam and AdamW have the same state.
LOCKSTEP_INLINE std::string keras_optimizer_kind(std::string_view name) {
  std::string kind = lower_case(name);
  const std::size_t digits = kind.find_last_not_of("0123456789");
  if (digits != std::string::npos && digits + 1 < kind.size() && kind[digits] == '_')
    kind.resize(digits);
  std::erase(kind, '_');
  for (const char* const known :
       {"sgd", "adam", "adamw", "nadam", "adamax", "rmsprop", "adagrad", "adadelta", "lion", "ftrl",
        "adafactor", "lamb", "muon", "schedulefreeadamw", "lossscaleoptimizer", "multioptimizer"})
    if (kind == known) return kind == "adamw" ? "adam" : kind;
  return {};
}

/// What Keras's optimizer stores after the learning rate. `names`: the model's, which outlive it.
template <class T>
KerasSlots keras_slots_of(const Trainer<T>& model, const std::vector<std::string>& names,
                          std::int64_t iterations) {
  const Program<T>& program = model.program();
  std::vector<std::size_t> order;
  for (const KerasGroup& group : keras_layout_of(program.layout().layers).groups)
    for (const std::string& variable : group.variables)
      if (const auto at = std::ranges::find(names, variable); at != names.end())
        order.push_back(static_cast<std::size_t>(at - names.begin()));
  const bool is_whole = order.size() == names.size();
  KerasSlots list(program.layout().variables, names, std::move(order), iterations);
  if (!is_whole || names.empty()) return list;
  if (model.variables().has_averages()) list.each_variable({{.slot = program.layout().slots}});
  if (model.variables().accumulation_steps() > 1)
    list.each_variable({{.slot = model.slot_count()}});
  program.keras_slots(list);
  return list;
}

template <class T>
KerasOptimizer keras_optimizer_of(const Trainer<T>& model, const TrainingState& saved) {
  const Program<T>& program = model.program();
  const std::vector<std::string> names = program.names().variables;
  const KerasSlots list = keras_slots_of(model, names, saved.iterations);
  if (list.optimizer.empty()) return {};
  KerasOptimizer keras{.name = lower_case(list.optimizer),
                       .iterations = saved.iterations * model.variables().accumulation_steps() +
                                     saved.accumulated_steps};
  const auto add = [&](SavedArray array) {
    array.name = concat({"optimizer/vars/", keras.variables.size() + 1});
    keras.variables.push_back(std::move(array));
  };
  SavedArray one{.name = {},
                 .scalar = scalar_name<double>(),
                 .extents = {},
                 .bytes = std::vector<std::byte>(sizeof(double))};
  if (!model.variables().has_schedule())  // with all its digits, of which Keras takes what it wants
    add(keras_array({.part = KerasSlot::Part::number, .added = saved.learning_rate}, {}, one, 1));
  one.scalar = scalar_name<T>();
  // Keras's momentum is not scaled when the rate changes: see MomentumForm.
  const double rates =
      saved.previous_learning_rate > 0 ? saved.learning_rate / saved.previous_learning_rate : 1;
  const double windows = saved.accumulated_rows > 0
                             ? static_cast<double>(saved.accumulated_steps) / saved.accumulated_rows
                             : 0;
  for (const KerasSlot& slot : list.list()) {
    const std::size_t at = slot.slot * names.size() + slot.variable;
    const bool is_accumulated = slot.slot == model.slot_count();
    KerasSlot to = slot;
    if (is_accumulated && saved.accumulated_steps == 0) to.part = KerasSlot::Part::unread;
    const bool is_ours = to.part != KerasSlot::Part::number && to.part != KerasSlot::Part::unread;
    add(keras_array(to, program.layout().variables[slot.variable],
                    is_ours ? saved.slots.at(at) : one,
                    is_accumulated   ? windows
                    : slot.has_rates ? rates
                                     : 1));
  }
  keras.count = keras.variables.size() + 1;
  return keras;
}

template <class T>
std::size_t keras_optimizer_variables(const Trainer<T>& model) {
  const std::vector<std::string> names = model.program().names().variables;
  const KerasSlots list = keras_slots_of(model, names, 0);
  return list.optimizer.empty() ? 0 : list.list().size() + 2;
}

/// Why this state cannot be that of an optimizer that has `list`; empty when it can.
LOCKSTEP_INLINE std::string keras_difference(const KerasSlots& list, const KerasOptimizer& found) {
  if (list.optimizer.empty())
    return concat({"the file has that of '", found.name,
                   "', and Keras has no optimizer like this program's"});
  const std::string theirs = keras_optimizer_kind(found.name);
  const std::size_t own = list.list().size() + 1;
  if (!theirs.empty() && theirs != keras_optimizer_kind(list.optimizer))
    return concat({"the file has that of '", found.name, "', this program has ", list.optimizer});
  if (found.count != own && found.count != own + 1)
    return concat({"the file's '", found.name, "' has ", found.count, " variables, and Keras's ",
                   list.optimizer, " with the options and variables of this program has ", own,
                   " and its learning rate",
                   found.count <= 2 ? ": it was saved before a fit" : ""});
  if (found.variables.size() + 1 != found.count)
    return concat({"the file's '", found.name, "' has other things than arrays of numbers"});
  const std::size_t first = found.count - own;
  for (std::size_t i = 0; i < list.list().size(); ++i) {
    const SavedArray& array = found.variables[first + i];
    const KerasSlot& slot = list.list()[i];
    const auto extents = keras_extents(slot.part, list.variables()[slot.variable]);
    if (array.extents != extents)
      return concat({"expected '", array.name, "' to be ", shape_text(extents),
                     slot.part == KerasSlot::Part::number
                         ? std::string()
                         : concat({" for '", list.names()[slot.variable], "'"}),
                     ", in the file it is ", shape_text(array.extents)});
  }
  if (first == 0) return {};
  const SavedArray& rate = found.variables.front();
  if (!rate.extents.empty())
    return concat({"expected '", rate.name, "' to be the learning rate, in the file it is ",
                   shape_text(rate.extents)});
  if (const double value = saved_number(rate, 0); !(std::isfinite(value) && value >= 0))
    return concat({"expected '", rate.name,
                   "' to be the learning rate, a finite number of at "
                   "least 0, in the file it is ",
                   value});
  return {};
}

template <class T>
TakenOptimizer restore_keras_optimizer(Trainer<T>& model, const KerasOptimizer& found) {
  const Program<T>& program = model.program();
  Variables<T>& variables = model.variables();
  const std::vector<std::string> names = program.names().variables;
  const KerasSlots list = keras_slots_of(model, names, 0);
  if (std::string difference = keras_difference(list, found); !difference.empty())
    return {.text = std::move(difference)};
  const bool has_rate = found.count == list.list().size() + 2;
  const std::int64_t window = variables.accumulation_steps();

  TrainingState state;
  state.scalar = scalar_name<T>();
  state.signature = model.signature();
  state.iterations = found.iterations / window;
  state.learning_rate = has_rate && !variables.has_schedule()
                            ? saved_number(found.variables.front(), 0)
                            : variables.learning_rate();
  state.seed = variables.seed;
  state.data_iteration = variables.next_pass;
  save_arrays(state.parameters, 0, trained_arrays(program, variables.parameters()));
  save_arrays(state.state, 0, untrained_arrays(program, model.workspace(0).state()));
  const Arena<T> zeros(program.layout().variables);
  for (std::size_t slot = 0; slot < model.slot_count(); ++slot)
    save_arrays(state.slots, slot * names.size(), trained_arrays(program, zeros));
  for (std::size_t i = 0; i < list.list().size(); ++i) {
    const KerasSlot& slot = list.list()[i];
    if (slot.slot == model.slot_count()) continue;
    take_keras_array(slot, program.layout().variables[slot.variable],
                     found.variables[(has_rate ? 1 : 0) + i],
                     state.slots[slot.slot * names.size() + slot.variable]);
  }
  restore_state(model, state);
  // Keras multiplies its momentum by the rate of the next update, whatever the rates of its steps
  // were.
  variables.previous_learning_rate = state.iterations > 0 ? variables.learning_rate() : 0;
  std::string text = concat({"with the state of the optimizer: ", state.iterations,
                             state.iterations == 1 ? " update" : " updates", ", learning rate ",
                             variables.learning_rate()});
  if (has_rate && variables.has_schedule()) text += " of this program's schedule";
  if (!has_rate && !variables.has_schedule()) text += " of this program, for the file has none";
  if (found.iterations % window != 0)
    text += concat({"; the gradients of ", found.iterations % window, " steps of ", window,
                    " for the next update are left out"});
  return {.is_taken = true, .text = std::move(text)};
}

LOCKSTEP_INSTANCE(KerasOptimizer keras_optimizer_of(const Trainer<LOCKSTEP_REAL>&,
                                                    const TrainingState&));
LOCKSTEP_INSTANCE(std::size_t keras_optimizer_variables(const Trainer<LOCKSTEP_REAL>&));
LOCKSTEP_INSTANCE(TakenOptimizer restore_keras_optimizer(Trainer<LOCKSTEP_REAL>&,
                                                         const KerasOptimizer&));
}}}  // namespace lockstep::detail
