#include "lockstep/net/descriptor.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>

using lockstep::KeptPort;
using lockstep::detail::Descriptor;
using lockstep::detail::Pipe;
using lockstep::detail::WakePipe;

TEST_CASE("descriptor: is closed once, by its last owner, and inherited by no child") {
  int number = -1;
  {
    Descriptor first = Descriptor::checked(::open("/dev/null", O_RDONLY), "open /dev/null");
    number = first.get();
    CHECK(number > 2);
    CHECK((::fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
    const Descriptor second = std::move(first);
    CHECK_FALSE(first.is_open());
    CHECK(second.get() == number);
  }
  CHECK(::fcntl(number, F_GETFD) == -1);
}

TEST_CASE("descriptor: an error says which call failed, and why") {
  errno = ENOENT;
  CHECK_THROWS_WITH_AS((void)Descriptor::checked(-1, "open the file"),
                       "cannot open the file: No such file or directory", lockstep::Error);
}

TEST_CASE("pipe: its reading end does not wait") {
  const Pipe pipe;
  char byte = 0;
  CHECK(::read(pipe.read.get(), &byte, 1) == -1);
  CHECK(errno == EAGAIN);
  REQUIRE(::write(pipe.write.get(), "x", 1) == 1);
  CHECK(::read(pipe.read.get(), &byte, 1) == 1);
  CHECK(byte == 'x');
}
TEST_CASE("a kept port gives copies of the first descriptor, and closes its own at the end") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  {
    KeptPort port;
    CHECK_FALSE(port.is_set());
    CHECK(port.copy() == -1);
    port.keep(ends[1]);
    ::close(ends[1]);
    CHECK(port.is_set());
    const int copy = port.copy();
    CHECK(::write(copy, "x", 1) == 1);
    ::close(copy);
    char byte = 0;
    CHECK(::read(ends[0], &byte, 1) == 1);
  }
  char byte = 0;
  CHECK(::read(ends[0], &byte, 1) == 0);  // no writer is left
  ::close(ends[0]);
}

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
