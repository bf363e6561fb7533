// Dense, activation functions, and what else is computed element by element in ONNX.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

void onnx_dense(OnnxGraph& graph, bool use_bias);
void onnx_softmax(OnnxGraph& graph);
/// x * scale + offset.
void onnx_rescale(OnnxGraph& graph, double scale, double offset);
void onnx_silu(OnnxGraph& graph);
void onnx_gelu(OnnxGraph& graph);
void onnx_gelu_tanh(OnnxGraph& graph);
void onnx_mish(OnnxGraph& graph);
void onnx_leaky_relu(OnnxGraph& graph, double slope);
void onnx_relu6(OnnxGraph& graph);
/// The products of each token with all rows of that table.
void onnx_tied_logits(OnnxGraph& graph, const std::string& table);

/// Layers beside each other, which are all given the value that there was before.
class OnnxBranches {
 public:
  explicit OnnxBranches(OnnxGraph& graph);
  OnnxBranches(const OnnxBranches&) = delete;
  OnnxBranches& operator=(const OnnxBranches&) = delete;
  ~OnnxBranches();

  // Before a branch is written, and behind it.
  void begin();
  void end();
  /// `op` over the outputs: Add, Mul, or Concat, which takes the last axis. A row counts where
  /// it does in one branch.
  void merge(std::string_view op, double factor);

 private:
  [[nodiscard]] std::string merged_mask();

  OnnxGraph& graph_;
  OnnxGraph::Value input_;
  std::string mask_;
  std::vector<std::string> masks_of_outputs_;
  std::vector<OnnxGraph::Value> outputs_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/onnx/detail/functions.ipp"
#endif
