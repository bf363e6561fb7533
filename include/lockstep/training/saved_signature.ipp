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
  while (found < line_end && text[found - 1] != '(' && text[found - 1] != ' ')
    found = text.find(option, found + 1);
  if (found >= line_end) return text;
  const std::size_t begin = found + option.size();
  std::size_t end = begin;
  for (int depth = 0; end < line_end && (depth > 0 || (text[end] != ',' && text[end] != ')'));
       ++end)
    depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
  return text.replace(begin, end - begin, "...");
}

/// `mine`, where a metric ("metric: auc = auc(curve=pr)") stands without its options if it does so
/// in the saved text: files have them only since metrics tell them, and only where they are
/// changed.
inline std::string with_metrics_as_in(std::string_view saved, std::string_view mine) {
  std::string text;
  while (!mine.empty()) {
    const auto take = [](std::string_view& from) {
      const std::string_view line = from.substr(0, from.find('\n'));
      from.remove_prefix(std::min(line.size() + 1, from.size()));
      return line;
    };
    const std::string_view line = take(mine), other = take(saved);
    const bool is_told_there =
        line.find(" = ") != std::string_view::npos && other.find(" = ") == std::string_view::npos;
    const bool is_metric = line.substr(0, 8) == "metric: ";
    text.append(is_metric && is_told_there ? line.substr(0, line.find(" = ")) : line).append("\n");
  }
  if (!text.empty()) text.pop_back();
  return text;
}

LOCKSTEP_INLINE void check_signature(std::string_view saved, std::string_view mine) {
  const std::string of_state = without_learning_rate(saved);
  const std::string of_program = without_learning_rate(with_metrics_as_in(saved, mine));
  if (const auto lines = first_difference(of_state, of_program))
    throw ConfigurationError(
        concat({"restore: the saved state has '", lines->first, "', this program has '",
                lines->second, "': resume with the same program, or start afresh"}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
