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

namespace lockstep::inline LOCKSTEP_ABI::detail {

[[noreturn, gnu::cold]] inline void csv_error(const std::string& name,
                                              std::initializer_list<TextPiece> problem) {
  throw DataError(concat({"CSV file ", name, concat(problem)}));
}

/// The number that a field is; nothing where it is none, or not finite.
[[nodiscard]] inline std::optional<double> finite_number(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::size_t end = text.find_last_not_of(" \t") + 1;
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, value);
  if (begin >= end || error != std::errc() || rest != text.data() + end || !std::isfinite(value))
    return std::nullopt;
  return value;
}

/// "a, b, c".
[[nodiscard]] inline std::string list_of_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Goes through the records of a text.
class CsvScanner {
 public:
  CsvScanner(std::string_view text, const std::string& name, char separator)
      : text_(text), name_(name), separator_(separator) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // byte order mark of UTF-8
  }

  /// Where the record began in the text.
  [[nodiscard]] std::size_t begin() const noexcept { return begin_; }

  /// The line that the record began with, from 1.
  [[nodiscard]] std::uint64_t line() const noexcept { return begin_line_; }

  /// False at the end. Leaves out empty lines.
  bool next(std::vector<std::string>& record) {
    record.clear();
    while (at_line_end()) skip_line_end();
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
    for (; at_ < text_.size() && text_[at_] != separator_ && !at_line_end(); ++at_)
      if (text_[at_] == '"')
        csv_error(name_,
                  {", line ", line_,
                   ": a quote in the middle of a field: put the field in quotes, and \"\" for "
                   "each quote in it"});
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
      field += text_[at_];
    }
    ++at_;
    if (at_ < text_.size() && text_[at_] != separator_ && !at_line_end())
      csv_error(name_, {", line ", line_,
                        ": expected a separator or the line's end behind a quoted field, got '",
                        text_.substr(at_, 1), "'"});
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
