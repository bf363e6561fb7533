// What is told to others when an exception ends the program.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A destructor that runs because of an exception cannot ask for its message. Where one of these lives further up on the same thread's
/// stack, it may leave what it has to tell its peers to that one, whose owner catches the exception and knows.
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

  /// False when there is nobody to leave it to.
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
