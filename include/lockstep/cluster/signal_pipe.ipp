// Signals as bytes that poll() can wait for.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "lockstep/cluster/descriptor.ipp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Makes SIGINT, SIGTERM and SIGCHLD readable bytes, while it lives.
class SignalPipe {
 public:
  SignalPipe() {
    ::fcntl(pipe_.write.get(), F_SETFL, O_NONBLOCK);
    target() = pipe_.write.get();
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      const int saved = errno;
      const char byte = static_cast<char>(signal);
      (void)!::write(target(), &byte, 1);
      errno = saved;
    };
    action.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < count; ++i) {
      ::sigaction(signals[i], nullptr, &old_[i]);
      // A program that was started in the background by a shell must go on ignoring Ctrl-C.
      if (signals[i] == SIGCHLD || old_[i].sa_handler != SIG_IGN) ::sigaction(signals[i], &action, nullptr);
    }
  }
  ~SignalPipe() {
    for (std::size_t i = 0; i < count; ++i) ::sigaction(signals[i], &old_[i], nullptr);
  }
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return pipe_.read.get(); }
  /// The next signal, 0 when there is none.
  [[nodiscard]] int take() const noexcept {
    char byte = 0;
    return ::read(pipe_.read.get(), &byte, 1) == 1 ? byte : 0;
  }

 private:
  static constexpr std::size_t count = 3;
  static constexpr int signals[count] = {SIGINT, SIGTERM, SIGCHLD};
  static int& target() noexcept {
    static int descriptor = -1;
    return descriptor;
  }

  Pipe pipe_;
  struct sigaction old_[count];
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
