#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/saving/detail/file_arrays.hpp"
#include "lockstep/saving/transfer.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

/// Puts a kernel of PyTorch into Keras's layout, where its shape allows it.
LOCKSTEP_INLINE void turn_kernel(Numbers& kernel, std::span<const std::size_t> wanted,
                                 const std::vector<std::size_t>& flattened) {
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

/// A variable of a recurrent layer that PyTorch calls `layer`; nothing when it is none.
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
  if (!file.is_pytorch())
    return found == nullptr ? std::nullopt : std::optional(convert_array(found->array, scalar));

  const std::string layer = wanted.name.substr(0, slash == std::string::npos ? 0 : slash);
  const char* const name = variable == "kernel" || variable == "embeddings" || variable == "gamma"
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
  if (!variable.ends_with("kernel")) return convert_array(found->array, scalar);
  Numbers kernel(found->array);
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
