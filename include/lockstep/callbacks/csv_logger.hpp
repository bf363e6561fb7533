// CSVLogger: the figures of each epoch as a table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/log_file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct CSVLoggerOptions {
  std::string filename;
  char separator = ',';
  bool append = false;  ///< keep what the file has, and write rows under its header, by name
};

/// Writes a row for each epoch, as Keras's CSVLogger does: epoch (from 0), then the figures of the
/// first epoch by name. If that epoch was not validated, columns val_... for all of them follow. A
/// figure that is missing is NA. Lines end with CR LF. The chief alone writes, each row at once; a
/// run that BackupAndRestore resumes goes on in the file as if it had not been interrupted.
///
/// Serves one fit at a time; its hooks run on the thread of the first replica.
/// Use: `CSVLogger({.filename = "log.csv", .append = true})`.
class CSVLogger {
 public:
  /// Throws ConfigurationError without a filename, and for a separator that is a quote, a line end
  /// or a NUL.
  explicit CSVLogger(CSVLoggerOptions options);

  void on_train_begin(Training& training);
  void on_epoch_begin(Training& training, int epoch);
  void on_epoch_end(Training& training, int epoch, Logs& logs);
  void on_train_end(Training&, Logs&) { file_.close(); }
  void on_train_abort(Training&) { file_.close(); }

  [[nodiscard]] std::string state_key() const { return file_.filename(); }
  void save(State& state) const;
  void restore(const State& state);

 private:
  [[nodiscard]] std::vector<std::string> columns_of_file() const;
  [[nodiscard]] std::string row(const std::vector<std::string>& fields) const;

  char separator_;
  detail::LogFile file_;
  bool needs_header_ = false;
  bool has_said_ = false;  // what has no column
  std::optional<std::vector<std::string>> columns_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/callbacks/csv_logger.ipp"
#endif
