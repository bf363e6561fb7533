// The output of a worker, as the launcher shows it.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a worker writes to one of its streams, line by line.
class PrefixedStream {
 public:
  PrefixedStream() = default;
  /// What follows `mark` in a line is kept for take_marked() instead; empty: none.
  PrefixedStream(Descriptor source, int target, std::string prefix, std::string_view mark = {})
      : source_(std::move(source)), target_(target), prefix_(std::move(prefix)), mark_(mark) {}

  [[nodiscard]] const Descriptor& source() const noexcept { return source_; }
  /// The marked lines that have come since the last call, each with a new line.
  [[nodiscard]] std::string take_marked() { return std::exchange(marked_, {}); }
  /// Why lines were lost (errno); 0 if none was.
  [[nodiscard]] int failure() const noexcept { return failure_; }

  /// Passes on the lines that are complete; at the end of the stream, also the rest. Reads a
  /// bounded number of bytes, as a worker may write without end; returns whether there may be more.
  bool pump() {
    char chunk[65536];
    const ssize_t n = ::read(source_.get(), chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return errno == EINTR;
    if (n <= 0) {
      finish();
      return false;
    }
    rest_.append(chunk, static_cast<std::size_t>(n));
    take_lines();
    write_lines();
    return true;
  }

  void finish() {
    source_.close();
    if (!rest_.empty()) add_line(rest_);
    rest_.clear();
    write_lines();
  }

 private:
  static constexpr std::size_t longest_line = std::size_t{64} << 10;

  void take_lines() {
    std::size_t begin = 0;
    for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1)
      add_line(std::string_view(rest_).substr(begin, end - begin));
    rest_.erase(0, begin);
    if (rest_.size() > longest_line) {
      add_line(rest_);
      rest_.clear();
    }
  }

  // Of a line that was drawn several times, as progress bars are on a terminal, the last state
  // counts.
  void add_line(std::string_view line) {
    if (const auto mark = mark_.empty() ? std::string_view::npos : line.find(mark_);
        mark != std::string_view::npos) {
      marked_ += line.substr(mark + mark_.size());
      marked_ += '\n';
      line = line.substr(0, mark);  // what the program had written of a line of its own
      if (line.empty()) return;
    }
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (const auto drawn = line.rfind('\r'); drawn != std::string_view::npos)
      line.remove_prefix(drawn + 1);
    if (!line.starts_with(structured_log_begin)) lines_ += prefix_;  // that has the rank
    lines_ += line;
    lines_ += '\n';
  }

  void write_lines() {
    std::string_view text = lines_;
    while (!text.empty()) {
      const ssize_t n = ::write(target_, text.data(), text.size());
      if (n > 0) {
        text.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno == EAGAIN) {
        pollfd full{target_, POLLOUT, 0};
        ::poll(&full, 1, 1000);
      } else if (errno != EINTR) {
        failure_ = errno;  // its reader has gone, for example
        break;
      }
    }
    lines_.clear();
  }

  Descriptor source_;
  int target_ = -1;
  int failure_ = 0;
  std::string prefix_;
  std::string mark_;
  std::string marked_;
  std::string rest_;   // an incomplete line
  std::string lines_;  // complete ones, with the prefix
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
