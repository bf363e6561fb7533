// Signals as bytes that poll() can wait for.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Keeps SIGINT, SIGTERM, SIGHUP and SIGUSR1 from this thread, and from a child that it forks,
/// until it is released.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t blocked;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGINT);
    ::sigaddset(&blocked, SIGTERM);
    ::sigaddset(&blocked, SIGHUP);
    ::sigaddset(&blocked, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { release(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  void release() const noexcept { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// Makes SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGCHLD readable bytes, while it lives.
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
      // A program that a shell has started in the background goes on ignoring Ctrl-C, and a program
      // under nohup SIGHUP; one with a handler of its own for SIGUSR1 keeps it.
      if (signals[i] == SIGCHLD || old_[i].sa_handler == SIG_DFL ||
          (signals[i] != SIGUSR1 && old_[i].sa_handler != SIG_IGN))
        ::sigaction(signals[i], &action, nullptr);
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
  /// In a forked child, which shares the pipe: signals do again what they do by default.
  static void let_go() noexcept {
    for (const int signal : signals) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      if (action.sa_handler != SIG_IGN) ::signal(signal, SIG_DFL);
    }
  }

 private:
  static constexpr std::size_t count = 5;
  static constexpr int signals[count] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
  static int& target() noexcept {
    static int descriptor = -1;
    return descriptor;
  }

  Pipe pipe_;
  struct sigaction old_[count];
};

/// From construction until restore(), a write to a reader that has gone (SIGPIPE) or beyond the
/// limit of a file's size (SIGXFSZ) fails, instead of ending the process and its training. Handlers
/// that the program has set stay.
class IgnoredSignals {
 public:
  IgnoredSignals() noexcept {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      ::sigaction(signals[i], nullptr, &former_[i]);
      if (former_[i].sa_handler == SIG_DFL) ::sigaction(signals[i], &ignore, nullptr);
    }
  }

  /// May be called in a forked child.
  void restore() const noexcept {
    for (std::size_t i = 0; i < signals.size(); ++i)
      if (former_[i].sa_handler == SIG_DFL) ::sigaction(signals[i], &former_[i], nullptr);
  }

 private:
  static constexpr std::array signals{SIGPIPE, SIGXFSZ};
  std::array<struct sigaction, signals.size()> former_{};
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
