// export_onnx: a model for onnxruntime.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/onnx/detail/container_operators.hpp"
#include "lockstep/extra/onnx/detail/layer_operators.hpp"
#include "lockstep/extra/onnx/graph.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/saving/exported_variables.hpp"
#include "lockstep/saving/model_files.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct ExportOnnxOptions {
  std::string input = "x";   ///< the name of the samples [batch x the model's Input]
  std::string output = "y";  ///< the name of the outputs
  // (Those of Inputs and Outputs have names.)
  /// Kernels of Dense and of attention's projections, of 32 inputs at least, and tables of
  /// Embedding, of that width, as 8 bits with a scale for each unit or row (DequantizeLinear): a
  /// quarter of the file. See Int8Weights.
  bool int8_weights = false;
};

namespace detail {

/// Throws ConfigurationError unless there are two different names.
void check_names(const ExportOnnxOptions& options);

/// Writes the graph as a file.
void write_onnx(const std::string& path, OnnxGraph& graph);

}  // namespace detail

/// Writes the model, as predict runs it, in the format of ONNX (IR 8, operators of set 17), with
/// float32 weights. Images stay height x width x channels; sequences are [positions x features],
/// and ids numbers with a point, as in this library. Inputs and Outputs of the model are those of
/// the graph, by their names. Masks are part of the graph. The chief alone writes, whole or not at
/// all. A layer without an operator is an error of the compiler: all of this library have one
/// (BatchNormalization for flat samples and images, GroupNormalization for at most three
/// dimensions) but ConvLSTM2D, as ONNX has no such operator, and LoRA (export the model without it
/// that has its merged_weights). Throws Error naming the path, and ConfigurationError when the
/// names are empty or equal, or names of the graph.
/// @code
/// lockstep::export_onnx(model, "cnn.onnx");
/// @endcode
/// Include <lockstep/extra/onnx.hpp>.
/// Use: `export_onnx(model, "cnn.onnx")`. Keras: `model.export(path, format="onnx")`.
template <class Net, class T, Strategy S, class LossType, class OptimizerType, class... Metrics>
void export_onnx(Model<Net, T, S, LossType, OptimizerType, Metrics...>& model,
                 const std::string& path, const ExportOnnxOptions& options = {}) {
  using Files = detail::ModelFiles<Model<Net, T, S, LossType, OptimizerType, Metrics...>>;
  const auto& trainer = Files::trainer(model);
  detail::check_names(options);
  using In = typename Net::InputShape;
  detail::OnnxGraph graph(detail::exported_variables(model));
  if (options.int8_weights) graph.round_weights();
  detail::OnnxModel<Net>::template write<In>(graph, options.input, options.output);
  if (detail::strategy_of(trainer).is_chief()) detail::write_onnx(path, graph);
}

namespace detail {

inline void check_names(const ExportOnnxOptions& options) {
  if (options.input.empty() || options.output.empty() || options.input == options.output)
    throw ConfigurationError("export_onnx: input and output need two different names");
}

inline void write_onnx(const std::string& path, OnnxGraph& graph) {
  const std::string bytes =
      graph.serialize(concat({version_major, ".", version_minor, ".", version_patch}));
  write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

}  // namespace detail

}}  // namespace lockstep
