#pragma once

#include <algorithm>
#include <optional>

#include "lockstep/checkpoint/safetensors.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/saving/transfer.hpp"
#include "lockstep/training/all_slots.hpp"
#include "lockstep/training/keras_layout.hpp"
#include "lockstep/training/keras_optimizer.hpp"
#include "lockstep/training/loops.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::vector<SavedArray> match_arrays(std::vector<SavedArray> found,
                                                     std::span<const WantedArray> wanted,
                                                     std::string_view scalar) {
  std::vector<SavedArray> matched;
  for (const WantedArray& variable : wanted) {
    const std::string& name = variable.name;
    const std::span<const std::size_t> shape = variable.shape;
    const auto array = std::find_if(found.begin(), found.end(), [&](const SavedArray& candidate) {
      return candidate.name == name;
    });
    if (array == found.end())
      throw ConfigurationError(concat({"expected an array ", in_quotes(name), " ",
                                       shape_text(shape), ", the file has none of that name"}));
    if (!std::equal(array->extents.begin(), array->extents.end(), shape.begin(), shape.end()))
      throw ConfigurationError(concat({"expected ", in_quotes(name), " to be ", shape_text(shape),
                                       ", in the file it is ", shape_text(array->extents)}));
    if (array_size(array->extents, scalar_size(array->scalar)) != array->bytes.size())
      throw DataError(
          concat({in_quotes(name), " ", shape_text(array->extents), " of ", array->scalar,
                  " cannot have ", array->bytes.size(), " bytes: the file is damaged"}));
    matched.push_back(convert_array(std::move(*array), scalar));
    found.erase(array);
  }
  if (!found.empty())
    throw ConfigurationError(
        concat({"the file has an array ", in_quotes(found.front().name), " ",
                shape_text(found.front().extents), ", which is no variable of this model"}));
  return matched;
}

template <class T>
void restore(Trainer<T>& trainer, const TrainingState& saved) {
  if (trainer.is_in_fit())
    throw ConfigurationError(
        "the model is in fit, whose state cannot be replaced: in a callback, use load_weights, "
        "which takes the "
        "variables alone");
  if (saved.signature.empty())
    throw ConfigurationError(
        "the file has weights alone, and no state of an optimizer: use load_weights");
  restore_state(trainer, saved,
                {.remedy = "load_weights takes the variables alone into another program"});
}

template <class T>
void save(const Trainer<T>& trainer, const std::string& path) {
  refuse_weights_format("save", path);
  const AllSlots<T> all_slots(trainer);
  if (trainer.strategy().is_chief()) save_snapshot(path, save_state(trainer));
}

template <class T>
void load(Trainer<T>& trainer, const std::string& path) {
  check_variables_are_here(trainer, "load");
  const std::vector<std::byte> bytes =
      file_from_chief(trainer.strategy(), "load", path, checkpoint_check(state_bytes(trainer)));
  naming_file("load", path, [&] { restore(trainer, decode_checkpoint(bytes)); });
}

/// Where Keras's files have a model's variables; empty unless `path` is one of them.
template <class T>
KerasLayout layout_for(const Trainer<T>& trainer, const std::string& path) {
  return is_keras_file(path) ? keras_layout_of(trainer.program().layout().layers) : KerasLayout{};
}

/// What load_weights looks for in a file.
template <class T>
std::vector<WantedArray> wanted_arrays(const Trainer<T>& trainer, const std::string& path) {
  std::vector<WantedArray> wanted;
  for (const NamedArray<T>& array : trainer.named_arrays(0))
    wanted.push_back({array.name, array.variable->shape()});
  for (const KerasGroup& group : layout_for(trainer, path).groups)
    for (std::size_t i = 0; i < group.variables.size(); ++i)
      for (WantedArray& array : wanted)
        if (array.name == group.variables[i])
          array.place = concat({keras_place(group.path), "/", i});
  return wanted;
}

/// The optimizer's state for a file of Keras; without a name where there is none now: in a fit, the
/// chief may not have it (sharded_updates, parameter servers).
template <class T>
KerasOptimizer optimizer_for(const Trainer<T>& trainer, const std::string& path) {
  if (!is_keras_file(path) || !has_whole_state(trainer)) return {};
  return keras_optimizer_of(trainer, save_state(trainer));
}

template <class T>
void save_weights(const Trainer<T>& trainer, const std::string& path) {
  check_weights_path("save_weights", path);
  std::optional<AllSlots<T>> all_slots;
  if (is_keras_file(path) && !trainer.is_in_fit()) all_slots.emplace(trainer);
  if (!trainer.strategy().is_chief()) return;
  std::vector<SavedArray> arrays;
  for (const NamedArray<T>& array : trainer.named_arrays(0)) {
    const auto bytes = std::as_bytes(array.values);
    const auto shape = array.variable->shape();
    arrays.push_back({.name = array.name,
                      .scalar = scalar_name<T>(),
                      .extents = {shape.begin(), shape.end()},
                      .bytes = {bytes.begin(), bytes.end()}});
  }
  save_weights_file(path, std::move(arrays), layout_for(trainer, path),
                    optimizer_for(trainer, path));
}

template <class T>
void load_weights(Trainer<T>& trainer, const std::string& path) {
  check_weights_path("load_weights", path, true);
  check_variables_are_here(trainer, "load_weights");
  if (is_keras_file(path)) return (void)load_weights(trainer, path, LoadWeightsOptions{});
  const std::uint64_t expected = state_bytes(trainer);
  const std::vector<std::byte> bytes =
      file_from_chief(trainer.strategy(), "load_weights", path, weights_check(path, expected));
  naming_file("load_weights", path, [&] {
    const std::vector<WantedArray> wanted = wanted_arrays(trainer, path);
    const auto arrays =
        match_arrays(decode_weights(path, bytes, expected), wanted, scalar_name<T>());
    for (std::size_t replica = 0; replica < trainer.replicas(); ++replica) {
      const auto variables = trainer.named_arrays(replica);
      for (std::size_t i = 0; i < arrays.size(); ++i)
        std::copy(arrays[i].bytes.begin(), arrays[i].bytes.end(),
                  std::as_writable_bytes(variables[i].values).begin());
    }
  });
}

/// Takes over the optimizer's state of a file of Keras whose variables have been loaded. Returns
/// what to say.
template <class T>
std::string take_optimizer(Trainer<T>& trainer, const KerasOptimizer& found,
                           LoadedWeights& report) {
  TakenOptimizer taken;
  if (trainer.is_in_fit())
    taken.text = "the model is in fit";
  else if (!report.missing.empty() || !report.mismatched.empty() || !report.unused.empty())
    taken.text = "the file is of another model";
  else
    taken = restore_keras_optimizer(trainer, found);
  report.optimizer_state = taken.is_taken;
  return taken.is_taken ? taken.text : "the optimizer's state is not taken over: " + taken.text;
}

template <class T>
LoadedWeights load_weights(Trainer<T>& trainer, const std::string& path,
                           const LoadWeightsOptions& options) {
  check_weights_path("load_weights", path, true);
  check_variables_are_here(trainer, "load_weights");
  const bool wants_optimizer = is_keras_file(path) && !options.by_name && !options.weights_only;
  std::optional<std::uint64_t> expected;  // the file of a larger model may be much larger
  if (!options.by_name) expected = state_bytes(trainer);
  const std::vector<std::byte> bytes =
      file_from_chief(trainer.strategy(), "load_weights", path, weights_check(path, expected));
  LoadedWeights report;
  std::string text;
  naming_file("load_weights", path, [&] {
    const std::vector<WantedArray> wanted = wanted_arrays(trainer, path);
    KerasWeights found;
    if (wants_optimizer)
      found = decode_keras_file(path, bytes, expected, keras_optimizer_variables(trainer));
    else if (path.ends_with(".safetensors"))
      found.arrays = decode_safetensors_numbers(bytes);
    else
      found.arrays = decode_weights(path, bytes, expected);
    TransferredArrays transferred =
        transfer_arrays(std::move(found.arrays), wanted, scalar_name<T>(), options);
    for (std::size_t replica = 0; replica < trainer.replicas(); ++replica) {
      const auto variables = trainer.named_arrays(replica);
      for (std::size_t i = 0; i < variables.size(); ++i)
        if (const auto& array = transferred.arrays[i])
          std::copy(array->bytes.begin(), array->bytes.end(),
                    std::as_writable_bytes(variables[i].values).begin());
    }
    report = std::move(transferred.report);
    text = report_text(report);
    if (!found.optimizer) return;
    if (!text.empty()) text += "; ";
    text += take_optimizer(trainer, *found.optimizer, report);
  });
  if (!text.empty() && trainer.strategy().is_chief())
    log_line(concat({"load_weights: ", in_quotes(path), ": ", text}));
  return report;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(void save(const Trainer<LOCKSTEP_REAL>&, const std::string&));
LOCKSTEP_INSTANCE(void load(Trainer<LOCKSTEP_REAL>&, const std::string&));
LOCKSTEP_INSTANCE(void save_weights(const Trainer<LOCKSTEP_REAL>&, const std::string&));
LOCKSTEP_INSTANCE(void load_weights(Trainer<LOCKSTEP_REAL>&, const std::string&));
LOCKSTEP_INSTANCE(LoadedWeights load_weights(Trainer<LOCKSTEP_REAL>&, const std::string&,
                                             const LoadWeightsOptions&));
LOCKSTEP_INSTANCE(void restore(Trainer<LOCKSTEP_REAL>&, const TrainingState&));
}  // namespace lockstep::inline LOCKSTEP_ABI::detail
