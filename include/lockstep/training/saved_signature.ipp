#pragma once

#include <algorithm>
#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/saved_signature.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Puts "..." in place of the learning rate in "optimizer: SGD(learning_rate=0.1, momentum=0)". A
/// schedule has options in parentheses.
inline std::string without_learning_rate(std::string_view signature) {
  constexpr std::string_view option = "learning_rate=";
  std::string text(signature);
  const std::size_t optimizer = text.find("\noptimizer: ");
  if (optimizer == std::string::npos) return text;
  const std::size_t line_end = std::min(text.find('\n', optimizer + 1), text.size());
  std::size_t found = text.find(option, optimizer);
  while (found < line_end && text[found - 1] != '(' && text[found - 1] != ' ') found = text.find(option, found + 1);
  if (found >= line_end) return text;
  const std::size_t begin = found + option.size();
  std::size_t end = begin;
  for (int depth = 0; end < line_end && (depth > 0 || (text[end] != ',' && text[end] != ')')); ++end)
    depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
  return text.replace(begin, end - begin, "...");
}

LOCKSTEP_INLINE void check_signature(std::string_view saved, std::string_view mine) {
  const std::string of_state = without_learning_rate(saved), of_program = without_learning_rate(mine);
  if (const auto lines = first_difference(of_state, of_program))
    throw ConfigurationError(concat({"restore: the saved state has '", lines->first, "', this program has '",
                                     lines->second, "': resume with the same program, or start afresh"}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
