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

LOCKSTEP_INLINE void compare_descriptions(std::string_view what, std::string_view padded, std::size_t width,
                                          std::span<const std::uint64_t> lengths) {
  const std::string_view chiefs = padded.substr(0, lengths[0]);
  for (std::size_t rank = 1; rank < lengths.size(); ++rank) {
    std::string_view expected = chiefs;
    std::string_view got = padded.substr(rank * width, lengths[rank]);
    while (!expected.empty() || !got.empty()) {
      const std::string_view expected_line = take_line(expected);
      const std::string_view got_line = take_line(got);
      if (expected_line != got_line)
        throw ConfigurationError(concat({what, ": the workers differ: rank ", rank, " has '", got_line,
                                         "', the chief has '", expected_line,
                                         "': start the same program with the same options on every worker"}));
    }
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
