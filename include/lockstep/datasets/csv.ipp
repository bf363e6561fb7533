#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/csv.hpp"
#include "lockstep/datasets/detail/csv_scanner.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
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
