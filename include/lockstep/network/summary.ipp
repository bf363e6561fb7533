#pragma once

#include <array>

#include "lockstep/network/summary.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

inline constexpr std::size_t summary_width = 65;

// keras.utils.layer_utils.print_row: each column ends with two spaces, and a text that does not fit
// goes on in the next line. The space in front of the first column is not counted, so that a full
// first column moves the second by one.
LOCKSTEP_INLINE std::string summary_row(std::array<std::string, 3> columns) {
  constexpr std::size_t ends[] = {29, 55, summary_width};
  std::string text;
  while (!columns[0].empty() || !columns[1].empty() || !columns[2].empty()) {
    std::string line = " ";
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t gap = i < 2 ? 2 : 0;
      const std::size_t room = ends[i] - (i > 0 ? ends[i - 1] : 0) - gap;
      line += columns[i].substr(0, room);
      line.append(gap, ' ');
      columns[i].erase(0, room);
      if (line.size() < ends[i]) line.append(ends[i] - line.size(), ' ');
    }
    text += line + '\n';
  }
  return text;
}

LOCKSTEP_INLINE std::string with_thousands_separators(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

}  // namespace detail

LOCKSTEP_INLINE std::string render_summary(std::string_view model_name,
                                           std::span<const SummaryRow> rows) {
  const auto rule = [](char character) {
    return std::string(detail::summary_width, character) + '\n';
  };
  std::string text = "Model: \"" + std::string(model_name) + "\"\n";
  text += rule('_') + detail::summary_row({"Layer (type)", "Output Shape", "Param #"}) + rule('=');
  std::size_t trainable = 0, non_trainable = 0;
  for (const SummaryRow& row : rows) {
    trainable += row.trainable_parameters;
    non_trainable += row.non_trainable_parameters;
    std::string shape = "(None";
    for (const std::size_t extent : row.output_extents) shape += ", " + std::to_string(extent);
    shape += row.output_extents.empty() ? ",)" : ")";
    text += detail::summary_row(
        {row.name + " (" + row.class_name + ")", shape,
         std::to_string(row.trainable_parameters + row.non_trainable_parameters)});
    text += rule(' ');
  }
  text += rule('=');
  text += "Total params: " + detail::with_thousands_separators(trainable + non_trainable) + '\n';
  text += "Trainable params: " + detail::with_thousands_separators(trainable) + '\n';
  text += "Non-trainable params: " + detail::with_thousands_separators(non_trainable) + '\n';
  return text + rule('_');
}

}  // namespace lockstep::inline LOCKSTEP_ABI
