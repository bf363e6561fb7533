// What a process tells its peers when an exception ends it.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A destructor that runs because of an exception cannot learn its message. If one of these objects
/// lives further up on the same thread's stack, the destructor can leave the report to its peers to
/// that object, whose owner catches the exception and so knows the message.
class LastWords {
 public:
  /// Tells why this process ends. It is called once, and must not throw.
  using Tell = std::function<void(std::string_view reason, ExitCode code)>;

  LastWords() noexcept : outer_(std::exchange(innermost(), this)) {}
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;
  ~LastWords() {
    say("ended because of an exception", ExitCode::failure);
    innermost() = outer_;
  }

  /// False if no such object exists.
  [[nodiscard]] static bool leave(Tell tell) {
    if (innermost() == nullptr) return false;
    innermost()->left_.push_back(std::move(tell));
    return true;
  }

  /// Calls what has been left.
  void say(std::string_view reason, ExitCode code) noexcept {
    for (const Tell& tell : std::exchange(left_, {})) tell(reason, code);
  }

 private:
  static LastWords*& innermost() noexcept {
    thread_local LastWords* words = nullptr;
    return words;
  }

  LastWords* outer_;
  std::vector<Tell> left_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
