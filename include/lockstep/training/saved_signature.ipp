#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/saved_signature.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The line of the optimizer in a signature, "optimizer: SGD(learning_rate=0.1, momentum=0)", with
/// its options apart.
class OptimizerLine {
 public:
  explicit OptimizerLine(std::string_view signature) {
    const std::size_t found = signature.find("\noptimizer: ");
    before_ = signature.substr(0, found);
    if (found == std::string_view::npos) return;
    const std::size_t end = std::min(signature.find('\n', found + 1), signature.size());
    after_ = signature.substr(end);
    std::string_view line = signature.substr(found, end - found);
    const std::size_t inside = std::min(line.find('('), line.size());
    head_ = line.substr(0, inside);
    line.remove_prefix(std::min(inside + 1, line.size()));
    if (!line.empty() && line.back() == ')') line.remove_suffix(1);
    // An option may have brackets, and commas in them.
    int depth = 0;
    for (std::size_t i = 0, begin = 0; i <= line.size(); ++i) {
      const char c = i < line.size() ? line[i] : ',';
      depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
      if (i < line.size() && (c != ',' || depth > 0)) continue;
      if (i > begin) options_.emplace_back(line.substr(begin, i - begin));
      begin = std::min(line.find_first_not_of(' ', i + 1), line.size());
    }
  }

  /// Empty where there is no such option.
  [[nodiscard]] std::string value(std::string_view name) const {
    for (const std::string& option : options_)
      if (name_of(option) == name) return option.substr(name.size() + 1);
    return {};
  }
  void mask(std::string_view name) {
    for (std::string& option : options_)
      if (name_of(option) == name) option = concat({name, "=..."});
  }
  /// Leaves of the options what cannot be changed in the middle of a training.
  void leave_fixed() {
    const auto has = [](std::string_view name, std::string_view text) {
      return name.find(text) != std::string_view::npos;
    };
    std::erase_if(options_, [&](const std::string& option) {
      const std::string_view name = name_of(option);
      return name == "momentum_form" || has(name, "clip") || has(name, "weight_decay") ||
             has(name, "learning_rate_factor");
    });
    for (std::string& option : options_) {
      const std::string name(name_of(option)), text = value(name);
      if (!text.empty() && text.find_first_not_of("0123456789.e+-") == std::string::npos &&
          name != "gradient_accumulation_steps")
        mask(name);
    }
  }

  [[nodiscard]] std::string line() const {
    std::string text(head_);
    for (const std::string& option : options_)
      text += concat({&option == options_.data() ? "(" : ", ", option});
    return options_.empty() ? text : text + ")";
  }
  [[nodiscard]] std::string signature() const { return concat({before_, line(), after_}); }

 private:
  static std::string_view name_of(std::string_view option) {
    return option.substr(0, option.find('='));
  }

  std::string_view before_, head_{}, after_{};
  std::vector<std::string> options_{};
};

LOCKSTEP_INLINE SignatureDifferences check_signature(std::string_view saved, std::string_view mine,
                                                     const RestoreRules& rules) {
  SignatureDifferences taken;
  OptimizerLine of_state(saved), of_program(mine);
  constexpr std::string_view rate = "learning_rate";
  taken.in_learning_rate = of_state.value(rate) != of_program.value(rate);
  for (OptimizerLine* const line : {&of_state, &of_program}) line->mask(rate);
  const std::string theirs = of_state.line(), ours = of_program.line();
  if (rules.allow_changes && theirs != ours) {
    taken.in_options =
        concat({"'", theirs.substr(1), "', this program has '", ours.substr(1), "'"});
    for (OptimizerLine* const line : {&of_state, &of_program}) line->leave_fixed();
  }
  const std::string all_of_state = of_state.signature(), all_of_program = of_program.signature();
  if (const auto lines = first_difference(all_of_state, all_of_program))
    throw ConfigurationError(concat({"restore: the saved state has '", lines->first,
                                     "', this program has '", lines->second, "': ", rules.remedy}));
  return taken;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
