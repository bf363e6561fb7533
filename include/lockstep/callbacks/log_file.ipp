#pragma once

#include <utility>

#include "lockstep/callbacks/log_file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE LogFile::LogFile(std::string_view callback, std::string filename, bool append)
    : filename_(std::move(filename)), append_(append) {
  if (filename_.empty())
    throw ConfigurationError(concat({callback, ": filename is empty: name a file"}));
}

LOCKSTEP_INLINE void LogFile::open(const Training& training) {
  file_.reset();
  has_started_ = is_resumed_ = false;
  resumed_size_.reset();
  if (training.is_chief()) file_ = std::make_unique<GrowingFile>(filename_);
}

LOCKSTEP_INLINE bool LogFile::start() {
  if (file_ == nullptr || std::exchange(has_started_, true)) return false;
  if (resumed_size_)
    file_->truncate(*resumed_size_);
  else if (!append_ && !is_resumed_)
    file_->truncate(0);
  return !is_resumed_;
}

LOCKSTEP_INLINE void LogFile::write(std::string_view lines) {
  if (!is_open()) return;
  file_->write(lines);
  file_->flush();
}

LOCKSTEP_INLINE void LogFile::append(const Training& training, std::string_view lines) const {
  if (!training.is_chief()) return;
  GrowingFile file(filename_);
  file.write(lines);
  file.close();
}

LOCKSTEP_INLINE void LogFile::save(State& state) const {
  state.put("is_resumed", true);  // a state without a value would not be restored
  if (is_open()) state.put("file_size", file_->size());
}

LOCKSTEP_INLINE void LogFile::restore(const State& state) {
  is_resumed_ = true;
  if (state.contains("file_size")) resumed_size_ = state.get<std::uint64_t>("file_size");
}

}}}  // namespace lockstep::detail
