// Slurm's lists: of nodes, and of tasks on each.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Reads Slurm's lists. Each function throws ConfigurationError with `variable` and its value.
class SlurmList {
 public:
  /// "n[1-2],m5,o[3-4,6,07-09]" as n1, n2, m5, o3, o4, o6, o07, o08, o09: zeros in front stay.
  /// Several brackets in one name multiply: "r[1-2]n[1-2]" is r1n1, r1n2, r2n1, r2n2.
  [[nodiscard, gnu::cold]] static std::vector<std::string> nodes(const char* variable,
                                                                 std::string_view text) {
    const SlurmList list(variable, text);
    std::vector<std::string> all;
    for (const std::string_view item : list.split(text)) {
      if (item.empty()) list.refuse("an entry is empty");
      for (std::string& name : list.expand(item)) all.push_back(std::move(name));
      if (all.size() > most) list.refuse("too many nodes");
    }
    return all;
  }

  /// "3(x2),2,1" as 3, 3, 2, 1.
  [[nodiscard, gnu::cold]] static std::vector<int> tasks(const char* variable,
                                                         std::string_view text) {
    const SlurmList list(variable, text);
    std::vector<int> all;
    for (std::string_view item : list.split(text)) {
      int times = 1;
      if (const auto bracket = item.find("(x"); bracket != std::string_view::npos) {
        if (!item.ends_with(')')) list.refuse("a bracket is not closed");
        times = list.number(item.substr(bracket + 2, item.size() - bracket - 3));
        item = item.substr(0, bracket);
      }
      const int count = list.number(item);
      if (static_cast<std::size_t>(times) + all.size() > most) list.refuse("too many nodes");
      all.insert(all.end(), static_cast<std::size_t>(times), count);
    }
    return all;
  }

 private:
  static constexpr std::size_t most = 65'536;

  SlurmList(const char* variable, std::string_view text) : variable_(variable), text_(text) {}

  [[noreturn]] void refuse(std::string_view why) const {
    throw ConfigurationError(concat({"the environment variable ", variable_, "='",
                                     printable(text_, 200), "' is no list of Slurm: ", why}));
  }

  [[nodiscard]] int number(std::string_view digits) const {
    if (digits.empty() || digits.size() > 7 ||
        digits.find_first_not_of("0123456789") != std::string_view::npos)
      refuse(concat({"expected a number, got '", printable(digits, 40), "'"}));
    int value = 0;
    for (const char c : digits) value = value * 10 + (c - '0');
    return value;
  }

  // At the commas that are in no brackets.
  [[nodiscard]] std::vector<std::string_view> split(std::string_view text) const {
    std::vector<std::string_view> items;
    std::size_t begin = 0;
    bool inside = false;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      const char c = i < text.size() ? text[i] : '\0';
      if (c == '[' || c == ']') {
        if (inside == (c == '[')) refuse("its brackets do not match");
        inside = !inside;
      }
      if ((c == ',' && !inside) || i == text.size()) {
        items.push_back(text.substr(begin, i - begin));
        begin = i + 1;
      }
    }
    if (inside) refuse("a bracket is not closed");
    return items;
  }

  [[nodiscard]] std::vector<std::string> expand(std::string_view item) const {
    const auto open = item.find('[');
    if (open == std::string_view::npos) return {std::string(item)};
    const auto close = item.find(']', open);
    std::vector<std::string> all;
    const std::vector<std::string> ends = expand(item.substr(close + 1));
    for (const std::string_view range : split(item.substr(open + 1, close - open - 1)))
      for (const std::string& digits : numbers(range))
        for (const std::string& end : ends) {
          if (all.size() == most) refuse("too many nodes");
          all.push_back(concat({item.substr(0, open), digits, end}));
        }
    return all;
  }

  // "07-09" as 07, 08, 09.
  [[nodiscard]] std::vector<std::string> numbers(std::string_view range) const {
    const auto dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const int begin = number(first);
    const int end = dash == std::string_view::npos ? begin : number(range.substr(dash + 1));
    if (end < begin) refuse(concat({"the range '", printable(range, 40), "' runs backwards"}));
    if (static_cast<std::size_t>(end - begin) >= most) refuse("too many nodes");
    std::vector<std::string> all;
    for (int value = begin; value <= end; ++value) {
      std::string digits = concat({value});
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      all.push_back(std::move(digits));
    }
    return all;
  }

  const char* variable_;
  std::string_view text_;
};

}}}  // namespace lockstep::detail
