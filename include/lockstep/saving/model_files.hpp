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
#include "lockstep/checkpoint/snapshot_file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/saving/chief_file.hpp"
#include "lockstep/strategies/concepts.hpp"

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

template <class Model>
struct ModelFiles {
  static auto& strategy(Model& model) { return model.strategy_; }
  static TrainingState state(const Model& model) { return model.trainer_.save_state(); }
  /// Bytes of all arrays of the model's training state.
  static std::uint64_t state_bytes(const Model& model) { return model.trainer_.state_bytes(); }
  static void restore(Model& model, const TrainingState& saved) {
    if (model.trainer_.is_in_fit())
      throw ConfigurationError(
          "the model is in fit, whose state cannot be replaced: in a callback, use load_weights, which takes the "
          "variables alone");
    if (saved.signature.empty())
      throw ConfigurationError("the file has weights alone, and no state of an optimizer: use load_weights");
    model.trainer_.restore_state(saved);
  }

  static void save(const Model& model, const std::string& path) {
    refuse_weights_format("save", path);
    if (!model.strategy_.is_chief()) return;
    save_snapshot(path, state(model));
  }

  static void load(Model& model, const std::string& path) {
    const std::vector<std::byte> bytes =
        file_from_chief(model.strategy_, "load", path, checkpoint_check(state_bytes(model)));
    naming_file("load", path, [&] { restore(model, decode_checkpoint(bytes)); });
  }

  static void save_weights(const Model& model, const std::string& path) {
    if (!model.strategy_.is_chief()) return;
    std::vector<SavedArray> arrays;
    for (const auto& array : model.trainer_.named_arrays(0)) {
      const auto bytes = std::as_bytes(array.values);
      const auto shape = array.variable->shape();
      arrays.push_back({.name = array.name,
                        .scalar = scalar_name<typename Model::Compiled::Scalar>(),
                        .extents = {shape.begin(), shape.end()},
                        .bytes = {bytes.begin(), bytes.end()}});
    }
    save_weights_file(path, std::move(arrays));
  }

  static void load_weights(Model& model, const std::string& path) {
    const std::uint64_t expected = state_bytes(model);
    const std::vector<std::byte> bytes =
        file_from_chief(model.strategy_, "load_weights", path, weights_check(path, expected));
    naming_file("load_weights", path, [&] {
      std::vector<WantedArray> wanted;
      for (const auto& array : model.trainer_.named_arrays(0))
        wanted.push_back({array.name, array.variable->shape()});
      const auto arrays =
          match_arrays(decode_weights(path, bytes, expected), wanted, scalar_name<typename Model::Compiled::Scalar>());
      for (std::size_t replica = 0; replica < model.trainer_.replicas(); ++replica) {
        const auto variables = model.trainer_.named_arrays(replica);
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
