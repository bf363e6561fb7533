// Models in files: what Model's save, load, save_weights and load_weights do, and load_model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/training/agreement.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// A variable that a file of weights must have.
struct WantedArray {
  std::string name;
  std::span<const std::size_t> shape;
};

/// The arrays of a file in the order of `wanted`, as `scalar`. Throws ConfigurationError naming the first that is missing, unknown or of
/// another shape.
[[nodiscard]] std::vector<SavedArray> match_arrays(std::vector<SavedArray> found, std::span<const WantedArray> wanted,
                                                   std::string_view scalar);

/// A file as the chief has it, or why it cannot be read.
struct FileContents {
  bool readable = true;
  std::vector<std::byte> bytes;  ///< or the message
};
[[nodiscard]] FileContents read_contents(std::string_view what, const std::string& path, const HeadCheck& check);

/// Why an error keeps the chief from reading.
[[nodiscard]] FileContents unreadable(const Error& error);

/// The call in which the workers exchange a file: "load", "'model.lockstep'".
struct FileCall {
  const char* name;  ///< must live as long as the program
  std::string arguments;
};

/// The chief's contents, on every worker. Throws DataError on every worker when the chief could not
/// read them, and ConfigurationError when the workers are not all in this call.
template <Strategy S>
std::vector<std::byte> contents_from_chief(S& strategy, const FileCall& call, FileContents file) {
  strategy.run([&](auto& replica) {
    const bool leader = replica.local_rank() == 0;
    auto& collective = replica.collective();
    const ActivityScope activity(leader ? activity_board(collective) : nullptr, {.call = call.name});
    agree(collective, call.name, {}, call.arguments);
    const bool readable = from_chief(collective, leader && file.readable);
    auto bytes = bytes_from_chief(collective, leader ? std::move(file.bytes) : std::vector<std::byte>{});
    if (leader) file = {readable, std::move(bytes)};
  });
  if (!file.readable) throw DataError(std::string(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()));
  return std::move(file.bytes);
}

/// The chief's file, on every worker; `check` is that of read_file. `call` names the call, and
/// lives as long as the program.
template <Strategy S>
std::vector<std::byte> file_from_chief(S& strategy, const char* call, const std::string& path, const HeadCheck& check) {
  return contents_from_chief(strategy, {call, "'" + path + "'"},
                             strategy.is_chief() ? read_contents(call, path, check) : FileContents{});
}

/// Calls f. An error's message gets `what` and the path in front, and keeps its type.
template <class F>
void naming_file(std::string_view what, const std::string& path, F&& f) {
  const auto message = [&](const Error& error) { return concat({what, " '", path, "': ", error.what()}); };
  try {
    f();
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(message(error));
  } catch (const DataError& error) {
    throw DataError(message(error));
  }
}

template <class Model>
struct ModelFiles {
  static auto& strategy(Model& model) { return model.strategy_; }
  static TrainingState state(const Model& model) { return model.save_state(); }
  /// Bytes of all arrays of the model's training state.
  static std::uint64_t state_bytes(const Model& model) { return model.state_bytes(); }
  static void restore(Model& model, const TrainingState& saved) {
    if (model.is_in_fit_)
      throw ConfigurationError(
          "the model is in fit, whose state cannot be replaced: in a callback, use load_weights, which takes the "
          "variables alone");
    if (saved.signature.empty())
      throw ConfigurationError("the file has weights alone, and no state of an optimizer: use load_weights");
    model.restore_state(saved);
  }

  static void save(const Model& model, const std::string& path) {
    refuse_weights_format("save", path);
    if (!model.strategy_.is_chief()) return;
    const TrainingState saved = state(model);
    write_file_atomically(path, EncodedCheckpoint(saved).parts());
  }

  static void load(Model& model, const std::string& path) {
    const std::vector<std::byte> bytes =
        file_from_chief(model.strategy_, "load", path, checkpoint_check(state_bytes(model)));
    naming_file("load", path, [&] { restore(model, decode_checkpoint(bytes)); });
  }

  static void save_weights(const Model& model, const std::string& path) {
    if (!model.strategy_.is_chief()) return;
    std::vector<SavedArray> arrays;
    for (const auto& array : model.all_variables(*model.replicas_[0])) {
      const auto bytes = std::as_bytes(array.values);
      const auto shape = array.variable->shape();
      arrays.push_back({.name = array.name,
                        .scalar = scalar_name<typename Model::Compiled::Scalar>(),
                        .extents = {shape.begin(), shape.end()},
                        .bytes = {bytes.begin(), bytes.end()}});
    }
    write_file_atomically(path, encode_weights(path, std::move(arrays)));
  }

  static void load_weights(Model& model, const std::string& path) {
    const std::uint64_t expected = state_bytes(model);
    const std::vector<std::byte> bytes =
        file_from_chief(model.strategy_, "load_weights", path, weights_check(path, expected));
    naming_file("load_weights", path, [&] {
      std::vector<WantedArray> wanted;
      for (const auto& array : model.all_variables(*model.replicas_[0]))
        wanted.push_back({array.name, array.variable->shape()});
      const auto arrays =
          match_arrays(decode_weights(path, bytes, expected), wanted, scalar_name<typename Model::Compiled::Scalar>());
      for (const auto& own : model.replicas_) {
        const auto variables = model.all_variables(*own);
        for (std::size_t i = 0; i < arrays.size(); ++i)
          std::copy(arrays[i].bytes.begin(), arrays[i].bytes.end(),
                    std::as_writable_bytes(variables[i].values).begin());
      }
    });
  }
};

}  // namespace detail

/// compile, and then model.load(path): training goes on where the program that saved it was.
/// @code
/// auto model = lockstep::load_model<Cnn>(strategy, "cnn.lockstep", loss, lockstep::Adam{}, lockstep::Accuracy{});
/// @endcode
template <class Net, class T = float, Strategy S, class LossType, class OptimizerType, class... Metrics>
auto load_model(S& strategy, const std::string& path, LossType loss, OptimizerType optimizer, Metrics... metrics) {
  return detail::compile_and<Net, T>(
      strategy, CompileOptions{}, [&](auto& model) { model.load(path); }, std::move(loss), std::move(optimizer),
      std::move(metrics)...);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/saving/model_files.ipp"
#endif
