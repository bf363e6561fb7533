// The file that a logging callback writes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/checkpoint/growing_file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A file of lines that the chief alone writes, and that goes on where it was when a run is
/// resumed: what the interrupted run wrote after its last snapshot is thrown away, so that the file
/// looks as if nothing had been interrupted. (A chief that takes over the state of another worker,
/// which had no file, keeps all lines.)
class LogFile {
 public:
  /// Throws ConfigurationError, which begins with `callback`, for an empty name.
  LogFile(std::string_view callback, std::string filename, bool append);

  /// In on_train_begin: opens the file; what it has stays until `start`. Throws Error naming it.
  void open(const Training& training);
  /// In on_epoch_begin: at the first call, decides what becomes of what the file had. True at the
  /// first call of a run that is not resumed.
  bool start();
  /// Writes, and hands it to the operating system. Does nothing before `start`, and on other
  /// workers than the chief.
  void write(std::string_view lines);
  void close() { file_.reset(); }
  /// Outside of fit: opens, writes behind what the file has, and closes.
  void append(const Training& training, std::string_view lines) const;

  [[nodiscard]] const std::string& filename() const noexcept { return filename_; }
  [[nodiscard]] bool is_open() const noexcept { return file_ != nullptr && has_started_; }
  [[nodiscard]] bool is_empty() const noexcept { return is_open() && file_->size() == 0; }
  void save(State& state) const;
  void restore(const State& state);

 private:
  std::string filename_;
  bool append_;
  bool has_started_ = false;
  bool is_resumed_ = false;
  std::optional<std::uint64_t> resumed_size_;
  std::unique_ptr<GrowingFile> file_;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/callbacks/log_file.ipp"
#endif
