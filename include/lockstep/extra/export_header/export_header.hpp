// export_header: a trained model as one header of plain C++17.
#pragma once

#include <span>
#include <string>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/export_header/code.hpp"
#include "lockstep/extra/export_header/layers.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/saving/exported_variables.hpp"
#include "lockstep/saving/model_files.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct ExportHeaderOptions {
  std::string name = "net";  ///< the namespace of what the header has, whatever the file is called
};

namespace detail {

/// Throws ConfigurationError unless a namespace may have this name.
inline void check_namespace(const std::string& name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  bool is_name = !name.empty() && is_letter(name.front());
  for (const char c : name) is_name = is_name && (is_letter(c) || (c >= '0' && c <= '9'));
  if (!is_name)
    throw ConfigurationError(
        concat({"export_header: .name must be a name of C++, got ", in_quotes(name)}));
}

}  // namespace detail

/// Writes the model, as predict runs it, as a header of C++17 that needs `<cmath>` and nothing
/// else, no heap and no threads: its weights as constants, and
///   namespace net { constexpr int inputs, outputs; void predict(const float* x, float* y); }
/// for one sample, row by row and channels last, as everywhere here. The first lines say the bytes
/// of the constants and of the arrays on the stack. Results are those of predict but for rounding;
/// BatchNormalization, Normalization and Rescaling behind a Dense or a convolution without an
/// activation are folded into its weights. For models as large as their compiler bears: the
/// constants are text.
///
/// Layers: Dense, Conv2D, Conv1D, DepthwiseConv2D, pools, BatchNormalization, LayerNormalization,
/// Normalization, Rescaling, Embedding, LSTM, GRU, SimpleRNN, Softmax, Slice, activations, what
/// changes nothing in inference, and Sequential, Residual, Parallel, Shared, Repeat and Frozen of
/// these; any other is a compile-time error. Inputs and Outputs with names stand side by
/// side, in their order. The chief alone writes, whole or not at all. Throws Error naming the path
/// or a weight that is no finite number, and ConfigurationError where .name cannot name a
/// namespace.
/// @code
/// lockstep::export_header(model, "digits.hpp", {.name = "digits"});  // digits::predict(x, y)
/// @endcode
/// Include <lockstep/extra/export_header.hpp>.
/// Use: `export_header(model, "digits.hpp", {.name = "digits"})`. Keras: none.
template <class Net, class T, Strategy S, class LossType, class OptimizerType, class... Metrics>
void export_header(Model<Net, T, S, LossType, OptimizerType, Metrics...>& model,
                   const std::string& path, const ExportHeaderOptions& options = {}) {
  using Files = detail::ModelFiles<Model<Net, T, S, LossType, OptimizerType, Metrics...>>;
  using In = typename Net::InputShape;
  using Out = typename Net::template Output<In>;
  detail::check_namespace(options.name);
  detail::HeaderCode code(detail::exported_variables(model), In::size);
  detail::HeaderLayer<Net>::template write<In>(code, 1);
  const std::string text =
      code.file(options.name, In::size, In::to_string(), Out::to_string(),
                concat({version_major, ".", version_minor, ".", version_patch}));
  if (detail::strategy_of(Files::trainer(model)).is_chief())
    write_file_atomically(path, std::as_bytes(std::span(text)));
}

}}  // namespace lockstep
