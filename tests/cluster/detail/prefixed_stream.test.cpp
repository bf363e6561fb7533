#include "lockstep/cluster/detail/prefixed_stream.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

using namespace lockstep::detail;

namespace {

/// A stream with the prefix "[1] ", what is written to it, and what it shows.
struct Rig {
  Pipe in, out;
  Descriptor writer = std::move(in.write);
  PrefixedStream stream{std::move(in.read), out.write.get(), "[1] ", "\036note "};

  void write(std::string_view text) const {
    REQUIRE(::write(writer.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  [[nodiscard]] std::string shown() const {
    char text[4096];
    const ssize_t size = ::read(out.read.get(), text, sizeof text);
    return {text, size > 0 ? static_cast<std::size_t>(size) : 0};
  }
};

}  // namespace

TEST_CASE("prefixed stream: shows complete lines, and the rest at the end") {
  Rig rig;
  CHECK_FALSE(rig.stream.pump());
  rig.write("one\ntwo\nthr");
  CHECK(rig.stream.pump());
  CHECK(rig.shown() == "[1] one\n[1] two\n");
  rig.write("ee");
  CHECK(rig.stream.pump());
  CHECK(rig.shown().empty());
  rig.writer.close();
  CHECK_FALSE(rig.stream.pump());
  CHECK(rig.shown() == "[1] three\n");
  CHECK_FALSE(rig.stream.source().is_open());
}

TEST_CASE("prefixed stream: of a line that was drawn several times, the last one is shown") {
  Rig rig;
  rig.write("1/3\r2/3\r3/3\r\n");
  CHECK(rig.stream.pump());
  CHECK(rig.shown() == "[1] 3/3\n");
}

TEST_CASE("prefixed stream: what follows the mark is kept, wherever it stands in a line") {
  Rig rig;
  rig.write("\036note a\n1/3\036note b\none\n");
  CHECK(rig.stream.pump());
  CHECK(rig.stream.take_marked() == "a\nb\n");
  CHECK(rig.stream.take_marked().empty());
  CHECK(rig.shown() == "[1] 1/3\n[1] one\n");
}

TEST_CASE("prefixed stream: output without a reader is lost, and the error is kept") {
  Rig rig;
  rig.out.write.close();
  rig.write("lost\n");
  CHECK(rig.stream.pump());
  CHECK(rig.stream.failure() == EBADF);
}
