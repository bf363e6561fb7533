#pragma once

#include <algorithm>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/csv_records.hpp"
#include "lockstep/datasets/detail/csv_scanner.hpp"
#include "lockstep/datasets/mapped_file.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct CsvRecords::Index {
  Index(const std::string& path, CsvRecordsOptions of_records)
      : file("from_csv", path), options(std::move(of_records)) {}

  detail::MappedFile file;
  CsvRecordsOptions options;
  std::vector<std::size_t> columns = {};   ///< of the features, then of the targets
  std::vector<std::uint64_t> begins = {};  ///< of the records
  std::vector<std::uint64_t> lines = {};   ///< where they begin, from 1
};

LOCKSTEP_INLINE CsvRecords::CsvRecords(const std::string& path, CsvRecordsOptions options) {
  const auto made = std::make_shared<Index>(path, std::move(options));
  Index& index = *made;
  if (index.options.features.empty())
    throw ConfigurationError("from_csv: there are no features; name at least one column");
  detail::CsvScanner scanner(index.file.text(), index.file.path(), index.options.csv.separator);
  std::vector<std::string> record;
  bool more = scanner.next(record);
  if (!more)
    detail::csv_error(
        path, {" is empty; expected ", index.options.csv.header ? "a line of names" : "a record"});
  std::vector<std::string> names = record;
  if (index.options.csv.header)
    more = scanner.next(record);
  else
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = concat({i});
  for (const auto* columns : {&index.options.features, &index.options.targets})
    for (const CsvColumn& column : *columns) {
      const auto found = std::find(names.begin(), names.end(), column.name);
      if (found == names.end())
        detail::csv_error(path, {": there is no column '", column.name,
                                 "', but: ", detail::list_of_names(names)});
      index.columns.push_back(static_cast<std::size_t>(found - names.begin()));
    }
  for (; more; more = scanner.next(record)) {
    if (record.size() != names.size())
      detail::csv_error(path, {", line ", scanner.line(), ": expected ", names.size(),
                               " fields, got ", record.size()});
    index.begins.push_back(scanner.begin());
    index.lines.push_back(scanner.line());
  }
  index_ = made;
}

LOCKSTEP_INLINE std::int64_t CsvRecords::size() const noexcept {
  return static_cast<std::int64_t>(index_->begins.size());
}
LOCKSTEP_INLINE std::size_t CsvRecords::sample_size() const noexcept {
  return index_->options.features.size();
}
LOCKSTEP_INLINE std::size_t CsvRecords::target_size() const noexcept {
  return index_->options.targets.size();
}

LOCKSTEP_INLINE void CsvRecords::describe(PipelineDescription& description) const {
  const auto names = [](const std::vector<CsvColumn>& columns) {
    std::string text;
    for (const CsvColumn& column : columns) text += (text.empty() ? "" : ", ") + column.name;
    return text;
  };
  description.add(
      {"from_csv(", names(index_->options.features), " -> ", names(index_->options.targets), ")"});
}

LOCKSTEP_INLINE double CsvRecords::value(const CsvColumn& column, const std::string& field,
                                         std::uint64_t line) const {
  if (column.vocabulary) return static_cast<double>(column.vocabulary->number(field));
  const bool is_missing = field.find_first_not_of(" \t") == std::string::npos;
  const std::optional<double> number = is_missing ? column.missing : detail::finite_number(field);
  if (!number)
    detail::csv_error(index_->file.path(),
                      {", line ", line, ", column '", column.name, "': expected a number, got ",
                       is_missing ? "nothing; say which number stands for a missing one"
                                  : concat({"'", field, "'"})});
  return *number;
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
                               index_->file.path(), index_->options.csv.separator);
    scanner.next(record);
    const auto field = [&](std::size_t column) -> const std::string& {
      return record[index_->columns[column]];
    };
    for (std::size_t f = 0; f < features.size(); ++f)
      x(i, f) = static_cast<T>(value(features[f], field(f), index_->lines[row]));
    if (y.empty()) continue;
    for (std::size_t f = 0; f < targets.size(); ++f)
      y(i, f) = static_cast<T>(value(targets[f], field(features.size() + f), index_->lines[row]));
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

}  // namespace lockstep::inline LOCKSTEP_ABI
