// export_onnx: a model for onnxruntime.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/onnx/graph.hpp"
#include "lockstep/onnx/operators.hpp"
#include "lockstep/saving/model_files.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct ExportOnnxOptions {
  std::string input = "x";   ///< the name of the samples [batch x the model's Input]
  std::string output = "y";  ///< and of the outputs
};

namespace detail {

template <class Net, class T>
std::string onnx_model(const TrainerHandle<T>& trainer, const ExportOnnxOptions& options) {
  if (options.input.empty() || options.output.empty() || options.input == options.output)
    throw ConfigurationError("export_onnx: input and output need two different names");
  using In = typename Net::InputShape;
  const auto is_trained = Net::template variable_order<In>();
  std::vector<OnnxArray> trained, state;
  std::size_t i = 0;
  for (const NamedArray<T>& array : trainer.named_arrays(0)) {
    OnnxArray& copy = (is_trained[i++] ? trained : state).emplace_back();
    copy.name = array.name;
    copy.shape.assign(array.variable->shape().begin(), array.variable->shape().end());
    for (const T value : array.values) copy.values.push_back(static_cast<float>(value));
  }
  using Out = typename Net::template Output<In>;
  OnnxGraph graph(options.input, In::extents, std::move(trained), std::move(state));
  OnnxOperator<Net>::template write<In>(graph);
  graph.to_sequences(Out::extents);
  return graph.serialize(options.output, Out::extents,
                         concat({version_major, ".", version_minor, ".", version_patch}));
}

}  // namespace detail

/// Writes the model, as predict runs it, in the format of ONNX (IR 8, operators of set 17), with
/// float32 weights. Images stay height x width x channels; sequences are [positions x features],
/// and ids numbers with a point, as in this library. Masks are part of the graph. The chief alone
/// writes, whole or not at all. A layer without an operator is an error of the compiler: all of
/// this library have one (BatchNormalization for flat samples and images, GroupNormalization for at
/// most three dimensions). Throws Error naming the path, and ConfigurationError when the names are
/// empty or equal.
/// @code
/// lockstep::export_onnx(model, "cnn.onnx");
/// @endcode
template <class Net, class T, Strategy S, class LossType, class OptimizerType, class... Metrics>
void export_onnx(Model<Net, T, S, LossType, OptimizerType, Metrics...>& model,
                 const std::string& path, const ExportOnnxOptions& options = {}) {
  using Files = detail::ModelFiles<Model<Net, T, S, LossType, OptimizerType, Metrics...>>;
  const auto& trainer = Files::trainer(model);
  const std::string bytes = detail::onnx_model<Net>(trainer, options);
  if (trainer.strategy().is_chief()) write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

}  // namespace lockstep::inline LOCKSTEP_ABI
