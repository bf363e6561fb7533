#pragma once

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string_view>
#include <utility>

#include "lockstep/callbacks/csv_logger.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE CSVLogger::CSVLogger(CSVLoggerOptions options)
    : separator_(options.separator),
      file_("CSVLogger", std::move(options.filename), options.append) {
  if (std::string_view("\"\r\n\0", 4).find(separator_) != std::string_view::npos)
    throw ConfigurationError(
        "CSVLogger: the separator is a quote, a line end or a NUL: take ',', ';' or a tab");
}

LOCKSTEP_INLINE void CSVLogger::on_train_begin(Training& training) {
  columns_.reset();
  needs_header_ = false;
  file_.open(training);
}

LOCKSTEP_INLINE void CSVLogger::on_epoch_begin(Training&, int) {
  file_.start();
  needs_header_ = file_.is_empty();
  if (file_.is_open() && !needs_header_ && !columns_) columns_ = columns_of_file();
}

LOCKSTEP_INLINE void CSVLogger::on_epoch_end(Training&, int epoch, Logs& logs) {
  if (!file_.is_open()) return;
  if (!columns_) {
    std::vector<std::string>& columns = columns_.emplace();
    for (const auto& [name, value] : logs) columns.push_back(name);
    std::sort(columns.begin(), columns.end());
    const std::size_t count = columns.size();
    if (std::none_of(columns.begin(), columns.end(),
                     [](const auto& name) { return name.starts_with("val_"); }))
      for (std::size_t i = 0; i < count; ++i) columns.push_back("val_" + columns[i]);
  }
  std::string lines;
  std::vector<std::string> fields = {"epoch"};
  fields.insert(fields.end(), columns_->begin(), columns_->end());
  if (std::exchange(needs_header_, false)) lines = row(fields);
  fields = {concat({epoch})};
  for (const std::string& name : *columns_) {
    const double* const value = logs.find(name);
    fields.push_back(value == nullptr ? "NA" : detail::python_number(*value));
  }
  file_.write(lines + row(fields));
  std::string others;
  for (const auto& [name, value] : logs)
    if (std::find(columns_->begin(), columns_->end(), name) == columns_->end())
      others += concat({others.empty() ? "" : ", ", name});
  if (!others.empty() && !std::exchange(has_said_, true))
    log_line(concat({"CSVLogger: ", in_quotes(file_.filename()), " has no column for ", others,
                     ": left out; another file would have it"}));
}

LOCKSTEP_INLINE std::vector<std::string> CSVLogger::columns_of_file() const {
  std::ifstream file(file_.filename(), std::ios::binary);
  std::string header, name;
  std::getline(file, header);
  if (header.ends_with('\r')) header.pop_back();
  std::vector<std::string> columns;
  bool is_quoted = false;
  for (const char c : header + separator_)
    if (c == '"')
      is_quoted = !is_quoted;
    else if (c != separator_ || is_quoted)
      name += c;
    else
      columns.push_back(std::exchange(name, {}));
  if (columns.front() != "epoch")
    throw ConfigurationError(
        concat({"CSVLogger: ", in_quotes(file_.filename()),
                " is appended to, and should begin with a header ", "'epoch",
                std::string_view(&separator_, 1), "...'; its first line is ", in_quotes(header),
                ": give another filename, or append = false"}));
  columns.erase(columns.begin());
  return columns;
}

LOCKSTEP_INLINE void CSVLogger::save(State& state) const {
  file_.save(state);
  if (!columns_) return;
  std::string names;
  for (const std::string& name : *columns_) names += name + '\n';
  state.put("columns", names);
}

LOCKSTEP_INLINE void CSVLogger::restore(const State& state) {
  file_.restore(state);
  columns_.reset();
  if (!state.contains("columns")) return;
  std::vector<std::string>& columns = columns_.emplace();
  const auto names = state.get<std::string>("columns");
  for (std::size_t begin = 0, end = 0; (end = names.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    columns.push_back(names.substr(begin, end - begin));
}

/// As Python's csv.excel: a field with a separator, a quote or a line end stands in quotes.
LOCKSTEP_INLINE std::string CSVLogger::row(const std::vector<std::string>& fields) const {
  const std::string special = std::string("\"\r\n") + separator_;
  std::string line;
  for (const std::string& field : fields) {
    if (!line.empty()) line += separator_;
    if (field.find_first_of(special) == std::string::npos) {
      line += field;
      continue;
    }
    line += '"';
    for (const char c : field) {
      if (c == '"') line += '"';
      line += c;
    }
    line += '"';
  }
  return line + "\r\n";
}

}}  // namespace lockstep
