// Errors and the exit codes that they become.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Exit codes of a program that uses lockstep. Orchestrators such as Kubernetes' TFJob operator run
/// a program with a code of 128 and above again; lower codes are permanent.
enum class ExitCode : int {
  success = 0,
  failure = 1,        ///< a permanent error
  usage = 2,          ///< wrong configuration or command line
  interrupted = 130,  ///< SIGINT
  lost_peer = 138,    ///< another worker died, hung or misbehaved: run again
  terminated = 143,   ///< SIGTERM
};

/// Base of all exceptions that lockstep throws. The message names the caller and the place, what
/// was expected, what was found, and what to do. What it takes from files and peers can harm no
/// terminal and no log: see printable_message.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::failure)
      : std::runtime_error(printable_message(message)), code_(code) {}

  /// The exit code that lockstep::run returns when this error ends the program.
  [[nodiscard]] ExitCode exit_code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// Wrong configuration: TF_CONFIG, options, command line, or workers that run different programs.
/// Exit code 2.
class ConfigurationError : public Error {
 public:
  explicit ConfigurationError(const std::string& message) : Error(message, ExitCode::usage) {}
};

/// Training ended early because the process is to stop: SIGINT, SIGTERM, or
/// Training::request_preemption. The callbacks have saved their state. Exit code 130 or 143: start
/// the program again to go on.
class Preempted : public Error {
 public:
  using Error::Error;
};

/// A parameter server has served until its workers had finished, and nothing of the program is left
/// for it to do. No error: lockstep::run ends the program with exit code 0.
class Served : public Error {
 public:
  explicit Served(const std::string& message) : Error(message, ExitCode::success) {}
};

/// The replicas of a model differ, which must never happen: bits have flipped in memory or on the
/// way, or a callback has changed one worker alone. Exit code 138: start all workers again; the
/// last backup was compared before it was saved.
class ReplicasDiffer : public Error {
 public:
  explicit ReplicasDiffer(const std::string& message) : Error(message, ExitCode::lost_peer) {}
};

/// Data that cannot be used: malformed files, labels out of range, shapes that differ. Exit code 1.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(message, ExitCode::failure) {}
};

/// Layers and losses see rows of a batch. fit and evaluate, which know the samples, put the
/// sample's name in place of the row.
class BadSample : public DataError {
 public:
  /// The message is `before`, "row 3 of the batch", `after`.
  BadSample(std::string_view before, std::size_t row, std::string_view after)
      : DataError(concat({before, "row ", row, " of the batch", after})),
        before_(before),
        after_(after),
        row_(row) {}

  [[nodiscard]] std::size_t row() const noexcept { return row_; }
  /// The same, with the sample in place of the row.
  [[nodiscard]] DataError of_sample(std::string_view sample) const {
    return DataError(concat({before_, sample, after_}));
  }

 private:
  std::string before_;
  std::string after_;
  std::size_t row_;
};

}}  // namespace lockstep
