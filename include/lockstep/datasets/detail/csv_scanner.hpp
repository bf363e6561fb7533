// CsvScanner: the records of comma-separated values, one after the other.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

[[noreturn, gnu::cold]] inline void csv_error(const std::string& name,
                                              std::initializer_list<TextPiece> problem) {
  throw DataError(concat({"CSV file ", name, concat(problem)}));
}

[[nodiscard]] inline std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

/// Whether a decimal number that no double has is too small for one, and not too large.
[[nodiscard]] inline bool is_tiny_number(std::string_view text) {
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, e);
  std::int64_t exponent = 0;
  const bool has_minus = text.substr(e, 2).ends_with('-');
  if (e < text.size()) {
    std::string_view number = text.substr(e + 1);
    if (number.starts_with('+') || number.starts_with('-')) number.remove_prefix(1);
    constexpr std::int64_t most = std::int64_t{1} << 60;
    if (std::from_chars(number.data(), number.data() + number.size(), exponent).ec != std::errc())
      exponent = most;
    exponent = std::min(exponent, most) * (has_minus ? -1 : 1);
  }
  const auto first = static_cast<std::int64_t>(digits.find_first_of("123456789"));
  const auto point = static_cast<std::int64_t>(std::min(digits.find('.'), digits.size()));
  return exponent + point - first < 0;
}

/// The number that a field is, rounded to a double; nothing where it is none, or not finite.
[[nodiscard]] inline std::optional<double> finite_number(std::string_view text) {
  text = without_blanks(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || rest != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range && is_tiny_number(text))
    return text.starts_with('-') ? -0.0 : 0.0;
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// "a, b, c", not all of very many.
[[nodiscard]] inline std::string list_of_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 40;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += concat({i == 0 ? "" : ", ", printable(names[i])});
  if (names.size() > most) text += concat({" and ", names.size() - most, " more"});
  return text;
}

/// Goes through the records of a text.
class CsvScanner {
 public:
  CsvScanner(std::string_view text, const std::string& name, char separator)
      : text_(text), name_(name), separator_(separator) {}

  /// Where the record began in the text.
  [[nodiscard]] std::size_t begin() const noexcept { return begin_; }

  /// The line that the record began with, from 1.
  [[nodiscard]] std::uint64_t line() const noexcept { return begin_line_; }

  /// False at the end. Leaves out empty lines.
  bool next(std::vector<std::string>& record) {
    record.clear();
    skip_to_record();
    if (at_ == text_.size()) return false;
    begin_line_ = line_;
    begin_ = at_;
    for (;;) {
      record.push_back(text_[at_] == '"' ? quoted() : plain());
      if (at_ == text_.size() || at_line_end()) {
        skip_line_end();
        return true;
      }
      ++at_;  // the separator
      if (at_ == text_.size()) {
        record.emplace_back();
        return true;
      }
    }
  }

 private:
  static constexpr std::string_view mark = "\xEF\xBB\xBF";  ///< byte order mark of UTF-8

  /// Leaves out empty lines, and the marks with which joined files begin (cat a.csv b.csv).
  void skip_to_record() {
    for (;;)
      if (at_ < text_.size() && at_line_end())
        skip_line_end();
      else if (text_.substr(at_, mark.size()) == mark)
        at_ += mark.size();
      else
        return;
  }
  [[noreturn, gnu::cold]] void no_text(std::string_view what) const {
    csv_error(name_, {", line ", line_, ": ", what});
  }
  /// Refuses what text has not, in a field or in quotes.
  void check(char c) const {
    if (c == '\0')
      no_text("a byte 0: the file is no text, or one in UTF-16 or UTF-32; save it as UTF-8");
  }
  [[nodiscard]] bool at_line_end() const {
    return text_.substr(at_, 1) == "\n" || text_.substr(at_, 2) == "\r\n";
  }
  void skip_line_end() {
    if (at_ == text_.size()) return;
    at_ += text_[at_] == '\r' ? 2 : 1;
    ++line_;
  }

  std::string plain() {
    const std::size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] != separator_ && !at_line_end(); ++at_) {
      if (text_[at_] == '"')
        csv_error(name_,
                  {", line ", line_,
                   ": a quote in the middle of a field: put the field in quotes, and \"\" for "
                   "each quote in it"});
      check(text_[at_]);
      if (text_[at_] == mark[0] && text_.substr(at_, mark.size()) == mark)
        no_text(
            "a byte order mark within a line: a file begins there that was put behind one "
            "without a line end");
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string quoted() {
    std::string field;
    const std::uint64_t first = line_;
    for (++at_;; ++at_) {
      if (at_ == text_.size()) csv_error(name_, {", line ", first, ": a quote is never closed"});
      if (text_[at_] == '"') {
        if (text_.substr(at_ + 1, 1) != "\"") break;
        ++at_;
      }
      if (text_[at_] == '\n') ++line_;
      check(text_[at_]);
      field += text_[at_];
    }
    ++at_;
    if (at_ < text_.size() && text_[at_] != separator_ && !at_line_end())
      csv_error(name_, {", line ", line_,
                        ": expected a separator or the line's end behind a quoted field, got ",
                        in_quotes(text_.substr(at_, 1))});
    return field;
  }

  std::string_view text_;
  const std::string& name_;
  char separator_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;
  std::uint64_t line_ = 1;
  std::uint64_t begin_line_ = 1;
};

}}}  // namespace lockstep::detail
