#pragma once

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/onnx/export_onnx.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void check_names(const ExportOnnxOptions& options) {
  if (options.input.empty() || options.output.empty() || options.input == options.output)
    throw ConfigurationError("export_onnx: input and output need two different names");
}

LOCKSTEP_INLINE void write_onnx(const std::string& path, OnnxGraph& graph,
                                const ExportOnnxOptions& options,
                                std::span<const std::size_t> output_shape) {
  const std::string bytes =
      graph.serialize(options.output, output_shape,
                      concat({version_major, ".", version_minor, ".", version_patch}));
  write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
