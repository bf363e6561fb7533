#pragma once

#include <algorithm>
#include <span>
#include <utility>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/saving/evaluation_results.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Text with what would end it in quotation marks (RFC 4180), on one line.
LOCKSTEP_INLINE std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c == '\n' || c == '\r' ? ' ' : c;
  }
  return field + "\"";
}

LOCKSTEP_INLINE std::string evaluation_key(std::string_view checkpoint, std::int64_t iterations) {
  return concat({csv_field(checkpoint), ",", iterations});
}

LOCKSTEP_INLINE EvaluationResults::EvaluationResults(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  remove_stale_temporaries(path_);
  const auto bytes = read_file(path_, at_most(std::uint64_t{1} << 30, "a table of evaluations"));
  if (!bytes || bytes->empty()) return;
  text_.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (!text_.starts_with("checkpoint,iterations,") || !text_.ends_with('\n'))
    throw DataError(concat({"SidecarEvaluator: results: '", path_,
                            "' is no table of evaluations, which begins with "
                            "'checkpoint,iterations,': name another file"}));
  size_ = std::count(text_.begin(), text_.end(), '\n') - 1;
}

LOCKSTEP_INLINE bool EvaluationResults::contains(std::string_view checkpoint,
                                                 std::int64_t iterations) const {
  return text_.find(concat({"\n", evaluation_key(checkpoint, iterations), ","})) !=
         std::string::npos;
}

LOCKSTEP_INLINE void EvaluationResults::append(const CheckpointEvaluation& evaluation) {
  std::string header = "checkpoint,iterations",
              row = evaluation_key(evaluation.checkpoint, evaluation.iterations);
  for (const auto& [name, value] : evaluation.logs) {
    header += "," + csv_field(name);
    row += concat({",", value});
  }
  header += '\n';
  if (text_.empty()) text_ = header;
  if (!text_.starts_with(header))
    throw ConfigurationError(concat({"SidecarEvaluator: results: '", path_, "' has the columns '",
                                     text_.substr(0, text_.find('\n')), "', this program gives '",
                                     header.substr(0, header.size() - 1), "': name another file"}));
  text_ += row + '\n';
  ++size_;
  if (!path_.empty()) write_file_atomically(path_, std::as_bytes(std::span(text_)));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
