// The results of a SidecarEvaluator, as a table in a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The figures of one checkpoint.
struct CheckpointEvaluation {
  std::string checkpoint;       ///< the file's name in its folder
  std::int64_t iterations = 0;  ///< optimizer updates made until then
  Logs logs;                    ///< loss and metrics
};

namespace detail {

/// Rows of comma-separated values: checkpoint, iterations, and one column for each figure of the
/// logs, as the first row says. The file is replaced as a whole with each new row, so that a reader
/// never sees a part of one.
class EvaluationResults {
 public:
  /// Continues the file, if there is one. With an empty path no file is written. Throws Error
  /// naming the path when it cannot be read, DataError when it is something else.
  explicit EvaluationResults(std::string path);

  /// A checkpoint that was overwritten since has another number of iterations.
  [[nodiscard]] bool contains(std::string_view checkpoint, std::int64_t iterations) const;
  /// Number of evaluations, those that the file had at the start included.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  /// Throws ConfigurationError when the file has other columns, Error naming the path when it
  /// cannot be written.
  void append(const CheckpointEvaluation& evaluation);

 private:
  std::string path_;
  std::string text_;
  std::int64_t size_ = 0;
};

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Text with what would end it in quotation marks (RFC 4180), on one line.
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c == '\n' || c == '\r' ? ' ' : c;
  }
  return field + "\"";
}

inline std::string evaluation_key(std::string_view checkpoint, std::int64_t iterations) {
  return concat({csv_field(checkpoint), ",", iterations});
}

inline EvaluationResults::EvaluationResults(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  remove_stale_temporaries(path_);
  const auto bytes = read_file(path_, at_most(std::uint64_t{1} << 30, "a table of evaluations"));
  if (!bytes || bytes->empty()) return;
  text_.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (!text_.starts_with("checkpoint,iterations,") || !text_.ends_with('\n'))
    throw DataError(concat({"SidecarEvaluator: results: ", in_quotes(path_),
                            " is no table of evaluations, which begins with "
                            "'checkpoint,iterations,': name another file"}));
  size_ = std::count(text_.begin(), text_.end(), '\n') - 1;
}

inline bool EvaluationResults::contains(std::string_view checkpoint,
                                        std::int64_t iterations) const {
  return text_.find(concat({"\n", evaluation_key(checkpoint, iterations), ","})) !=
         std::string::npos;
}

inline void EvaluationResults::append(const CheckpointEvaluation& evaluation) {
  std::string header = "checkpoint,iterations",
              row = evaluation_key(evaluation.checkpoint, evaluation.iterations);
  for (const auto& [name, value] : evaluation.logs) {
    header += "," + csv_field(name);
    row += concat({",", value});
  }
  header += '\n';
  if (text_.empty()) text_ = header;
  if (!text_.starts_with(header))
    throw ConfigurationError(
        concat({"SidecarEvaluator: results: ", in_quotes(path_), " has the columns ",
                in_quotes(text_.substr(0, text_.find('\n'))), ", this program gives ",
                in_quotes(header.substr(0, header.size() - 1)), ": name another file"}));
  text_ += row + '\n';
  ++size_;
  if (!path_.empty()) write_file_atomically(path_, std::as_bytes(std::span(text_)));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
