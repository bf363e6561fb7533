#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "lockstep/checkpoint/sharded_state.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/keras_files.hpp"
#include "lockstep/training/loops.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE void naming_file(std::string_view what, const std::string& path,
                                 FunctionRef<void()> f) {
  const auto message = [&](const Error& error) {
    return concat({what, " ", in_quotes(path), ": ", error.what()});
  };
  try {
    f();
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(message(error));
  } catch (const DataError& error) {
    throw DataError(message(error));
  }
}

LOCKSTEP_INLINE FileContents unreadable(const Error& error) {
  const auto text = std::as_bytes(std::span(std::string_view(error.what())));
  return {.readable = false, .bytes = {text.begin(), text.end()}};
}

LOCKSTEP_INLINE FileContents read_contents(std::string_view call, const std::string& path,
                                           const HeadCheck& check, std::string_view none) {
  const HeadCheck naming = [&](std::span<const std::byte> head, std::uint64_t size) {
    naming_file(call, path, [&] { check(head, size); });
  };
  try {
    auto bytes = read_file(path, naming);
    if (!bytes) throw DataError(concat({"cannot read ", in_quotes(path), ": ", none}));
    return {.readable = true, .bytes = std::move(*bytes)};
  } catch (const Error& error) {
    return unreadable(error);
  }
}

LOCKSTEP_INLINE std::vector<std::byte> contents_from_chief(AnyStrategy& strategy,
                                                           const FileCall& call,
                                                           FileContents file) {
  strategy.run([&](AnyReplica& replica) {
    const bool leader = replica.local_rank() == 0;
    auto& collective = replica.collective();
    const CommonCall common(replica, call.name, {}, call.arguments);
    const bool readable = from_chief(collective, leader && file.readable);
    auto bytes =
        bytes_from_chief(collective, leader ? std::move(file.bytes) : std::vector<std::byte>{});
    if (leader) file = {readable, std::move(bytes)};
  });
  if (!file.readable)
    throw DataError(
        std::string(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()));
  return std::move(file.bytes);
}

LOCKSTEP_INLINE std::vector<std::byte> file_from_chief(AnyStrategy& strategy, const char* call,
                                                       const std::string& path,
                                                       const HeadCheck& check) {
  FileContents file;
  if (strategy.has_parameter_servers())  // its processes have no collective operations
    file = read_contents(call, path, check,
                         "this process has no such file; with parameter servers, each process "
                         "reads it: put it where all find it");
  else if (strategy.is_chief())
    file = read_contents(
        call, path, check,
        strategy.num_workers() > 1 ? "the chief has no such file" : "there is no such file");
  return contents_from_chief(strategy, {call, in_quotes(path)}, std::move(file));
}

// --- the arrays of a file, by the names that they have in a model --------------------------------

/// An array of the file, under the name that it has in this model.
struct NamedFileArray {
  SavedArray array;
  std::string name;
  std::vector<std::size_t> flattened{};
  bool is_used = false;
};

/// The arrays of a file by their names.
class FileArrays {
 public:
  FileArrays(std::vector<SavedArray> found, const LoadWeightsOptions& options)
      : is_pytorch_(options.layout == WeightsLayout::pytorch) {
    std::set<const WeightsRename*> used;
    for (SavedArray& array : found) {
      if (array_size(array.extents, scalar_size(array.scalar)) != array.bytes.size())
        throw DataError(
            concat({in_quotes(array.name), " ", shape_text(array.extents), " of ", array.scalar,
                    " cannot have ", array.bytes.size(), " bytes: the file is damaged"}));
      const WeightsRename* const rule = rule_for(array.name, options.rename);
      used.insert(rule);
      NamedFileArray& renamed =
          arrays_.emplace_back(NamedFileArray{.array = std::move(array), .name = {}});
      const std::string& name = renamed.array.name;
      renamed.name = rule == nullptr ? name : rule->to + name.substr(rule->from.size());
      if (rule != nullptr) renamed.flattened = rule->flattened;
      if (is_pytorch_) std::replace(renamed.name.begin(), renamed.name.end(), '.', '/');
    }
    for (const WeightsRename& rule : options.rename)
      if (!used.contains(&rule))
        throw ConfigurationError(
            concat({"rename: the file has no array whose name is or begins with ",
                    in_quotes(rule.from), "; it has ", names()}));
  }

  /// Marks it as used. Null when there is none.
  NamedFileArray* take(std::string_view name) {
    const auto at = std::find_if(arrays_.begin(), arrays_.end(),
                                 [&](const auto& array) { return array.name == name; });
    if (at == arrays_.end()) return nullptr;
    at->is_used = true;
    return &*at;
  }
  [[nodiscard]] bool is_pytorch() const noexcept { return is_pytorch_; }
  [[nodiscard]] std::vector<std::string> unused() const {
    std::vector<std::string> left;
    for (const NamedFileArray& array : arrays_)
      if (!array.is_used) left.push_back(array.array.name);
    return left;
  }
  [[nodiscard]] std::string names() const {
    std::string text;
    for (std::size_t i = 0; i < arrays_.size() && i < 12; ++i) {
      const SavedArray& array = arrays_[i].array;
      text +=
          concat({i > 0 ? ", " : "", in_quotes(array.name, 60), " ", shape_text(array.extents)});
    }
    if (arrays_.size() > 12) text += concat({" and ", arrays_.size() - 12, " more"});
    return text.empty() ? "none" : text;
  }

 private:
  static const WeightsRename* rule_for(std::string_view name,
                                       const std::vector<WeightsRename>& rules) {
    const WeightsRename* best = nullptr;
    for (const WeightsRename& rule : rules) {
      const bool fits = name.starts_with(rule.from) &&
                        (name.size() == rule.from.size() || name[rule.from.size()] == '.' ||
                         name[rule.from.size()] == '/' || rule.from.empty() ||
                         rule.from.ends_with('.') || rule.from.ends_with('/'));
      if (fits && (best == nullptr || rule.from.size() > best->from.size())) best = &rule;
    }
    return best;
  }

  std::vector<NamedFileArray> arrays_;
  bool is_pytorch_;
};

/// Numbers in row-major order with their extents.
struct Numbers {
  std::vector<std::size_t> shape;
  std::vector<double> values;

  explicit Numbers(const SavedArray& array)
      : shape(array.extents.begin(), array.extents.end()),
        values(array.bytes.size() / scalar_size(array.scalar)) {
    const SavedArray wide = convert_array(array, scalar_name<double>());
    std::memcpy(values.data(), wide.bytes.data(), wide.bytes.size());
  }
  [[nodiscard]] SavedArray saved(const std::string& name, std::string_view scalar) const {
    const auto bytes = std::as_bytes(std::span(values));
    return convert_array({.name = name,
                          .scalar = scalar_name<double>(),
                          .extents = {shape.begin(), shape.end()},
                          .bytes = {bytes.begin(), bytes.end()}},
                         scalar);
  }
  /// Axis i of the result is axis order[i] of this.
  void permute(std::vector<std::size_t> order) {
    std::vector<std::size_t> strides(shape.size(), 1), extents(shape.size()), at(shape.size(), 0);
    for (std::size_t axis = shape.size(); axis-- > 1;)
      strides[axis - 1] = strides[axis] * shape[axis];
    for (std::size_t axis = 0; axis < shape.size(); ++axis) extents[axis] = shape[order[axis]];
    std::vector<double> moved(values.size());
    for (double& value : moved) {
      std::size_t from = 0;
      for (std::size_t axis = 0; axis < at.size(); ++axis) from += at[axis] * strides[order[axis]];
      value = values[from];
      for (std::size_t axis = at.size(); axis-- > 0;) {
        if (++at[axis] < extents[axis]) break;
        at[axis] = 0;
      }
    }
    shape = std::move(extents);
    values = std::move(moved);
  }
};

/// Whether the rows or columns of a matrix are those of attention's heads, in Keras's shape.
[[nodiscard]] inline bool is_of_heads(const Numbers& kernel, std::span<const std::size_t> wanted) {
  return kernel.shape.size() == 2 && wanted.size() == 3 &&
         ((kernel.shape[1] == wanted[0] && kernel.shape[0] == wanted[1] * wanted[2]) ||
          (kernel.shape[1] == wanted[0] * wanted[1] && kernel.shape[0] == wanted[2]));
}

/// Puts a kernel of PyTorch into Keras's layout, where its shape allows it.
LOCKSTEP_INLINE void turn_kernel(Numbers& kernel, std::span<const std::size_t> wanted,
                                 const std::vector<std::size_t>& flattened) {
  if (is_of_heads(kernel, wanted)) {
    kernel.permute({1, 0});
    kernel.shape.assign(wanted.begin(), wanted.end());
    return;
  }
  if (kernel.shape.size() != wanted.size()) return;
  if (wanted.size() == 2) {
    if (!flattened.empty()) {
      const std::size_t inputs =
          std::accumulate(flattened.begin(), flattened.end(), std::size_t{1}, std::multiplies<>());
      if (flattened.size() != 3 || inputs != kernel.shape[1])
        throw ConfigurationError(
            concat({"rename: flattened must be [channels, height, width] with a product of ",
                    kernel.shape[1], ", got ", shape_text(flattened)}));
      kernel.shape = {kernel.shape[0], flattened[0], flattened[1], flattened[2]};
      kernel.permute({2, 3, 1, 0});
      kernel.shape = {inputs, kernel.shape[3]};
    } else {
      kernel.permute({1, 0});
    }
  } else if (wanted.size() == 3) {
    kernel.permute({2, 1, 0});
  } else if (wanted.size() == 4) {
    const bool is_depthwise =
        kernel.shape[1] == 1 && wanted[2] != 1 && kernel.shape[0] == wanted[2] * wanted[3];
    if (is_depthwise) kernel.shape = {wanted[2], wanted[3], kernel.shape[2], kernel.shape[3]};
    kernel.permute(is_depthwise ? std::vector<std::size_t>{2, 3, 0, 1}
                                : std::vector<std::size_t>{2, 3, 1, 0});
  }
}

/// The gates of a GRU, along the first axis, are reset, update, new in PyTorch, and update, reset,
/// new in Keras.
LOCKSTEP_INLINE void order_gates(Numbers& array) {
  const auto gate = static_cast<std::ptrdiff_t>(array.values.size() / 3);
  std::swap_ranges(array.values.begin(), array.values.begin() + gate, array.values.begin() + gate);
}

/// A variable of a recurrent layer that PyTorch calls `layer`; nothing if that is no such layer.
LOCKSTEP_INLINE std::optional<Numbers> recurrent_array(FileArrays& file, const std::string& layer,
                                                       std::string_view variable,
                                                       std::span<const std::size_t> wanted) {
  const NamedFileArray* const hidden = file.take(layer + "/weight_hh_l0");
  const char* const name = variable == "kernel"             ? "/weight_ih_l0"
                           : variable == "recurrent_kernel" ? "/weight_hh_l0"
                           : variable == "bias"             ? "/bias_ih_l0"
                                                            : nullptr;
  if (hidden == nullptr || hidden->array.extents.size() != 2 || name == nullptr)
    return std::nullopt;
  const NamedFileArray* const found = file.take(layer + name);
  if (found == nullptr) return std::nullopt;
  const bool is_gru = hidden->array.extents[0] == 3 * hidden->array.extents[1];
  Numbers numbers(found->array);
  if (is_gru) order_gates(numbers);
  if (variable != "bias") {
    if (numbers.shape.size() == 2) numbers.permute({1, 0});
    return numbers;
  }
  const NamedFileArray* const second = file.take(layer + "/bias_hh_l0");
  if (second == nullptr || second->array.extents != found->array.extents) return numbers;
  Numbers recurrent(second->array);
  if (is_gru) {  // keeps both
    if (wanted.size() != 2)
      throw ConfigurationError(concat(
          {"the file's ", in_quotes(found->array.name), " is of a GRU that resets after the ",
           "product, as all of PyTorch's: give this model's GRU .reset_after = true"}));
    order_gates(recurrent);
    numbers.shape.insert(numbers.shape.begin(), 2);
    numbers.values.insert(numbers.values.end(), recurrent.values.begin(), recurrent.values.end());
  } else {
    for (std::size_t i = 0; i < numbers.values.size(); ++i)
      numbers.values[i] += recurrent.values[i];
  }
  return numbers;
}

/// The array for a variable, in Keras's layout.
LOCKSTEP_INLINE std::optional<SavedArray> find_array(FileArrays& file, const WantedArray& wanted,
                                                     std::string_view scalar) {
  const std::size_t slash = wanted.name.rfind('/');
  const std::string variable = wanted.name.substr(slash == std::string::npos ? 0 : slash + 1);
  NamedFileArray* found = file.take(wanted.name);
  if (found == nullptr && !wanted.place.empty()) found = file.take(wanted.place);
  if (!wanted.copy.empty()) (void)file.take(wanted.copy);
  if (!file.is_pytorch())
    return found == nullptr ? std::nullopt : std::optional(convert_array(found->array, scalar));

  const std::string layer = wanted.name.substr(0, slash == std::string::npos ? 0 : slash);
  const char* const name =
      variable == "kernel" || variable == "embeddings" || variable == "gamma" || variable == "scale"
          ? "/weight"
      : variable == "bias" || variable == "beta" ? "/bias"
      : variable == "moving_mean"                ? "/running_mean"
      : variable == "moving_variance"            ? "/running_var"
                                                 : nullptr;
  if (found == nullptr && name != nullptr) found = file.take(layer + name);
  if (found == nullptr) {
    const std::string outer =
        layer.substr(0, std::min(layer.rfind('/'), layer.size()));  // of "lstm/lstm_cell"
    auto numbers = recurrent_array(file, outer, variable, wanted.shape);
    return numbers ? std::optional(numbers->saved(wanted.name, scalar)) : std::nullopt;
  }
  Numbers kernel(found->array);
  if (variable == "bias" && kernel.shape.size() == 1 && wanted.shape.size() == 2 &&
      kernel.shape[0] == wanted.shape[0] * wanted.shape[1]) {  // attention's
    kernel.shape.assign(wanted.shape.begin(), wanted.shape.end());
    return kernel.saved(wanted.name, scalar);
  }
  if (!variable.ends_with("kernel") && !variable.starts_with("lora_kernel"))
    return convert_array(found->array, scalar);
  turn_kernel(kernel, wanted.shape, found->flattened);
  return kernel.saved(wanted.name, scalar);
}

LOCKSTEP_INLINE TransferredArrays transfer_arrays(std::vector<SavedArray> found,
                                                  std::span<const WantedArray> wanted,
                                                  std::string_view scalar,
                                                  const LoadWeightsOptions& options) {
  FileArrays file(std::move(found), options);
  TransferredArrays transferred;
  LoadedWeights& report = transferred.report;
  for (const WantedArray& variable : wanted) {
    std::optional<SavedArray> array = find_array(file, variable, scalar);
    if (!array && !options.by_name)
      throw ConfigurationError(
          concat({"expected an array '", variable.place.empty() ? variable.name : variable.place,
                  "' ", shape_text(variable.shape),
                  variable.place.empty() ? "" : concat({" for ", in_quotes(variable.name)}),
                  ", the file has none of that name: it has ", file.names(),
                  "; rename gives arrays other names, and by_name leaves out what is missing"}));
    if (array && !std::equal(array->extents.begin(), array->extents.end(), variable.shape.begin(),
                             variable.shape.end())) {
      if (!options.skip_mismatch)
        throw ConfigurationError(
            concat({"expected ", in_quotes(variable.name), " to be ", shape_text(variable.shape),
                    ", in the file it is ", shape_text(array->extents),
                    file.is_pytorch() ? " (in Keras's layout)" : "",
                    "; skip_mismatch leaves such variables as they are"}));
      report.mismatched.push_back(variable.name);
      array.reset();
    } else {
      (array ? report.loaded : report.missing).push_back(variable.name);
    }
    transferred.arrays.push_back(std::move(array));
  }
  report.unused = file.unused();
  if (!options.by_name && !report.unused.empty())
    throw ConfigurationError(
        concat({"the file has an array ", in_quotes(report.unused.front()),
                ", which is no variable of this model; by_name leaves it out"}));
  if (report.loaded.empty() && report.mismatched.empty() && !wanted.empty())
    throw ConfigurationError(concat({"the file has no variable of this model, whose first is ",
                                     in_quotes(wanted.front().name), ": it has ", file.names()}));
  return transferred;
}

LOCKSTEP_INLINE std::string report_text(const LoadedWeights& report) {
  if (report.missing.empty() && report.mismatched.empty() && report.unused.empty()) return {};
  std::string text =
      concat({report.loaded.size(), " of ",
              report.loaded.size() + report.missing.size() + report.mismatched.size(),
              " variables loaded"});
  const auto list = [&](std::string_view what, const std::vector<std::string>& names) {
    constexpr std::size_t most = 6;
    if (names.empty()) return;
    text += concat({"; ", what, ": "});
    for (std::size_t i = 0; i < names.size() && i < most; ++i)
      text += (i > 0 ? ", " : "") + printable(names[i], 60);
    if (names.size() > most) text += concat({" and ", names.size() - most, " more"});
  };
  list("not in the file", report.missing);
  list("of another shape there", report.mismatched);
  list("not in this model", report.unused);
  return text;
}

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
        "which takes the variables alone");
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
void save(const Trainer<T>& trainer, const std::string& path, const SaveOptions& options) {
  if (!options.sharded) return save(trainer, path);
  save_shares(trainer, path, [&] { return share_of_state(trainer); });
}

template <class T>
void save_shares(const Trainer<T>& trainer, const std::string& path,
                 FunctionRef<StateShare()> share) {
  refuse_weights_format("save", path);
  trainer.check_variables_are_here("save");
  save_shares(path, trainer.strategy().worker_index(), share(),
              [&](const std::string& mine) { return exchange_texts(trainer.strategy(), mine); });
}

/// The chief's file, or a reference to its sharded state, on every worker: see file_from_chief.
LOCKSTEP_INLINE std::vector<std::byte> file_or_shares(AnyStrategy& strategy, const char* call,
                                                      const std::string& path,
                                                      const HeadCheck& check) {
  const bool reads = strategy.has_parameter_servers() || strategy.is_chief();
  return reads && is_sharded_state(path) ? contents_from_chief(strategy, {call, in_quotes(path)},
                                                               {.bytes = reference_to_shares(path)})
                                         : file_from_chief(strategy, call, path, check);
}

LOCKSTEP_INLINE TrainingState read_shares(AnyStrategy& strategy, const std::string& path,
                                          const SlotRanges& needs) {
  if (strategy.has_parameter_servers()) return read_sharded_state(path, needs);
  return read_sharded_state(
      path, needs, strategy.worker_index(),
      [&](const std::string& mine) { return exchange_texts(strategy, mine); }, false);
}

template <class T>
TrainingState decode_state(Trainer<T>& trainer, std::span<const std::byte> bytes) {
  const auto shares = path_of_shares(bytes);
  return shares ? read_shares(trainer.strategy(), *shares, slots_needed(trainer))
                : decode_checkpoint(bytes);
}

template <class T>
void restore_file(Trainer<T>& trainer, const char* call, const std::string& path,
                  FunctionRef<void(const TrainingState&)> f) {
  trainer.check_variables_are_here(call);
  const std::vector<std::byte> bytes =
      file_or_shares(trainer.strategy(), call, path, checkpoint_check(trainer.state_bytes()));
  naming_file(call, path, [&] { f(decode_state(trainer, bytes)); });
}

template <class T>
void load(Trainer<T>& trainer, const std::string& path) {
  restore_file(trainer, "load", path, [&](const TrainingState& state) { restore(trainer, state); });
}

template <class T>
std::vector<std::byte> state_to_keep(const Trainer<T>& trainer, const char* call) {
  trainer.check_variables_are_here(call);
  const AllSlots<T> all_slots(trainer);
  if (!trainer.strategy().is_chief()) return {};
  return encode_checkpoint(save_state(trainer));
}

template <class T>
void put_back_state(Trainer<T>& trainer, const char* call, const std::vector<std::byte>& kept) {
  const std::vector<std::byte> bytes =
      contents_from_chief(trainer.strategy(), {.name = call, .arguments = {}}, {.bytes = kept});
  restore(trainer, decode_checkpoint(bytes));
}

template <class T>
double chiefs_number(const Trainer<T>& trainer, const char* call, double number) {
  const auto mine = std::as_bytes(std::span(&number, 1));
  const std::vector<std::byte> bytes = contents_from_chief(
      trainer.strategy(), {.name = call, .arguments = {}}, {.bytes = {mine.begin(), mine.end()}});
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
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
          array.copy = std::exchange(array.place, concat({keras_place(group.path), "/", i}));
  return wanted;
}

/// The optimizer's state for a file of Keras; without a name if there is none now: within a fit,
/// the chief may not have it (sharded_updates, parameter servers).
template <class T>
KerasOptimizer optimizer_for(const Trainer<T>& trainer, const std::string& path) {
  if (!is_keras_file(path) || !has_whole_state(trainer)) return {};
  return keras_optimizer_of(trainer, save_state(trainer));
}

/// The arrays of a file of weights, or the variables of a sharded state.
LOCKSTEP_INLINE std::vector<SavedArray> weights_in(AnyStrategy& strategy, const std::string& path,
                                                   std::span<const std::byte> bytes,
                                                   std::optional<std::uint64_t> expected) {
  if (!path_of_shares(bytes)) return decode_weights(path, bytes, expected);
  TrainingState state = read_shares(strategy, path, no_slots(expected.value_or(0)));
  std::ranges::move(state.state, std::back_inserter(state.parameters));
  return std::move(state.parameters);
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
  trainer.check_variables_are_here("load_weights");
  if (is_keras_file(path)) return (void)load_weights(trainer, path, LoadWeightsOptions{});
  const std::uint64_t expected = trainer.state_bytes();
  const std::vector<std::byte> bytes =
      file_or_shares(trainer.strategy(), "load_weights", path, weights_check(path, expected));
  naming_file("load_weights", path, [&] {
    const std::vector<WantedArray> wanted = wanted_arrays(trainer, path);
    const auto arrays = match_arrays(weights_in(trainer.strategy(), path, bytes, expected), wanted,
                                     scalar_name<T>());
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
  trainer.check_variables_are_here("load_weights");
  const bool wants_optimizer = is_keras_file(path) && !options.by_name && !options.weights_only;
  std::optional<std::uint64_t> expected;  // the file of a larger model may be much larger
  if (!options.by_name) expected = trainer.state_bytes();
  const std::vector<std::byte> bytes =
      file_or_shares(trainer.strategy(), "load_weights", path, weights_check(path, expected));
  LoadedWeights report;
  std::string text;
  naming_file("load_weights", path, [&] {
    const std::vector<WantedArray> wanted = wanted_arrays(trainer, path);
    KerasWeights found;
    if (path_of_shares(bytes))
      found.arrays = weights_in(trainer.strategy(), path, bytes, expected);
    else if (wants_optimizer)
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

LOCKSTEP_INSTANCE(void save(const Trainer<LOCKSTEP_REAL>&, const std::string&));
LOCKSTEP_INSTANCE(void save(const Trainer<LOCKSTEP_REAL>&, const std::string&, const SaveOptions&));
LOCKSTEP_INSTANCE(void save_shares(const Trainer<LOCKSTEP_REAL>&, const std::string&,
                                   FunctionRef<StateShare()>));
LOCKSTEP_INSTANCE(TrainingState decode_state(Trainer<LOCKSTEP_REAL>&, std::span<const std::byte>));
LOCKSTEP_INSTANCE(void restore_file(Trainer<LOCKSTEP_REAL>&, const char*, const std::string&,
                                    FunctionRef<void(const TrainingState&)>));
LOCKSTEP_INSTANCE(void load(Trainer<LOCKSTEP_REAL>&, const std::string&));
LOCKSTEP_INSTANCE(void save_weights(const Trainer<LOCKSTEP_REAL>&, const std::string&));
LOCKSTEP_INSTANCE(void load_weights(Trainer<LOCKSTEP_REAL>&, const std::string&));
LOCKSTEP_INSTANCE(LoadedWeights load_weights(Trainer<LOCKSTEP_REAL>&, const std::string&,
                                             const LoadWeightsOptions&));
LOCKSTEP_INSTANCE(void restore(Trainer<LOCKSTEP_REAL>&, const TrainingState&));
LOCKSTEP_INSTANCE(std::vector<std::byte> state_to_keep(const Trainer<LOCKSTEP_REAL>&, const char*));
LOCKSTEP_INSTANCE(void put_back_state(Trainer<LOCKSTEP_REAL>&, const char*,
                                      const std::vector<std::byte>&));
LOCKSTEP_INSTANCE(double chiefs_number(const Trainer<LOCKSTEP_REAL>&, const char*, double));
}}}  // namespace lockstep::detail
