// Captures what a part of a test writes to standard error.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace lockstep_test {

/// While it lives, standard error goes to a file without a name.
class CapturedStderr {
 public:
  CapturedStderr() : file_(std::tmpfile()) {
    if (file_ == nullptr) throw std::runtime_error("tmpfile failed");
    std::fflush(stderr);
    former_ = ::dup(2);
    ::dup2(::fileno(file_), 2);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;
  ~CapturedStderr() {
    std::fflush(stderr);
    ::dup2(former_, 2);
    ::close(former_);
    std::fclose(file_);
  }

  /// What has been written so far.
  [[nodiscard]] std::string text() const {
    std::fflush(stderr);
    std::string all;
    char part[4096];
    for (;;) {
      const ssize_t got =
          ::pread(::fileno(file_), part, sizeof part, static_cast<off_t>(all.size()));
      if (got <= 0) return all;
      all.append(part, static_cast<std::size_t>(got));
    }
  }

 private:
  std::FILE* file_;
  int former_;
};

}  // namespace lockstep_test
