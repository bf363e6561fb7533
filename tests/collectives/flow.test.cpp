#include "lockstep/collectives/flow.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>

using namespace lockstep;

TEST_CASE("SpanFlow: goes through both spans, each at its own pace") {
  std::array<std::byte, 5> out{}, in{};
  SpanFlow flow(out, std::span(in).first(3));
  CHECK(flow.bytes_to_send() == 5);
  CHECK(flow.bytes_to_receive() == 3);
  flow.sent(2);
  CHECK(flow.outgoing().data() == out.data() + 2);
  CHECK(flow.outgoing().size() == 3);
  CHECK(flow.incoming().data() == in.data());
  flow.received(3);
  CHECK(flow.incoming().empty());
  flow.sent(3);
  CHECK(flow.outgoing().empty());
  CHECK(flow.bytes_to_send() == 5);  // of the whole stream, not what is left
}

TEST_CASE("SpanFlow: either span may be empty") {
  std::array<std::byte, 1> byte{};
  SpanFlow sends(byte, {});
  CHECK(sends.bytes_to_receive() == 0);
  CHECK(sends.incoming().empty());
  SpanFlow receives({}, byte);
  CHECK(receives.bytes_to_send() == 0);
  CHECK(receives.outgoing().empty());
}
