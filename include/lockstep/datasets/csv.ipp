#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/csv.hpp"
#include "lockstep/datasets/detail/csv_scanner.hpp"
#include "lockstep/datasets/mapped_file.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
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

namespace detail {

LOCKSTEP_INLINE void CsvHeader::check_text(std::string_view text) const {
  if (std::string_view("\"\r\n\0", 4).find(options.separator) != std::string_view::npos)
    throw ConfigurationError(concat(
        {"CSV file ", name,
         ": CsvOptions::separator is a quote, a line end or a NUL: take ',', ';' or a tab"}));
  const std::string format = text.empty() ? std::string() : known_format(text);
  if (!format.empty()) csv_error(name, {" is no table in text: it is ", format});
}

LOCKSTEP_INLINE void CsvHeader::begin(const std::vector<std::string>& record, std::uint64_t line) {
  if (record.empty())
    csv_error(name, {" is empty; expected ", options.header ? "a line of names" : "a record"});
  if (record.size() == 1)
    for (const char other : {';', '\t', ',', '|'})
      if (hint.empty() && other != options.separator && record[0].find(other) != std::string::npos)
        hint = concat({"; the separator seems to be ",
                       other == '\t' ? "a tab" : concat({in_quotes(std::string_view(&other, 1))}),
                       ", see CsvOptions::separator"});
  std::map<std::string_view, std::size_t> places;
  columns.reserve(record.size());
  for (std::size_t i = 0; i < record.size(); ++i) {
    columns.push_back(options.header ? std::string(without_blanks(record[i])) : concat({i}));
    if (columns[i].empty()) continue;
    const auto [place, is_new] = places.emplace(columns[i], i);
    if (!is_new)
      csv_error(name, {", line ", line, ": columns ", place->second + 1, " and ", i + 1,
                       " are both named ", in_quotes(columns[i]), ": give each a different name"});
  }
}

LOCKSTEP_INLINE void CsvHeader::check(const std::vector<std::string>& record,
                                      std::uint64_t line) const {
  if (record.size() != columns.size())
    csv_error(name, {", line ", line, ": expected ", columns.size(), " fields, got ", record.size(),
                     hint});
}

LOCKSTEP_INLINE std::size_t CsvHeader::find(std::string_view column) const {
  const auto found = std::find(columns.begin(), columns.end(), column);
  if (found == columns.end())
    csv_error(name, {": there is no column ", in_quotes(column), ", but: ", list_of_names(columns),
                     hint});
  return static_cast<std::size_t>(found - columns.begin());
}

LOCKSTEP_INLINE double CsvHeader::number(std::string_view field, std::string_view column,
                                         std::uint64_t line, std::optional<double> missing) const {
  field = without_blanks(field);
  const bool is_missing = std::find(options.missing_values.begin(), options.missing_values.end(),
                                    field) != options.missing_values.end();
  const std::optional<double> value = is_missing ? missing : finite_number(field);
  if (!value)
    csv_error(name, {", line ", line, ", column ", in_quotes(column), ": expected a number, got ",
                     field.empty() ? "nothing" : in_quotes(field),
                     is_missing ? "; say which number stands for a missing one" : hint});
  return *value;
}

}  // namespace detail

LOCKSTEP_INLINE CsvTable::CsvTable(std::string_view text, std::string name, CsvOptions options)
    : header_{std::move(name), std::move(options)} {
  header_.check_text(text);
  detail::CsvScanner scanner(text, header_.name, header_.options.separator);
  std::vector<std::string> record;
  bool more = scanner.next(record);
  header_.begin(record, scanner.line());
  if (header_.options.header) more = scanner.next(record);
  fields_.resize(header_.columns.size());
  for (; more; more = scanner.next(record)) {
    header_.check(record, scanner.line());
    for (std::size_t i = 0; i < record.size(); ++i) fields_[i].push_back(std::move(record[i]));
    lines_.push_back(scanner.line());
  }
}

LOCKSTEP_INLINE const std::vector<std::string>& CsvTable::texts(std::string_view column) const {
  return fields_[header_.find(column)];
}

LOCKSTEP_INLINE std::vector<double> CsvTable::numbers(std::string_view column,
                                                      std::optional<double> missing) const {
  const std::vector<std::string>& fields = texts(column);
  std::vector<double> values;
  values.reserve(fields.size());
  for (std::size_t row = 0; row < fields.size(); ++row)
    values.push_back(header_.number(fields[row], column, lines_[row], missing));
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
  return CsvTable(text, path, std::move(options));
}

struct CsvRecords::Index {
  Index(const std::string& path, CsvRecordsOptions of_records)
      : file("from_csv", path),
        options(std::move(of_records)),
        header{path, std::move(options.csv)} {}

  detail::MappedFile file;
  CsvRecordsOptions options;  ///< without `csv`, which the header has
  detail::CsvHeader header;
  std::vector<std::size_t> columns = {};   ///< of the features, then of the targets
  std::vector<std::uint64_t> begins = {};  ///< of the records
  std::vector<std::uint64_t> lines = {};   ///< where they begin, from 1
};

LOCKSTEP_INLINE CsvRecords::CsvRecords(const std::string& path, CsvRecordsOptions options) {
  const auto made = std::make_shared<Index>(path, std::move(options));
  Index& index = *made;
  if (index.options.features.empty())
    throw ConfigurationError("from_csv: there are no features; name at least one column");
  index.header.check_text(index.file.text());
  detail::CsvScanner scanner(index.file.text(), path, index.header.options.separator);
  std::vector<std::string> record;
  bool more = scanner.next(record);
  index.header.begin(record, scanner.line());
  if (index.header.options.header) more = scanner.next(record);
  for (const auto* columns : {&index.options.features, &index.options.targets})
    for (const CsvColumn& column : *columns)
      index.columns.push_back(index.header.find(column.name));
  for (; more; more = scanner.next(record)) {
    index.header.check(record, scanner.line());
    index.begins.push_back(scanner.begin());
    index.lines.push_back(scanner.line());
  }
  index_ = made;
}

LOCKSTEP_INLINE std::int64_t CsvRecords::size() const noexcept {
  return static_cast<std::int64_t>(index_->begins.size());
}
namespace detail {

/// How many numbers the columns have together.
inline std::size_t numbers_of(const std::vector<CsvColumn>& columns) noexcept {
  std::size_t size = 0;
  for (const CsvColumn& column : columns) size += column.text ? column.text->size() : 1;
  return size;
}

}  // namespace detail

LOCKSTEP_INLINE std::size_t CsvRecords::sample_size() const noexcept {
  return detail::numbers_of(index_->options.features);
}
LOCKSTEP_INLINE std::size_t CsvRecords::target_size() const noexcept {
  return detail::numbers_of(index_->options.targets);
}

LOCKSTEP_INLINE void CsvRecords::describe(PipelineDescription& description) const {
  const auto names = [](const std::vector<CsvColumn>& columns) {
    std::string text;
    for (const CsvColumn& column : columns) {
      text += (text.empty() ? "" : ", ") + column.name;
      if (column.text && !column.text->description().empty())
        text += concat({" by ", column.text->description()});
    }
    return text;
  };
  description.add(
      {"from_csv(", names(index_->options.features), " -> ", names(index_->options.targets), ")"});
}

template <class T>
void CsvRecords::write(const std::vector<CsvColumn>& columns, std::size_t first,
                       const std::vector<std::string>& record, std::size_t row, std::size_t i,
                       TensorView<T> view) const {
  std::size_t feature = 0;
  std::vector<double> numbers;
  for (const CsvColumn& column : columns) {
    const std::string& field = record[index_->columns[first++]];
    if (column.text) {
      numbers.resize(column.text->size());
      (*column.text)(field, numbers);
      for (const double number : numbers) view(i, feature++) = static_cast<T>(number);
    } else {
      view(i, feature++) = static_cast<T>(
          column.vocabulary
              ? static_cast<double>(column.vocabulary->number(field))
              : index_->header.number(field, column.name, index_->lines[row], column.missing));
    }
  }
}

template <class T>
void CsvRecords::read_records(std::span<const std::int64_t> indices, TensorView<T> x,
                              TensorView<T> y) const {
  const std::string_view text = index_->file.text();
  const auto& features = index_->options.features;
  const auto& targets = index_->options.targets;
  std::vector<std::string> record;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto row = static_cast<std::size_t>(indices[i]);
    detail::CsvScanner scanner(text.substr(static_cast<std::size_t>(index_->begins[row])),
                               index_->header.name, index_->header.options.separator);
    scanner.next(record);
    write(features, 0, record, row, i, x);
    if (!y.empty()) write(targets, features.size(), record, row, i, y);
  }
}

LOCKSTEP_INLINE void CsvRecords::read(std::span<const std::int64_t> indices, TensorView<float> x,
                                      TensorView<float> y) const {
  read_records(indices, x, y);
}
LOCKSTEP_INLINE void CsvRecords::read(std::span<const std::int64_t> indices, TensorView<double> x,
                                      TensorView<double> y) const {
  read_records(indices, x, y);
}

LOCKSTEP_INLINE CsvRecords CsvRecordsReader::operator()(const std::string& path) const {
  return {path, options};
}

}}  // namespace lockstep
