#include "lockstep/core/thread.hpp"

#include <doctest/doctest.h>
#include <poll.h>

#include <thread>

using lockstep::detail::WakePipe;

TEST_SUITE("wake pipe") {
  TEST_CASE("ends the poll of another thread, until it is drained") {
    WakePipe pipe;
    const auto is_readable = [&](int milliseconds) {
      pollfd watched{pipe.descriptor(), POLLIN, 0};
      return ::poll(&watched, 1, milliseconds) == 1;
    };
    CHECK_FALSE(is_readable(0));
    std::thread other([&] { pipe.wake(); });
    CHECK(is_readable(10'000));
    other.join();
    for (int i = 0; i < 100'000; ++i) pipe.wake();  // more than it holds: never blocks
    CHECK(is_readable(0));
    pipe.drain();
    CHECK_FALSE(is_readable(0));
  }
}
