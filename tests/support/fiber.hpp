// Functions that stop in the middle and go on later, on the thread that makes them.
#pragma once

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "support/sanitizer.hpp"
#ifdef LOCKSTEP_TEST_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef LOCKSTEP_TEST_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace lockstep_test {

/// Runs a function on a stack of its own: from resume() until it calls pause(), and so on. What it
/// throws comes out of `thrown()`. A function must not pause while it handles an exception, and a
/// fiber must have ended before it is destroyed.
class Fiber {
 public:
  explicit Fiber(std::function<void()> run)
      : run_(std::move(run)), stack_(std::make_unique_for_overwrite<std::byte[]>(stack_bytes)) {
    ::getcontext(&own_);
    own_.uc_stack.ss_sp = stack_.get();
    own_.uc_stack.ss_size = stack_bytes;
    own_.uc_link = nullptr;
    ::makecontext(&own_, &Fiber::enter, 0);
#ifdef LOCKSTEP_TEST_TSAN
    tsan_own_ = __tsan_create_fiber(0);
#endif
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() {  // NOLINT(modernize-use-equals-default): not with TSan
#ifdef LOCKSTEP_TEST_TSAN
    __tsan_destroy_fiber(tsan_own_);
#endif
  }

  [[nodiscard]] bool has_ended() const noexcept { return ended_; }
  [[nodiscard]] bool is_running() const noexcept { return current() == this; }
  [[nodiscard]] const std::exception_ptr& thrown() const noexcept { return thrown_; }

  /// From outside of any fiber.
  void resume() {
    current() = this;
#ifdef LOCKSTEP_TEST_TSAN
    tsan_caller_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_own_, 0);
#endif
#ifdef LOCKSTEP_TEST_ASAN
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack_.get(), stack_bytes);
#endif
    leave(caller_, callers_place_, own_, started_ ? &own_place_ : nullptr);
#ifdef LOCKSTEP_TEST_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    started_ = true;
    current() = nullptr;
  }

  /// From inside of it: returns at the next resume().
  void pause() {
#ifdef LOCKSTEP_TEST_TSAN
    __tsan_switch_to_fiber(tsan_caller_, 0);
#endif
#ifdef LOCKSTEP_TEST_ASAN
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(ended_ ? nullptr : &fake, callers_stack_, callers_stack_bytes_);
#endif
    leave(own_, own_place_, caller_, &callers_place_);
#ifdef LOCKSTEP_TEST_ASAN
    __sanitizer_finish_switch_fiber(fake, &callers_stack_, &callers_stack_bytes_);
#endif
  }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;

  /// Continues in `there`, or at `place_there` where it is known, until control comes back here.
  static void leave([[maybe_unused]] ucontext_t& here, [[maybe_unused]] std::jmp_buf& place_here,
                    const ucontext_t& there, [[maybe_unused]] std::jmp_buf* place_there) {
    // (The longjmp of _FORTIFY_SOURCE, some distributions' default, refuses another stack.)
#if defined(LOCKSTEP_TEST_TSAN) || defined(LOCKSTEP_TEST_ASAN) || \
    (defined(__USE_FORTIFY_LEVEL) && __USE_FORTIFY_LEVEL > 0)
    ::swapcontext(&here, &there);
#else
    // These make no system call, which takes most of the time of swapcontext.
    if (_setjmp(place_here) != 0) return;                     // NOLINT(cert-err52-cpp)
    if (place_there != nullptr) ::_longjmp(*place_there, 1);  // NOLINT(cert-err52-cpp)
    ::setcontext(&there);
#endif
  }

  static Fiber*& current() noexcept {
    static thread_local Fiber* fiber = nullptr;
    return fiber;
  }
  static void enter() {
    Fiber& self = *current();
#ifdef LOCKSTEP_TEST_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &self.callers_stack_, &self.callers_stack_bytes_);
#endif
    try {
      self.run_();
    } catch (...) {
      self.thrown_ = std::current_exception();
    }
    self.ended_ = true;
    self.pause();
  }

  std::function<void()> run_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t own_{}, caller_{};
  std::jmp_buf own_place_{}, callers_place_{};
  bool started_ = false;
  std::exception_ptr thrown_;
  bool ended_ = false;
#ifdef LOCKSTEP_TEST_ASAN
  const void* callers_stack_ = nullptr;
  std::size_t callers_stack_bytes_ = 0;
#endif
#ifdef LOCKSTEP_TEST_TSAN
  void* tsan_own_ = nullptr;
  void* tsan_caller_ = nullptr;
#endif
};

}  // namespace lockstep_test
