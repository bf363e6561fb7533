// The results of a SidecarEvaluator, as a table in a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"

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

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/saving/evaluation_results.ipp"
#endif
