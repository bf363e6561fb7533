#include "lockstep/core/thread.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>

namespace {

/// A system that has no thread left.
struct NoThread {
  template <class F>
  explicit NoThread(F&&) {
    throw std::system_error(EAGAIN, std::generic_category());
  }
};

}  // namespace

TEST_CASE("start_thread: runs what it is given") {
  bool has_run = false;
  lockstep::start_thread("a test", [&] { has_run = true; }).join();
  CHECK(has_run);
}

TEST_CASE("start_thread: when no thread can start, the error names its work and the limits") {
  std::string text;
  try {
    (void)lockstep::start_thread<NoThread>("replica 1 of 2", [] {});
  } catch (const lockstep::Error& error) {
    text = error.what();
  }
  CHECK(text.starts_with(
      "cannot start the thread for replica 1 of 2: Resource temporarily unavailable"));
  CHECK(text.ends_with(lockstep::limits_text(lockstep::Resource::threads)));
}
