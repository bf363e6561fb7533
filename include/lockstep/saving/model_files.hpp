// Models in files: what Model's save, load, save_weights and load_weights do, and load_model. The
// chief reads files, and all workers receive them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/checkpoint/state_share.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/concepts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A file as the chief has it, or why it cannot be read.
struct FileContents {
  bool readable = true;
  std::vector<std::byte> bytes;  ///< or the message
};

/// Reads a file on the chief. A message begins with `call` and the path.
[[nodiscard]] FileContents read_contents(std::string_view call, const std::string& path,
                                         const HeadCheck& check, std::string_view none);

/// The message of an error that keeps the chief from reading.
[[nodiscard]] FileContents unreadable(const Error& error);

/// The call in which the workers exchange a file, and its arguments: "load", "'model.lockstep'".
struct FileCall {
  const char* name;  ///< must live as long as the program
  std::string arguments;
};

/// The chief's contents, on every worker. Throws DataError on every worker when the chief could not
/// read them, and ConfigurationError when the workers are not all in this call.
std::vector<std::byte> contents_from_chief(AnyStrategy& strategy, const FileCall& call,
                                           FileContents file);

/// The chief's file, on every worker; with parameter servers, each process reads its own. `check`:
/// see read_file. `call` names the call, and lives as long as the program.
std::vector<std::byte> file_from_chief(AnyStrategy& strategy, const char* call,
                                       const std::string& path, const HeadCheck& check);

/// Calls f. An error's message gets `what` and the path in front, and keeps its type.
void naming_file(std::string_view what, const std::string& path, FunctionRef<void()> f);

/// A variable that a file of weights must have.
struct WantedArray {
  std::string name;
  std::span<const std::size_t> shape;
  std::string place = {};  ///< what it is called in Keras's files: "dense/0"
  std::string copy = {};   ///< where they have it once more, which is not read; empty: nowhere
};

/// What load_weights puts into a model.
struct TransferredArrays {
  std::vector<std::optional<SavedArray>> arrays;  ///< for each variable; none: it keeps its value
  LoadedWeights report;
};

/// Finds the arrays of `wanted` in a file, by their names and as `options` say, and converts them
/// to this library's layout and `scalar`. Throws ConfigurationError naming the first variable that
/// is missing or of another shape, the first array that the model lacks, and a rename that fits no
/// array; and when no variable is found at all. Throws DataError when an array's bytes do not fit
/// its shape.
[[nodiscard]] TransferredArrays transfer_arrays(std::vector<SavedArray> found,
                                                std::span<const WantedArray> wanted,
                                                std::string_view scalar,
                                                const LoadWeightsOptions& options);

/// One line for the log; empty when every variable was loaded and every array used.
[[nodiscard]] std::string report_text(const LoadedWeights& report);

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// The arrays of a file in the order of `wanted`, as `scalar`. Throws ConfigurationError naming the
/// first that is missing, unknown or of another shape.
[[nodiscard]] std::vector<SavedArray> match_arrays(std::vector<SavedArray> found,
                                                   std::span<const WantedArray> wanted,
                                                   std::string_view scalar);

/// What the members of Model with these names do.
template <class T>
void save(const Trainer<T>& trainer, const std::string& path);
template <class T>
void save(const Trainer<T>& trainer, const std::string& path, const SaveOptions& options);
/// The same with .sharded: `share` makes what this worker writes.
template <class T>
void save_shares(const Trainer<T>& trainer, const std::string& path,
                 FunctionRef<StateShare()> share);
template <class T>
void load(Trainer<T>& trainer, const std::string& path);
/// Calls f, on every worker, with the state in a file or in shards, as it needs it. An error's
/// message gets `call` and the path in front; `call` lives as long as the program.
template <class T>
void restore_file(Trainer<T>& trainer, const char* call, const std::string& path,
                  FunctionRef<void(const TrainingState&)> f);
/// The state in the bytes of a file, or in the shares that these refer to, which all workers read.
template <class T>
TrainingState decode_state(Trainer<T>& trainer, std::span<const std::byte> bytes);
template <class T>
void save_weights(const Trainer<T>& trainer, const std::string& path);
template <class T>
void load_weights(Trainer<T>& trainer, const std::string& path);
template <class T>
LoadedWeights load_weights(Trainer<T>& trainer, const std::string& path,
                           const LoadWeightsOptions& options);
/// Throws ConfigurationError for a file that cannot be restored now, or into this program.
template <class T>
void restore(Trainer<T>& trainer, const TrainingState& saved);

// For what trains a model and puts it back as it was; all workers call them.
/// The whole state, on the chief.
template <class T>
std::vector<std::byte> state_to_keep(const Trainer<T>& trainer, const char* call);
/// Restores what the chief has kept. `call` names the call, and lives as long as the program.
template <class T>
void put_back_state(Trainer<T>& trainer, const char* call, const std::vector<std::byte>& kept);
/// Returns the chief's number on all workers.
template <class T>
double chiefs_number(const Trainer<T>& trainer, const char* call, double number);

template <class Model>
struct ModelFiles {
  static auto& trainer(const Model& model) { return *model.trainer_; }
  static const auto& optimizer(const Model& model) { return model.compiled_.optimizer(); }

  static void save(const Model& model, const std::string& path) {
    detail::save(*model.trainer_, path);
  }
  static void save(const Model& model, const std::string& path, const SaveOptions& options) {
    detail::save(*model.trainer_, path, options);
  }
  static void load(Model& model, const std::string& path) { detail::load(*model.trainer_, path); }
  static void save_weights(const Model& model, const std::string& path) {
    detail::save_weights(*model.trainer_, path);
  }
  static void load_weights(Model& model, const std::string& path) {
    detail::load_weights(*model.trainer_, path);
  }
  static LoadedWeights load_weights(Model& model, const std::string& path,
                                    const LoadWeightsOptions& options) {
    return detail::load_weights(*model.trainer_, path, options);
  }
};

}  // namespace detail

/// compile, and then model.load(path): training goes on where the program that saved it was. On one
/// device without a strategy: `load_model<Net>(path, loss, optimizer, metrics...)`.
/// @code
/// auto model = lockstep::load_model<Cnn>(strategy, "cnn.lockstep", loss, lockstep::Adam{},
///                                        lockstep::Accuracy{});
/// @endcode
/// Use: `load_model<Net>(strategy, "net.lockstep", MeanSquaredError{}, Adam{})`.
template <class Net, class T = float, Strategy S, class LossType, class OptimizerType,
          class... Metrics>
auto load_model(S& strategy, const std::string& path, LossType loss, OptimizerType optimizer,
                Metrics... metrics) {
  return detail::compile_and<Net, T, S>(
      strategy, {}, [&](auto& model) { model.load(path); }, std::move(loss), std::move(optimizer),
      std::move(metrics)...);
}
/// On one device, without a strategy.
template <class Net, class T = float, class LossType, class OptimizerType, class... Metrics>
auto load_model(const std::string& path, LossType loss, OptimizerType optimizer,
                Metrics... metrics) {
  return detail::compile_and<Net, T, OneDeviceStrategy>(
      detail::own_strategy(), {}, [&](auto& model) { model.load(path); }, std::move(loss),
      std::move(optimizer), std::move(metrics)...);
}

/// TensorFlow's rule: the chief writes to `path`, worker i to `workertemp_i/` in the same folder.
/// Lockstep's functions need no such copies (the chief alone writes); this is for files that the
/// program itself writes.
/// Use: `write_filepath("run/table.csv", strategy)`.
template <Strategy S>
[[nodiscard]] std::string write_filepath(const std::string& path, const S& strategy) {
  if (strategy.is_chief()) return path;
  const std::size_t name = path.rfind('/') + 1;  // 0 without a folder
  return concat(
      {path.substr(0, name), "workertemp_", strategy.worker_index(), "/", path.substr(name)});
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/saving/model_files.ipp"
#endif
