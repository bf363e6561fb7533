#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/csv.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

[[noreturn]] LOCKSTEP_INLINE void csv_error(const std::string& name,
                                            std::initializer_list<TextPiece> problem) {
  throw DataError(concat({"CSV file ", name, concat(problem)}));
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

[[nodiscard]] LOCKSTEP_INLINE std::string list_of_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

[[nodiscard]] LOCKSTEP_INLINE std::optional<double> finite_number(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::size_t end = text.find_last_not_of(" \t") + 1;
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, value);
  if (begin >= end || error != std::errc() || rest != text.data() + end || !std::isfinite(value))
    return std::nullopt;
  return value;
}

}  // namespace detail

LOCKSTEP_INLINE Vocabulary::Vocabulary(std::vector<std::string> texts) : texts_(std::move(texts)) {
  std::erase(texts_, std::string());
  std::sort(texts_.begin(), texts_.end());
  texts_.erase(std::unique(texts_.begin(), texts_.end()), texts_.end());
}

LOCKSTEP_INLINE std::size_t Vocabulary::number(std::string_view text) const {
  const auto found = std::lower_bound(texts_.begin(), texts_.end(), text);
  return found != texts_.end() && *found == text
             ? static_cast<std::size_t>(found - texts_.begin()) + 1
             : 0;
}

LOCKSTEP_INLINE CsvTable::CsvTable(std::string_view text, std::string name, CsvOptions options)
    : name_(std::move(name)) {
  detail::CsvScanner scanner(text, name_, options.separator);
  std::vector<std::string> record;
  bool more = scanner.next(record);
  if (!more)
    detail::csv_error(name_,
                      {" is empty; expected ", options.header ? "a line of names" : "a record"});
  if (options.header) {
    columns_ = record;
    more = scanner.next(record);
  } else {
    for (std::size_t i = 0; i < record.size(); ++i) columns_.push_back(concat({i}));
  }
  fields_.resize(columns_.size());
  for (; more; more = scanner.next(record)) {
    if (record.size() != columns_.size())
      detail::csv_error(name_, {", line ", scanner.line(), ": expected ", columns_.size(),
                                " fields, got ", record.size()});
    for (std::size_t i = 0; i < record.size(); ++i) fields_[i].push_back(std::move(record[i]));
    lines_.push_back(scanner.line());
  }
}

LOCKSTEP_INLINE std::size_t CsvTable::find(std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end())
    detail::csv_error(
        name_, {": there is no column '", column, "', but: ", detail::list_of_names(columns_)});
  return static_cast<std::size_t>(found - columns_.begin());
}

LOCKSTEP_INLINE const std::vector<std::string>& CsvTable::texts(std::string_view column) const {
  return fields_[find(column)];
}

LOCKSTEP_INLINE std::vector<double> CsvTable::numbers(std::string_view column,
                                                      std::optional<double> missing) const {
  const std::vector<std::string>& fields = texts(column);
  std::vector<double> values;
  values.reserve(fields.size());
  for (std::size_t row = 0; row < fields.size(); ++row) {
    const std::string& field = fields[row];
    const bool is_missing = field.find_first_not_of(" \t") == std::string::npos;
    const std::optional<double> value = is_missing ? missing : detail::finite_number(field);
    if (!value)
      detail::csv_error(name_,
                        {", line ", lines_[row], ", column '", column, "': expected a number, got ",
                         is_missing ? "nothing; say which number stands for a missing one"
                                    : concat({"'", field, "'"})});
    values.push_back(*value);
  }
  return values;
}

LOCKSTEP_INLINE std::vector<double> CsvTable::categories(std::string_view column,
                                                         const Vocabulary& vocabulary) const {
  std::vector<double> values;
  for (const std::string& text : texts(column))
    values.push_back(static_cast<double>(vocabulary.number(text)));
  return values;
}

LOCKSTEP_INLINE CsvTable read_csv(const std::string& path, CsvOptions options) {
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (!file) detail::csv_error(path, {" cannot be opened: ", std::strerror(errno)});
  std::string text;
  std::array<char, 1 << 16> part;
  for (std::size_t got = part.size(); got == part.size();) {
    got = std::fread(part.data(), 1, part.size(), file.get());
    text.append(part.data(), got);
  }
  if (std::ferror(file.get()) != 0)
    detail::csv_error(path, {" cannot be read: ", std::strerror(errno)});
  return CsvTable(text, path, options);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
