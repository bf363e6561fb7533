#pragma once

#include "lockstep/model/agreement.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Takes the first line off a text.
inline std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

LOCKSTEP_INLINE std::optional<std::pair<std::string_view, std::string_view>> first_difference(std::string_view a,
                                                                                              std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const std::string_view line_of_a = take_line(a);
    const std::string_view line_of_b = take_line(b);
    if (line_of_a != line_of_b) return std::pair(line_of_a, line_of_b);
  }
  return std::nullopt;
}

LOCKSTEP_INLINE void compare_descriptions(std::string_view what, std::string_view padded, std::size_t width,
                                          std::span<const std::uint64_t> lengths) {
  const std::string_view chiefs = padded.substr(0, lengths[0]);
  for (std::size_t rank = 1; rank < lengths.size(); ++rank) {
    if (const auto lines = first_difference(padded.substr(rank * width, lengths[rank]), chiefs))
      throw ConfigurationError(
          concat({what, ": the workers differ: rank ", rank, " has '", lines->first, "', the chief has '",
                  lines->second, "': start the same program with the same options and data on every worker"}));
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
